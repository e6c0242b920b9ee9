package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	driver "modernc.org/sqlite"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// crowdClock is the time in a crowded store.
const crowdClock = 1_700_000_000

// crowds are kinds of jobs that may stand around in the queue of a claim: the first half of a statement whose second half
// makes the numbers i from 1 to n.
var crowds = []struct{ name, insert string }{
	{"nobody", ""},
	{"delayed_of_a_higher_priority", `INSERT INTO __alkstore_live
		(queue, payload, priority, run_at, max_attempts, created_at) SELECT 'q', x'00', 9, :now + i, 5, 0 FROM n`},
	{"delayed_of_five_priorities", `INSERT INTO __alkstore_live
		(queue, payload, priority, run_at, max_attempts, created_at) SELECT 'q', x'00', i % 5, :now + i, 5, 0 FROM n`},
	{"dead", `INSERT INTO __alkstore_dead
		(id, queue, payload, run_at, max_attempts, created_at, died_at, dead_letter_retention_s)
		SELECT 1000000000 + i, 'q', x'00', 0, 5, 0, :now - i, 100000000 FROM n`},
	{"processing", `INSERT INTO __alkstore_live
		(queue, payload, state, run_at, claim_expires_at, attempts, fence, max_attempts, created_at)
		SELECT 'q', x'00', 'processing', 0, :now + i, 1, 1, 5, 0 FROM n`},
	{"processing_on_the_last_attempt", `INSERT INTO __alkstore_live
		(queue, payload, state, run_at, claim_expires_at, attempts, fence, max_attempts, created_at)
		SELECT 'q', x'00', 'processing', 0, :now + i, 1, 1, 1, 0 FROM n`},
	{"ready", `INSERT INTO __alkstore_live
		(queue, payload, run_at, max_attempts, created_at) SELECT 'q', x'00', :now - i, 5, 0 FROM n`},
	{"ready_with_an_expiry", `INSERT INTO __alkstore_live
		(queue, payload, run_at, max_attempts, created_at, expires_at) SELECT 'q', x'00', :now - i, 5, 0, :now + i FROM n`},
	{"of_another_queue", `INSERT INTO __alkstore_live
		(queue, payload, run_at, max_attempts, created_at) SELECT 'other', x'00', 0, 5, 0 FROM n`},
}

// crowded is a store with some ready jobs in queue "q" amid a crowd of n.
func crowded(t testing.TB, ready int, insert string, n int) *Store {
	t.Helper()
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "queue.db"),
		Options{Synchronous: "NORMAL", Clock: func() int64 { return crowdClock }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	beside := openPool(s.Path(), Options{Synchronous: "NORMAL"}, callers, 1)
	defer func() { _ = beside.Close() }()
	if insert != "" {
		_, err := beside.ExecContext(t.Context(),
			"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :n) "+insert,
			sql.Named("n", n), sql.Named("now", crowdClock))
		if err != nil {
			t.Fatal(err)
		}
	}
	job := sqlstore.NewJob{Queue: "q", Payload: []byte("x"), Stamps: sqlstore.Stamps{VisibilityTimeoutS: 30, MaxAttempts: 5}}
	jobs := make([]sqlstore.NewJob, ready)
	for i := range jobs {
		jobs[i] = job
	}
	if _, err := s.Enqueue(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
	if _, err := beside.ExecContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		t.Fatal(err)
	}
	return s
}

var errUndo = errors.New("undo")

// rounds are what a worker does all the time, on a transaction that is undone.
var rounds = []struct {
	name string
	do   func(ctx context.Context, t *tx) error
}{
	{"claim_of_one", func(ctx context.Context, t *tx) error { return claimJobs(ctx, t, 1) }},
	{"claim_of_ten", func(ctx context.Context, t *tx) error { return claimJobs(ctx, t, 10) }},
	{"next_ready", func(ctx context.Context, t *tx) error {
		var at integer
		_, err := t.one(ctx, "next_ready", []any{&at}, sql.Named("queue", "q"), sql.Named("now", t.now))
		return err
	}},
	{"idle", func(ctx context.Context, t *tx) error {
		var idle bool
		_, err := t.one(ctx, "idle", []any{&idle}, sql.Named("queues", `["q"]`), sql.Named("now", t.now))
		return err
	}},
	{"sweep", func(ctx context.Context, t *tx) error {
		for _, name := range []string{"sweep_expired", "sweep_retention"} {
			err := t.query(ctx, name, func(*sql.Rows) error { return errors.New("there is nothing to sweep") },
				sql.Named("queue", "q"), sql.Named("now", t.now), sql.Named("limit", bite))
			if err != nil {
				return err
			}
		}
		_, err := t.exec(ctx, "sweep_repair", sql.Named("queue", "q"), sql.Named("now", t.now))
		return err
	}},
}

func claimJobs(ctx context.Context, t *tx, n int) error {
	rows, err := t.claim(ctx, sqlstore.Claim{Queue: "q", Claimant: "me", Limit: int64(n)})
	if err == nil && len(rows) != n {
		err = fmt.Errorf("claimed %d jobs, want %d", len(rows), n)
	}
	return err
}

// pages counts the pages that work looks at. It is what a statement costs, whatever else the machine does.
func pages(t testing.TB, s *Store, work func(ctx context.Context, t *tx) error) (n int) {
	t.Helper()
	count := func() (n int) {
		err := s.write.conn.Raw(func(c any) error {
			for _, op := range []driver.DBStatusOp{driver.DBStatusCacheHit, driver.DBStatusCacheMiss} {
				part, _, err := c.(driver.DBStatus).Status(op, true)
				n += part
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	err := s.writing(t.Context(), ordinary, alone, func(ctx context.Context, tx *tx) error {
		if err := work(ctx, tx); err != nil { // prepares the statements
			return err
		}
		count()
		if err := work(ctx, tx); err != nil {
			return err
		}
		n = count()
		return errUndo
	})
	if !errors.Is(err, errUndo) {
		t.Fatal(err)
	}
	return n
}

func TestCrowds(t *testing.T) {
	alone := make(map[string]int)
	for _, c := range crowds {
		t.Run("T3_"+c.name+"_cost_nothing", func(t *testing.T) {
			s := crowded(t, 20, c.insert, 20_000/Slowness)
			for _, r := range rounds {
				n := pages(t, s, r.do)
				if c.name == "nobody" {
					alone[r.name] = n
				}
				// Trees are deeper, and a claim looks once for each priority.
				if limit := 2*alone[r.name] + 60; n > limit {
					t.Errorf("%s looks at %d pages, want at most %d; %d when alone", r.name, n, limit, alone[r.name])
				} else {
					t.Logf("%s: %d pages", r.name, n)
				}
			}
		})
	}
}

// BenchmarkClaim is one claim of one job, and its undoing, with a million jobs of other kinds around; -benchtime=100x.
func BenchmarkClaim(b *testing.B) {
	for _, c := range crowds {
		n := 1_000_000
		if c.name == "processing" || c.name == "processing_on_the_last_attempt" {
			n = 10_000
		}
		b.Run(fmt.Sprintf("%d_%s", n, c.name), func(b *testing.B) {
			s := crowded(b, 10, c.insert, n)
			for _, r := range rounds {
				b.Run(r.name, func(b *testing.B) {
					var worst time.Duration
					for b.Loop() {
						began := time.Now()
						err := s.writing(b.Context(), ordinary, alone, func(ctx context.Context, tx *tx) error {
							return cmp.Or(r.do(ctx, tx), errUndo)
						})
						if !errors.Is(err, errUndo) {
							b.Fatal(err)
						}
						worst = max(worst, time.Since(began))
					}
					b.ReportMetric(float64(worst.Microseconds()), "worst-µs")
				})
			}
		})
	}
}

// K93: however much there is to do that nobody has asked for by id, others get their turns in between.
func TestBites(t *testing.T) {
	const expired = `INSERT INTO __alkstore_live (queue, payload, run_at, max_attempts, created_at, expires_at)
		SELECT 'q', x'00', 0, 5, 0, :now - 1 FROM n`
	const past = `INSERT INTO __alkstore_dead
		(id, queue, payload, run_at, max_attempts, created_at, died_at, dead_letter_retention_s)
		SELECT 1000000000 + i, 'q', x'00', 0, 5, 0, 0, 1 FROM n`
	const spent = `INSERT INTO __alkstore_live (queue, payload, run_at, attempts, max_attempts, created_at)
		SELECT 'q', x'00', 0, 5, 5, 0 FROM n`
	sweep := func(ctx context.Context, t *tx) (int64, error) {
		swept, err := t.sweep(ctx, "q", "expired")
		return swept.Expired + swept.Dropped, err
	}
	dead := func(ctx context.Context, t *tx) (n int64, err error) {
		err = t.on.(*sql.Conn).QueryRowContext(ctx, "SELECT count(*) FROM __alkstore_dead").Scan(&n)
		return n, err
	}
	for _, tt := range []struct {
		name, insert string
		do           func(ctx context.Context, t *tx) (int64, error)
	}{
		{"expired", expired, sweep},
		{"past_retention", past, sweep},
		{"exhausted", spent, func(ctx context.Context, t *tx) (int64, error) {
			before, err1 := dead(ctx, t)
			err2 := claimJobs(ctx, t, 0)
			after, err3 := dead(ctx, t)
			return after - before, errors.Join(err1, err2, err3)
		}},
	} {
		t.Run("K93_"+tt.name, func(t *testing.T) {
			s := crowded(t, 0, tt.insert, 2*bite+1)
			var took []int64
			for {
				var n int64
				err := s.writing(t.Context(), ordinary, alone, func(ctx context.Context, tx *tx) (err error) {
					n, err = tt.do(ctx, tx)
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				if n == 0 {
					break
				}
				took = append(took, n)
			}
			if want := []int64{bite, bite, 1}; !slices.Equal(took, want) {
				t.Errorf("bites: got %v, want %v", took, want)
			}
		})
	}
}
