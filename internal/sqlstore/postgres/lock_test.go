package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
	"github.com/alkstore/alkworker/internal/sqlstore/storetest"
)

// brief waits for a locked row hardly at all.
var brief = postgres.Options{BusyTimeout: 50 * time.Millisecond}

func TestLockedRows(t *testing.T) {
	db, ok := pgtest.New(t)
	if !ok {
		return
	}
	s, beside := open(t, db.DSN(), brief), pool(t, db)
	t.Run("K6_a_heartbeat_passes_over_a_job_that_is_about_to_be_acked", func(t *testing.T) {
		enqueue(t, s, jobs(3, newJob("q"))...)
		rows := claim(t, s, "q", 3)
		execute(t, beside, "UPDATE __alkstore_live SET claim_expires_at = claim_expires_at - 10")
		tx := begin(t, beside)
		if acked := must(s.AckBatchTx(t.Context(), tx, handles(rows[:1])))(t); !acked[0] {
			t.Fatal("ack was refused")
		}
		extensions := make([]sqlstore.Extension, len(rows))
		for i, r := range rows {
			extensions[i].Handle = handle(r)
		}
		for i, ok := range must(s.Heartbeat(t.Context(), extensions))(t) {
			if !ok {
				t.Errorf("heartbeat %d: got false, want true: nobody else can have the job", i)
			}
		}
		for _, r := range rows[1:] {
			if got := *get(t, s, r.ID).ClaimExpiresAt; got < *r.ClaimExpiresAt {
				t.Errorf("deadline of job %d: got %d, want at least %d", r.ID, got, *r.ClaimExpiresAt)
			}
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if kept := must(s.Heartbeat(t.Context(), extensions))(t); kept[0] || !kept[1] || !kept[2] {
			t.Errorf("heartbeats after the commit: got %v, want the first refused", kept)
		}
		must(s.AckBatch(t.Context(), handles(rows)))(t)
	})
	t.Run("H3_a_heartbeat_comes_back_to_what_was_locked_for_a_moment", func(t *testing.T) {
		// As a claim does that has seen the job when it was still pending, and locks it to find that it is not any more.
		tx := begin(t, beside)
		clock := storetest.NewClock()
		looks, freed := 0, 0
		s := open(t, db.DSN(), postgres.Options{Clock: func() int64 { // once for each try
			if looks++; looks == freed {
				if err := tx.Rollback(); err != nil {
					t.Error(err)
				}
			}
			return clock.Now()
		}})
		enqueue(t, s, newJob("brief"))
		h := hold(t, s, "brief")
		if _, err := tx.ExecContext(t.Context(), "SELECT 1 FROM __alkstore_live WHERE id = $1 FOR UPDATE", h.ID); err != nil {
			t.Fatal(err)
		}
		looks, freed = 0, 2
		if kept := must(s.Heartbeat(t.Context(), []sqlstore.Extension{{Handle: h, S: new(int64(3600))}}))(t); !kept[0] {
			t.Error("heartbeat: got false, want true")
		}
		if got, want := *get(t, s, h.ID).ClaimExpiresAt, clock.Now()+3600; got != want {
			t.Errorf("deadline after a heartbeat that was granted: got %d, want %d", got, want)
		}
		must(s.Cancel(t.Context(), []int64{h.ID}))(t)
	})
	for name, kind := range map[string]sqlstore.ClaimKind{
		"C1_a_claim_passes_over_what_others_have_locked": sqlstore.AnyJob,
		"C1_so_does_a_claim_of_proven_jobs":              sqlstore.OnlyProven,
	} {
		t.Run(name, func(t *testing.T) {
			claim := func(limit int64) []int64 {
				c := claimOf("q", limit)
				c.Kind = kind
				return ids(must(s.ClaimBatch(t.Context(), c))(t))
			}
			fresh := enqueue(t, s, jobs(3, newJob("q"))...)
			tx := begin(t, beside)
			if _, err := tx.ExecContext(t.Context(), "SELECT 1 FROM __alkstore_live WHERE id = $1 FOR UPDATE", fresh[0]); err != nil {
				t.Fatal(err)
			}
			if got := claim(2); len(got) != 2 || got[0] != fresh[1] || got[1] != fresh[2] {
				t.Errorf("claimed: got %v, want %v", got, fresh[1:])
			}
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			var got []int64
			until(t, "a claim once it is free", func() bool { // it lies behind what was claimed: on a slow server not at once
				got = claim(2)
				return len(got) > 0
			})
			if len(got) != 1 || got[0] != fresh[0] {
				t.Errorf("claimed once it is free: got %v, want %v", got, fresh[:1])
			}
			must(s.Cancel(t.Context(), fresh))(t)
		})
	}
	t.Run("what_has_to_wait_for_a_row_is_busy_after_a_while", func(t *testing.T) { busyAfterAWhile(t, s, beside) })
	t.Run("batches_with_the_same_jobs_in_any_order_do_not_deadlock", func(t *testing.T) {
		const n, rounds = 200, 10
		patient := open(t, db.DSN(), postgres.Options{})
		for range rounds {
			enqueue(t, s, jobs(n, newJob("q"))...)
			forth := handles(claim(t, s, "q", n))
			back := make([]sqlstore.Handle, n)
			for i, h := range forth {
				back[n-1-i] = h
			}
			ended := make(chan error, 3)
			acked := make([][]bool, 2)
			for i, batch := range [][]sqlstore.Handle{forth, back} {
				go func() {
					var err error
					acked[i], err = patient.AckBatch(t.Context(), batch)
					ended <- err
				}()
			}
			var failed []bool
			go func() {
				failures := make([]sqlstore.Failing, n)
				for i, h := range back {
					failures[i] = sqlstore.Failing{Handle: h, Error: "x"}
				}
				var err error
				failed, err = patient.Fail(t.Context(), failures)
				ended <- err
			}()
			for range 3 {
				if err := <-ended; err != nil {
					t.Fatal(err)
				}
			}
			for i := range n {
				count := 0
				for _, ok := range []bool{acked[0][i], acked[1][n-1-i], failed[n-1-i]} {
					if ok {
						count++
					}
				}
				if count != 1 {
					t.Fatalf("job %d was ended %d times", forth[i].ID, count)
				}
			}
		}
		must(s.PurgeMatching(t.Context(), sqlstore.DeadFilter{}, 1<<40))(t)
	})
	t.Run("K6_a_heartbeat_does_not_queue_behind_a_busy_pool", func(t *testing.T) {
		enqueue(t, s, newJob("q"))
		h := hold(t, s, "q")
		locker := must(pgx.Connect(t.Context(), db.URL))(t)
		defer func() { _ = locker.Close(context.WithoutCancel(t.Context())) }()
		tx := must(locker.Begin(t.Context()))(t)
		if _, err := tx.Exec(t.Context(), "LOCK TABLE "+pgx.Identifier{db.Schema, "__alkstore_dead"}.Sanitize()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 40)
		patient := open(t, db.DSN(), postgres.Options{BusyTimeout: time.Minute})
		for range cap(ended) {
			go func() {
				ended <- second(patient.Fail(ctx, []sqlstore.Failing{{Handle: sqlstore.Handle{ID: h.ID + 1, Fence: 1}}}))
			}()
		}
		until(t, "the pool is used up", func() bool {
			shared, _ := patient.Pools()
			return shared.AcquiredConns() == shared.MaxConns()
		})
		began := time.Now()
		kept := must(patient.Heartbeat(t.Context(), []sqlstore.Extension{{Handle: h}}))(t)
		if took := time.Since(began); !kept[0] || took > 5*time.Second {
			t.Errorf("heartbeat: got %v after %v", kept, took)
		}
		cancel()
		for range cap(ended) {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("fail: got %v, want context.Canceled", err)
			}
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		must(s.AckBatch(t.Context(), []sqlstore.Handle{h}))(t)
	})
	healthy(t, s)
}

// busyAfterAWhile tries everything that waits for a locked row, on a store that is brief.
func busyAfterAWhile(t *testing.T, s *postgres.Store, beside *sql.DB) {
	enqueue(t, s, newJob("q"))
	h := hold(t, s, "q")
	tx := begin(t, beside)
	must(tx.ExecContext(t.Context(), "SELECT 1 FROM __alkstore_live WHERE id = $1 FOR UPDATE", h.ID))(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for what, err := range map[string]error{
		"ack":     second(s.AckBatch(ctx, []sqlstore.Handle{h})),
		"retry":   second(s.Retry(ctx, []sqlstore.Retrial{{Handle: h}})),
		"fail":    second(s.Fail(ctx, []sqlstore.Failing{{Handle: h}})),
		"release": second(s.Release(ctx, []sqlstore.Releasing{{Handle: h}})),
		"cancel":  second(s.Cancel(ctx, []int64{h.ID})),
	} {
		var typed *sqlstore.Error
		if !errors.Is(err, sqlstore.ErrBusy) || !errors.As(err, &typed) || typed.JobID != h.ID {
			t.Errorf("%s: got %v, want a typed ErrBusy", what, err)
		}
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if acked := must(s.AckBatch(t.Context(), []sqlstore.Handle{h}))(t); !acked[0] {
		t.Error("ack was refused once the row was free")
	}
}

// A row that somebody has locked keeps no other from being swept (D2).
func TestSweepPassesOver(t *testing.T) {
	for name, tc := range map[string]struct {
		table string
		edit  string // makes of every job what there is to sweep
		want  sqlstore.Swept
	}{
		"expired":            {"live", "UPDATE __alkstore_live SET expires_at = 1", sqlstore.Swept{Expired: 1}},
		"past_its_retention": {"dead", "UPDATE __alkstore_dead SET died_at = 1", sqlstore.Swept{Dropped: 1}},
		"without_a_deadline": {"live", "UPDATE __alkstore_live SET state = 'processing'", sqlstore.Swept{Repaired: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			db, ok := pgtest.New(t)
			if !ok {
				return
			}
			s := open(t, db.DSN(), postgres.Options{BusyTimeout: 50 * time.Millisecond})
			short := newJob("q")
			short.Stamps.DeadLetterRetentionS = new(int64(1))
			two := enqueue(t, s, short, short)
			if tc.table == "dead" {
				for range two {
					must(s.Fail(t.Context(), []sqlstore.Failing{{Handle: hold(t, s, "q")}}))(t)
				}
			}
			execute(t, pool(t, db), tc.edit)
			tx := begin(t, pool(t, db))
			must(tx.ExecContext(t.Context(), "SELECT 1 FROM __alkstore_"+tc.table+" WHERE id = $1 FOR UPDATE", two[0]))(t)
			for _, want := range []sqlstore.Swept{tc.want, {}} {
				if got, err := s.SweepExpired(t.Context(), "q", "expired"); err != nil || got != want {
					t.Errorf("with one of two locked: got %+v, %v, want %+v", got, err, want)
				}
			}
			must(0, tx.Rollback())(t)
			if got := must(s.SweepExpired(t.Context(), "q", "expired"))(t); got != tc.want {
				t.Errorf("behind the lock: got %+v, want %+v", got, tc.want)
			}
		})
	}
}

// What is locked for a moment only, as by a claim, is swept as well; and a sweep that is cut short while it waits says what
// it has done (D2).
func TestSweepComesBack(t *testing.T) {
	for name, tc := range map[string]struct {
		then func(tx *sql.Tx, leave context.CancelFunc) error // when all else is swept
		want sqlstore.Swept
		err  error
	}{
		"unlocked":  {func(tx *sql.Tx, _ context.CancelFunc) error { return tx.Rollback() }, sqlstore.Swept{Expired: 2}, nil},
		"cut_short": {func(_ *sql.Tx, leave context.CancelFunc) error { leave(); return nil }, sqlstore.Swept{Expired: 1}, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			db, ok := pgtest.New(t)
			if !ok {
				return
			}
			s := open(t, db.DSN(), postgres.Options{})
			two := enqueue(t, s, newJob("q"), newJob("q"))
			execute(t, pool(t, db), "UPDATE __alkstore_live SET expires_at = 1")
			tx := begin(t, pool(t, db))
			must(tx.ExecContext(t.Context(), "SELECT 1 FROM __alkstore_live WHERE id = $1 FOR UPDATE", two[0]))(t)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			swept := make(chan sqlstore.Swept, 1)
			go func() {
				got, err := s.SweepExpired(ctx, "q", "expired")
				if !errors.Is(err, tc.err) {
					t.Errorf("sweep: got error %v, want %v", err, tc.err)
				}
				swept <- got
			}()
			until(t, "the other job is swept", func() bool { return get(t, s, two[1]).State == sqlstore.Dead })
			must(0, tc.then(tx, leave))(t)
			if got := <-swept; got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

// Dead jobs that somebody has locked are none that do not match: they come last, and are told if they stay locked (D4).
func TestMatchingWaits(t *testing.T) {
	for name, op := range map[string]func(*postgres.Store, context.Context, sqlstore.DeadFilter, int64) (int64, error){
		"requeue": (*postgres.Store).RequeueMatching, "purge": (*postgres.Store).PurgeMatching,
	} {
		for _, queue := range []string{"", "q"} {
			t.Run(name+"_in_queue_"+queue, func(t *testing.T) {
				db, ok := pgtest.New(t)
				if !ok {
					return
				}
				hasty, patient := open(t, db.DSN(), brief), open(t, db.DSN(), postgres.Options{BusyTimeout: time.Minute})
				three := enqueue(t, hasty, jobs(3, newJob("q"))...)
				for range three {
					must(hasty.Fail(t.Context(), []sqlstore.Failing{{Handle: hold(t, hasty, "q")}}))(t)
				}
				tx := begin(t, pool(t, db))
				must(tx.ExecContext(t.Context(), "SELECT 1 FROM __alkstore_dead WHERE id = $1 FOR UPDATE", three[0]))(t)
				f := sqlstore.DeadFilter{Queue: queue}
				if n, err := op(hasty, t.Context(), f, 1); n != 1 || err != nil {
					t.Errorf("one of three: got %d, %v, want 1 that is not locked", n, err)
				}
				if n, err := op(hasty, t.Context(), f, 10); n != 1 || !errors.Is(err, sqlstore.ErrBusy) {
					t.Errorf("what is left, with one locked: got %d, %v, want 1 and ErrBusy", n, err)
				}
				answered := make(chan int64, 1)
				go func() {
					n, err := op(patient, t.Context(), f, 10)
					if err != nil {
						t.Error(err)
					}
					answered <- n
				}()
				until(t, "it looks for what is locked", func() bool {
					shared, _ := patient.Pools()
					return shared.AcquireCount() > 1
				})
				must(0, tx.Rollback())(t)
				if n := <-answered; n != 1 {
					t.Errorf("once it is free: got %d, want 1", n)
				}
			})
		}
	}
}

// A patience of less than the server can express is not none: that would be a wait without end.
func TestLeastBusyTimeout(t *testing.T) {
	db, ok := pgtest.New(t)
	if !ok {
		return
	}
	s := open(t, db.DSN(), postgres.Options{BusyTimeout: time.Microsecond})
	id := enqueue(t, s, newJob("q"))[0]
	tx := begin(t, pool(t, db))
	must(tx.ExecContext(t.Context(), "SELECT 1 FROM __alkstore_live WHERE id = $1 FOR UPDATE", id))(t)
	if _, err := s.Cancel(t.Context(), []int64{id}); !errors.Is(err, sqlstore.ErrBusy) {
		t.Errorf("cancel of a locked job: got %v, want ErrBusy", err)
	}
}

// Pages wait for a table that somebody rewrites, as many as there are browsers. Jobs have nothing to do with that table.
func TestPagesAndClaims(t *testing.T) {
	db, ok := pgtest.New(t)
	if !ok {
		return
	}
	s := open(t, db.DSN(), postgres.Options{BusyTimeout: time.Minute})
	enqueue(t, s, jobs(100, newJob("q"))...)
	tx := begin(t, pool(t, db))
	must(tx.ExecContext(t.Context(), "LOCK TABLE __alkstore_dead"))(t)
	ctx, cancel := context.WithCancel(t.Context())
	var pages sync.WaitGroup
	for range 20 {
		pages.Go(func() {
			if _, err := s.ListJobs(ctx, sqlstore.Filter{Limit: 50}); !errors.Is(err, context.Canceled) {
				t.Errorf("a page: got %v, want it to wait until it is cancelled", err)
			}
		})
	}
	until(t, "pages wait", func() bool {
		shared, _ := s.Pools()
		return shared.AcquiredConns() == shared.MaxConns()-2
	})
	one := claimOf("q", 1)
	one.Kind = sqlstore.OnlyProven // which buries nothing
	for range 100 {
		if rows := must(s.ClaimBatch(t.Context(), one))(t); len(rows) != 1 {
			t.Fatalf("claimed %d jobs, want 1", len(rows))
		}
	}
	cancel()
	pages.Wait()
}
