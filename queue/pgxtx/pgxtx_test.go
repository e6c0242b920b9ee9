package pgxtx_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/alkstore/alkworker/internal/sqlstore/memory"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/queue/pgxtx"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Main(m)) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var mails = queue.Define[string]("mails", queue.Options{})

func TestTransaction(t *testing.T) {
	db, ok := pgtest.New(t)
	if !ok {
		return
	}
	c, err := queue.Open(t.Context(), db.DSN(), nil)
	must(t, err)
	defer func() { must(t, c.Close()) }()
	conn, err := pgx.Connect(t.Context(), db.URL)
	must(t, err)
	defer func() { must(t, conn.Close(context.WithoutCancel(t.Context()))) }()

	t.Run("E5_jobs_exist_exactly_if_it_commits", func(t *testing.T) {
		for _, commit := range []bool{false, true} {
			tx, err := conn.Begin(t.Context())
			must(t, err)
			_, err = pgxtx.Enqueue(t.Context(), c, tx, mails, "one", nil)
			must(t, err)
			ids, err := pgxtx.EnqueueMany(t.Context(), c, tx, mails, []string{"two", "three"}, &queue.EnqueueOptions{Priority: 1})
			must(t, err)
			end, want := tx.Rollback, 0
			if commit {
				end, want = tx.Commit, 3
			}
			must(t, end(t.Context()))
			jobs, err := c.Claim(t.Context(), "mails", "me", 10)
			must(t, err)
			if len(jobs) != want || want > 0 && jobs[0].ID != ids[0] {
				t.Errorf("committed %v: got %d jobs, want %d", commit, len(jobs), want)
			}
			for _, j := range jobs {
				tx, err := conn.Begin(t.Context())
				must(t, err)
				held, err := pgxtx.Ack(t.Context(), c, tx, j.Handle())
				must(t, err)
				must(t, tx.Commit(t.Context()))
				if gone, err := c.Get(t.Context(), j.ID); !held[0] || gone != nil || err != nil {
					t.Errorf("acked %v, then %+v, %v", held, gone, err)
				}
			}
		}
	})
	t.Run("no_transaction", func(t *testing.T) {
		if _, err := pgxtx.Enqueue(t.Context(), c, nil, mails, "x", nil); !errors.Is(err, queue.ErrInvalid) {
			t.Errorf("enqueue: got %v, want ErrInvalid", err)
		}
		if _, err := pgxtx.Ack(t.Context(), c, nil, queue.Handle{ID: 1, Fence: 1}); !errors.Is(err, queue.ErrInvalid) {
			t.Errorf("ack: got %v, want ErrInvalid", err)
		}
		if held, err := pgxtx.Ack(t.Context(), c, nil); held != nil || err != nil {
			t.Errorf("ack of nothing: got %v, %v", held, err)
		}
	})
	t.Run("a_store_of_another_kind", func(t *testing.T) {
		other := queue.NewClient(memory.New(memory.Options{Clock: func() int64 { return 1 }}), nil)
		defer func() { must(t, other.Close()) }()
		tx, err := conn.Begin(t.Context())
		must(t, err)
		defer func() { must(t, tx.Rollback(t.Context())) }()
		if _, err := pgxtx.Enqueue(t.Context(), other, tx, mails, "x", nil); !errors.Is(err, queue.ErrUnsupported) {
			t.Errorf("got %v, want ErrUnsupported", err)
		}
	})
}
