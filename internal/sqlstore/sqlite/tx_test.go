package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

func begin(t *testing.T, db *sql.DB) *sql.Tx {
	t.Helper()
	tx := must(db.BeginTx(t.Context(), nil))(t)
	t.Cleanup(func() { _ = tx.Rollback() }) // of no effect after its end
	return tx
}

// deferredPool is a pool whose transactions take the write lock only when they first write, and wait an hour for it.
func deferredPool(t *testing.T, path string) *sql.DB {
	t.Helper()
	db := must(sql.Open("sqlite", "file:"+path+"?_busy_timeout=3600000"))(t)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestTransactionOfTheCaller(t *testing.T) {
	t.Run("K50_a_deferred_one_that_has_read_before_another_wrote_is_busy_at_once", func(t *testing.T) {
		path := newFile(t)
		s := open(t, path, quick)
		enqueue(t, s, newJob("q"))
		h := hold(t, s, "q")
		for what, do := range map[string]func(tx *sql.Tx) error{
			"enqueue": func(tx *sql.Tx) error { return second(s.EnqueueTx(t.Context(), tx, jobs(1, newJob("q")))) },
			"ack":     func(tx *sql.Tx) error { return second(s.AckBatchTx(t.Context(), tx, []sqlstore.Handle{h})) },
		} {
			tx := begin(t, deferredPool(t, path))
			var n int
			if err := tx.QueryRowContext(t.Context(), "SELECT count(*) FROM __alkstore_live").Scan(&n); err != nil {
				t.Fatal(err)
			}
			enqueue(t, s, newJob("other"))
			err := do(tx) // would never return if it waited
			var typed *sqlstore.Error
			if !errors.Is(err, sqlstore.ErrBusy) || !errors.As(err, &typed) || typed.Op == "" {
				t.Errorf("%s: got %v, want a typed ErrBusy", what, err)
			}
			if err := tx.Rollback(); err != nil {
				t.Errorf("%s: rollback: %v", what, err)
			}
			tx = begin(t, deferredPool(t, path))
			if err := errors.Join(do(tx), tx.Commit()); err != nil {
				t.Errorf("%s in a new transaction: %v", what, err)
			}
		}
	})
	t.Run("K50_one_through_our_DSN_can_read_and_then_write", func(t *testing.T) {
		path := newFile(t)
		s := open(t, path, impatient)
		tx := begin(t, pool(t, path))
		var n int
		if err := tx.QueryRowContext(t.Context(), "SELECT count(*) FROM __alkstore_live").Scan(&n); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Enqueue(t.Context(), jobs(1, newJob("q"))); !errors.Is(err, sqlstore.ErrBusy) {
			t.Errorf("another write meanwhile: got %v, want ErrBusy", err)
		}
		must(s.EnqueueTx(t.Context(), tx, jobs(1, newJob("q"))))(t)
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
	})
	t.Run("T6_what_fails_inside_is_undone_and_the_rest_can_be_committed", func(t *testing.T) {
		path := newFile(t)
		s, beside := open(t, path, quick), pool(t, path)
		execute(t, beside, "CREATE TABLE orders (id INTEGER PRIMARY KEY)")
		h := make([]sqlstore.Handle, 2)
		for i := range h {
			enqueue(t, s, newJob("q"))
			h[i] = hold(t, s, "q")
		}
		execute(t, beside, fmt.Sprintf(`CREATE TRIGGER fault BEFORE DELETE ON __alkstore_live WHEN old.id = %d
			BEGIN SELECT RAISE(FAIL, 'injected'); END`, h[1].ID))
		late := newJob("q")
		late.RunAt, late.ExpiresS = new(int64(1<<40)), new(int64(1))

		tx := begin(t, beside)
		execute := func(statement string) {
			t.Helper()
			if _, err := tx.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		execute("INSERT INTO orders VALUES (1)")
		if _, err := s.EnqueueTx(t.Context(), tx, []sqlstore.NewJob{newJob("q"), late}); !errors.Is(err, sqlstore.ErrExpiresFirst) {
			t.Errorf("enqueue: got %v, want ErrExpiresFirst", err)
		}
		if _, err := s.AckBatchTx(t.Context(), tx, h); err == nil || !strings.Contains(err.Error(), "injected") {
			t.Errorf("ack: got %v, want the injected error", err)
		}
		execute("INSERT INTO orders VALUES (2)")
		acked := must(s.AckBatchTx(t.Context(), tx, h[:1]))(t)
		id := must(s.EnqueueTx(t.Context(), tx, jobs(1, newJob("q"))))(t)
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if n := value[int64](t, beside, "SELECT count(*) FROM orders"); n != 2 {
			t.Errorf("E5: orders: got %d, want 2", n)
		}
		left := ids(must(s.ListJobs(t.Context(), sqlstore.Filter{Limit: 9}))(t))
		if want := []int64{id[0], h[1].ID}; !acked[0] || !slices.Equal(left, want) {
			t.Errorf("H2: acked %v, jobs left %v, want %v", acked, left, want)
		}
	})
	t.Run("T6_savepoints_of_the_caller_hold_ours", func(t *testing.T) {
		path := newFile(t)
		s, beside := open(t, path, quick), pool(t, path)
		enqueue(t, s, newJob("q"))
		h := hold(t, s, "q")
		tx := begin(t, beside)
		for _, step := range []func() error{
			func() error { return second(tx.ExecContext(t.Context(), "SAVEPOINT theirs")) },
			func() error { return second(s.EnqueueTx(t.Context(), tx, jobs(3, newJob("q")))) },
			func() error { return second(s.AckBatchTx(t.Context(), tx, []sqlstore.Handle{h})) },
			func() error { return second(tx.ExecContext(t.Context(), "ROLLBACK TO theirs")) },
			func() error { return second(s.EnqueueTx(t.Context(), tx, jobs(2, newJob("q")))) },
			tx.Commit,
		} {
			if err := step(); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(must(s.ListJobs(t.Context(), sqlstore.Filter{Limit: 9}))(t)); n != 3 {
			t.Errorf("got %d jobs, want the held one and two", n)
		}
	})
	t.Run("T6_a_context_that_ends_during_the_call_does_not_end_the_transaction", func(t *testing.T) {
		path := newFile(t)
		s, beside := open(t, path, quick), pool(t, path)
		execute(t, beside, "CREATE TABLE orders (id INTEGER PRIMARY KEY)")
		var cut atomic.Int64
		for round := range 30 {
			tx := begin(t, beside)
			if _, err := tx.ExecContext(t.Context(), "INSERT INTO orders DEFAULT VALUES"); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(round)*100*time.Microsecond)
			if _, err := s.EnqueueTx(ctx, tx, jobs(200, newJob("q"))); err != nil {
				cut.Add(1)
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("round %d: got %v", round, err)
				}
			}
			cancel()
			if _, err := tx.ExecContext(t.Context(), "INSERT INTO orders DEFAULT VALUES"); err != nil {
				t.Errorf("round %d: the caller goes on: %v", round, err)
			}
			if err := tx.Commit(); err != nil {
				t.Fatalf("round %d: commit: %v", round, err)
			}
		}
		if n := value[int64](t, beside, "SELECT count(*) FROM orders"); n != 60 {
			t.Errorf("orders: got %d, want 60", n)
		}
		want := 200 * (30 - cut.Load())
		if n := value[int64](t, beside, "SELECT count(*) FROM __alkstore_live"); n != want {
			t.Errorf("jobs: got %d, want %d, all of each call or none", n, want)
		}
	})
	t.Run("E5_one_that_is_over_or_not_ours", func(t *testing.T) {
		path := newFile(t)
		s := open(t, path, quick)
		tx := begin(t, pool(t, path))
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.EnqueueTx(t.Context(), tx, jobs(1, newJob("q"))); !errors.Is(err, sql.ErrTxDone) {
			t.Errorf("a finished transaction: got %v, want sql.ErrTxDone", err)
		}
		for _, wrong := range []sqlstore.Tx{nil, (*sql.Tx)(nil), "tx", 7} {
			if _, err := s.EnqueueTx(t.Context(), wrong, jobs(1, newJob("q"))); !errors.Is(err, sqlstore.ErrUnsupported) {
				t.Errorf("transaction %#v: got %v, want ErrUnsupported", wrong, err)
			}
		}
		if _, err := s.EnqueueTx(t.Context(), begin(t, pool(t, newFile(t))), jobs(1, newJob("q"))); err == nil {
			t.Error("a transaction on a database without our tables: got no error")
		}
	})
}
