package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
)

// transaction is one of the caller, of either kind.
type transaction struct {
	tx               sqlstore.Tx
	exec             func(query string) error
	commit, rollback func() error
}

// transactions begins one of each kind, on pools that know nothing of our schema.
func transactions(t *testing.T, db pgtest.Database) map[string]func() transaction {
	t.Helper()
	standard := must(sql.Open("pgx", db.URL))(t)
	t.Cleanup(func() { _ = standard.Close() })
	native := must(pgxpool.New(t.Context(), db.URL))(t)
	t.Cleanup(native.Close)
	ctx := context.WithoutCancel(t.Context())
	return map[string]func() transaction{
		"sql.Tx": func() transaction {
			tx := must(standard.BeginTx(ctx, nil))(t)
			return transaction{
				tx, func(query string) error { return second(tx.ExecContext(ctx, query)) }, tx.Commit, tx.Rollback,
			}
		},
		"pgx.Tx": func() transaction {
			tx := must(native.Begin(ctx))(t)
			return transaction{
				tx, func(query string) error { return second(tx.Exec(ctx, query)) },
				func() error { return tx.Commit(ctx) }, func() error { return tx.Rollback(ctx) },
			}
		},
	}
}

func TestTransactionOfTheCaller(t *testing.T) {
	db, ok := pgtest.New(t)
	if !ok {
		return
	}
	s := open(t, db.DSN(), postgres.Options{})
	beside := pool(t, db)
	execute(t, beside, "CREATE TABLE orders (n bigint)")
	orders := `INSERT INTO "` + db.Schema + `".orders VALUES (1)`
	for kind, begin := range transactions(t, db) {
		t.Run("E5_H2_what_the_caller_writes_and_ours_commit_together_"+kind, func(t *testing.T) {
			before := value[int](t, beside, "SELECT count(*) FROM orders")
			enqueue(t, s, newJob("q"))
			h := hold(t, s, "q")
			for _, commit := range []bool{false, true} {
				tx := begin()
				if err := tx.exec(orders); err != nil {
					t.Fatal(err)
				}
				ids := must(s.EnqueueTx(t.Context(), tx.tx, jobs(3, newJob("q"))))(t)
				acked := must(s.AckBatchTx(t.Context(), tx.tx, []sqlstore.Handle{h, {ID: h.ID, Fence: 9}}))(t)
				if len(ids) != 3 || !acked[0] || acked[1] {
					t.Fatalf("enqueued %v, acked %v", ids, acked)
				}
				if n := len(claim(t, s, "q", 9)); n != 0 {
					t.Errorf("claimed before the commit: got %d jobs", n)
				}
				end, want := tx.rollback, 0
				if commit {
					end, want = tx.commit, 3
				}
				if err := end(); err != nil {
					t.Fatal(err)
				}
				rows := claim(t, s, "q", 9)
				if len(rows) != want {
					t.Errorf("claimed after the end, committed %v: got %d jobs, want %d", commit, len(rows), want)
				}
				must(s.AckBatch(t.Context(), handles(rows)))(t)
				if r := must(s.GetJob(t.Context(), h.ID))(t); (r == nil) != commit {
					t.Errorf("the acked job after the end, committed %v: got %v", commit, r)
				}
			}
			if n := value[int](t, beside, "SELECT count(*) FROM orders") - before; n != 1 {
				t.Errorf("orders: got %d, want 1", n)
			}
		})
		t.Run("E4_a_job_that_expires_before_it_is_ready_leaves_the_transaction_usable_"+kind, func(t *testing.T) {
			tx := begin()
			for _, late := range []sqlstore.NewJob{
				{Queue: "late", DelayS: 10, ExpiresS: new(int64(1)), Stamps: newJob("").Stamps},
				{Queue: "late", RunAt: new(int64(1 << 40)), ExpiresS: new(int64(1)), Stamps: newJob("").Stamps},
			} {
				_, err := s.EnqueueTx(t.Context(), tx.tx, []sqlstore.NewJob{newJob("q"), late})
				var typed *sqlstore.Error
				if !errors.Is(err, sqlstore.ErrExpiresFirst) || !errors.As(err, &typed) || typed.Queue != "late" {
					t.Errorf("got %v, want ErrExpiresFirst about its queue", err)
				}
			}
			must(s.EnqueueTx(t.Context(), tx.tx, jobs(1, newJob("q"))))(t)
			if err := tx.commit(); err != nil {
				t.Fatal(err)
			}
			rows := claim(t, s, "q", 9)
			if len(rows) != 1 {
				t.Errorf("claimed: got %d jobs, want 1", len(rows))
			}
			must(s.AckBatch(t.Context(), handles(rows)))(t)
		})
		t.Run("E5_one_that_is_over_"+kind, func(t *testing.T) {
			tx := begin()
			if err := tx.rollback(); err != nil {
				t.Fatal(err)
			}
			_, err := s.EnqueueTx(t.Context(), tx.tx, jobs(1, newJob("q")))
			if !errors.Is(err, sql.ErrTxDone) && !errors.Is(err, pgx.ErrTxClosed) {
				t.Errorf("got %v, want that the transaction is over", err)
			}
		})
		t.Run("T1_now_is_when_the_call_is_made_not_when_the_transaction_began_"+kind, func(t *testing.T) {
			tx := begin()
			defer func() { _ = tx.rollback() }()
			if err := tx.exec("SELECT pg_sleep(1.1)"); err != nil {
				t.Fatal(err)
			}
			now := must(s.Now(t.Context()))(t)
			ids := must(s.EnqueueTx(t.Context(), tx.tx, jobs(1, newJob("q"))))(t)
			if err := tx.commit(); err != nil {
				t.Fatal(err)
			}
			if r := get(t, s, ids[0]); r.CreatedAt < now || r.RunAt < now {
				t.Errorf("created at %d, ready at %d, want at least %d", r.CreatedAt, r.RunAt, now)
			}
			must(s.Cancel(t.Context(), ids))(t)
		})
	}
	t.Run("E5_what_is_no_transaction", func(t *testing.T) {
		for _, wrong := range []sqlstore.Tx{nil, (*sql.Tx)(nil), "tx", 7} {
			if _, err := s.EnqueueTx(t.Context(), wrong, jobs(1, newJob("q"))); !errors.Is(err, sqlstore.ErrUnsupported) {
				t.Errorf("transaction %#v: got %v, want ErrUnsupported", wrong, err)
			}
		}
	})
	healthy(t, s)
}

// A call that is too large for one statement is still one call.
func TestEnqueueInPartsIsAllOrNone(t *testing.T) {
	db, ok := pgtest.New(t)
	if !ok {
		return
	}
	s := open(t, db.DSN(), postgres.Options{})
	for kind, begin := range transactions(t, db) {
		t.Run("E6_"+kind, func(t *testing.T) {
			late := newJob("late")
			late.RunAt, late.ExpiresS = new(int64(1<<40)), new(int64(1))
			tx := begin()
			if _, err := s.EnqueueTx(t.Context(), tx.tx, append(jobs(10_000, newJob("q")), late)); !errors.Is(err, sqlstore.ErrExpiresFirst) {
				t.Errorf("got %v, want ErrExpiresFirst", err)
			}
			must(0, tx.commit())(t)
			if n := value[int](t, pool(t, db), "SELECT count(*) FROM __alkstore_live"); n != 0 {
				t.Errorf("%d jobs of a call that was refused, want none", n)
			}
		})
	}
}
