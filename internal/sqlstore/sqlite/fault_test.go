package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/sqlite"
	"github.com/alkstore/alkworker/internal/sqlstore/storetest"
)

// impatient does not wait for a lock at all.
var impatient = sqlite.Options{BusyTimeout: 1, Synchronous: "NORMAL"}

// write is one way to change the database.
type write struct {
	name string
	do   func(ctx context.Context) error
}

// writes fills a store so that each way to change it has something to change, and returns them all.
func writes(t *testing.T, s *sqlite.Store) []write {
	t.Helper()
	ctx := t.Context()
	h := func(queue string) sqlstore.Handle {
		enqueue(t, s, newJob(queue))
		return hold(t, s, queue)
	}
	held, once := h("held"), newJob("once")
	once.Stamps.MaxAttempts = 1
	enqueue(t, s, once)
	last := hold(t, s, "once")
	dead := h("dead")
	expired := newJob("expired")
	expired.ExpiresS, expired.RunAt = new(int64(-1)), new(int64(0))
	enqueue(t, s, newJob("ready"), expired)
	register := func(ctx context.Context) error {
		return s.Register(ctx, "nightly", func(int64, *sqlstore.Schedule) (*sqlstore.Schedule, error) {
			return &sqlstore.Schedule{Queue: "q", Fire: sqlstore.FireOptions{Stamps: newJob("").Stamps}, CatchUp: 1}, nil
		})
	}
	_, ferr := s.Fail(ctx, []sqlstore.Failing{{Handle: dead, Error: "boom"}})
	_, lerr := s.Lead(ctx, "lock", "me", 60)
	if err := errors.Join(ferr, lerr, register(ctx), s.SetPaused(ctx, "paused", true),
		s.Announce(ctx, "me", []string{"q"}, 60)); err != nil {
		t.Fatal(err)
	}
	big := newJob("q")
	big.Payload = make([]byte, 5000)
	return []write{
		{"enqueue", func(ctx context.Context) error { return second(s.Enqueue(ctx, jobs(2, big))) }},
		{"enqueue alone", func(ctx context.Context) error { return second(s.Enqueue(ctx, jobs(1, newJob("q")))) }},
		{"claim", func(ctx context.Context) error { return second(s.ClaimBatch(ctx, claimOf("ready", 1))) }},
		{"ack", func(ctx context.Context) error { return second(s.AckBatch(ctx, []sqlstore.Handle{held})) }},
		{"heartbeat", func(ctx context.Context) error { return second(s.Heartbeat(ctx, []sqlstore.Extension{{Handle: held}})) }},
		{"retry", func(ctx context.Context) error { return second(s.Retry(ctx, []sqlstore.Retrial{{Handle: held}})) }},
		{"retry of the last attempt", func(ctx context.Context) error {
			return second(s.Retry(ctx, []sqlstore.Retrial{{Handle: last}}))
		}},
		{"fail", func(ctx context.Context) error { return second(s.Fail(ctx, []sqlstore.Failing{{Handle: held}})) }},
		{"release", func(ctx context.Context) error { return second(s.Release(ctx, []sqlstore.Releasing{{Handle: held}})) }},
		{"cancel", func(ctx context.Context) error { return second(s.Cancel(ctx, []int64{held.ID})) }},
		{"requeue", func(ctx context.Context) error { return second(s.Requeue(ctx, []int64{dead.ID})) }},
		{"requeue matching", func(ctx context.Context) error { return second(s.RequeueMatching(ctx, sqlstore.DeadFilter{}, 9)) }},
		{"purge", func(ctx context.Context) error { return second(s.Purge(ctx, []int64{dead.ID})) }},
		{"purge matching", func(ctx context.Context) error { return second(s.PurgeMatching(ctx, sqlstore.DeadFilter{}, 9)) }},
		{"pause", func(ctx context.Context) error { return s.SetPaused(ctx, "q", true) }},
		{"resume", func(ctx context.Context) error { return s.SetPaused(ctx, "paused", false) }},
		{"sweep", func(ctx context.Context) error { return second(s.SweepExpired(ctx, "expired", "expired")) }},
		{"register", register},
		{"unregister", func(ctx context.Context) error { return second(s.Unregister(ctx, "nightly")) }},
		{"tick", func(ctx context.Context) error {
			return second(s.Tick(ctx, func(now int64, _ sqlstore.Schedule) (sqlstore.Plan, error) {
				return sqlstore.Plan{Boundaries: []int64{now}, NextFireAt: now + 60}, nil
			}))
		}},
		{"fire now", func(ctx context.Context) error {
			_, _, err := s.FireNow(ctx, "nightly", func(sqlstore.Schedule) error { return nil })
			return err
		}},
		{"lead", func(ctx context.Context) error { return second(s.Lead(ctx, "lock", "me", 60)) }},
		{"resign", func(ctx context.Context) error { return s.Resign(ctx, "lock", "me") }},
		{"announce", func(ctx context.Context) error { return s.Announce(ctx, "me", []string{"q"}, 60) }},
		{"withdraw", func(ctx context.Context) error { return s.Withdraw(ctx, "me") }},
	}
}

func second[T any](_ T, err error) error { return err }

// sabotage makes each change of the store's tables fail, in the manner that SQLite calls how.
func sabotage(t *testing.T, db *sql.DB, how string) (mend func()) {
	t.Helper()
	rows := must(db.QueryContext(t.Context(),
		`SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE '\_\_alkstore%' ESCAPE '\'`))(t)
	defer rows.Close()
	var tables []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		tables = append(tables, name)
	}
	if err := rows.Err(); err != nil || len(tables) < 9 {
		t.Fatalf("tables: got %v, %v", tables, err)
	}
	each := func(statement string) {
		for _, table := range tables {
			for _, event := range []string{"INSERT", "UPDATE", "DELETE"} {
				execute(t, db, strings.NewReplacer("$table", table, "$event", event, "$how", how).Replace(statement))
			}
		}
	}
	each("CREATE TRIGGER fault_$table_$event BEFORE $event ON $table BEGIN SELECT RAISE($how, 'injected'); END")
	return func() { each("DROP TRIGGER fault_$table_$event") }
}

// unharmed fails the test unless the store has all its connections and works.
func unharmed(t *testing.T, s *sqlite.Store, beside *sql.DB, ways []write) {
	t.Helper()
	w, r := s.Pools()
	if w.OpenConnections > 1 || w.InUse > 1 || w.WaitCount > 0 {
		t.Errorf("pool of the writer: got %+v, want its one connection", w)
	}
	if r.InUse > 0 || beside.Stats().InUse > 0 {
		t.Errorf("connections in use: %d readers, %d of the caller, want none", r.InUse, beside.Stats().InUse)
	}
	execute(t, beside, "BEGIN IMMEDIATE; ROLLBACK")
	healthy(t, s)
	if got := fmt.Sprint(ids(must(s.ListJobs(t.Context(), sqlstore.Filter{Limit: 100}))(t))); got != "[5 4 3 2 1]" {
		t.Errorf("T6: jobs afterwards: got %s, want all that there were", got)
	}
	for _, way := range ways {
		if err := way.do(t.Context()); err != nil {
			t.Errorf("%s afterwards: %v", way.name, err)
		}
	}
}

func TestFaults(t *testing.T) {
	const times = 1000 / sqlite.Slowness
	fail := func(t *testing.T, ways []write, times int, check func(way write, err error)) {
		t.Helper()
		for _, way := range ways {
			for range times {
				err := way.do(t.Context())
				check(way, err)
				if t.Failed() {
					return
				}
			}
		}
	}
	t.Run("K39_busy_a_thousand_times_in_each_write", func(t *testing.T) {
		path := newFile(t)
		s, beside := open(t, path, impatient), pool(t, path)
		ways := writes(t, s)
		lock := must(beside.BeginTx(t.Context(), nil))(t)
		fail(t, ways, times, func(way write, err error) {
			var typed *sqlstore.Error
			if !errors.Is(err, sqlstore.ErrBusy) || !errors.As(err, &typed) || !sqlstore.Transient(err) {
				t.Errorf("K50: %s while another writes: got %v, want ErrBusy", way.name, err)
			}
		})
		must(s.Stats(t.Context()))(t) // readers do not mind
		if err := lock.Rollback(); err != nil {
			t.Fatal(err)
		}
		unharmed(t, s, beside, ways)
	})
	for how, times := range map[string]int{"ABORT": times, "FAIL": 10, "ROLLBACK": 10} {
		t.Run("K39_a_constraint_in_each_write_"+how, func(t *testing.T) {
			path := newFile(t)
			s, beside := open(t, path, quick), pool(t, path)
			ways := writes(t, s)
			mend := sabotage(t, beside, how)
			fail(t, ways, times, func(way write, err error) {
				var typed *sqlstore.Error
				if err == nil || !strings.Contains(err.Error(), "injected") || !errors.As(err, &typed) || sqlstore.Transient(err) {
					t.Errorf("%s: got %v, want the injected error", way.name, err)
				}
			})
			mend()
			unharmed(t, s, beside, ways)
		})
	}
	t.Run("K39_a_constraint_in_a_transaction_of_the_caller", func(t *testing.T) {
		path := newFile(t)
		clock := storetest.NewClock()
		s, beside := open(t, path, sqlite.Options{Clock: clock.Now, Synchronous: "NORMAL"}), pool(t, path)
		beside.SetMaxOpenConns(1)
		enqueue(t, s, newJob("q"))
		h := hold(t, s, "q")
		mend := sabotage(t, beside, "FAIL")
		for range times {
			tx := must(beside.BeginTx(t.Context(), nil))(t)
			for what, err := range map[string]error{
				"enqueue": second(s.EnqueueTx(t.Context(), tx, jobs(1, newJob("q")))),
				"ack":     second(s.AckBatchTx(t.Context(), tx, []sqlstore.Handle{h})),
			} {
				if err == nil || !strings.Contains(err.Error(), "injected") {
					t.Fatalf("%s: got %v, want the injected error", what, err)
				}
			}
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
		}
		mend()
		if n := beside.Stats().InUse; n > 0 {
			t.Errorf("%d connections of the caller are in use", n)
		}
		if acked := must(s.AckBatch(t.Context(), []sqlstore.Handle{h}))(t); !acked[0] {
			t.Error("ack was refused")
		}
		healthy(t, s)
	})
}
