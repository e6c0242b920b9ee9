package handlers_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
)

func TestDeliveryContext(t *testing.T) {
	job := &queue.Job{ID: 7}
	d := handlers.NewDelivery(nil, job)
	parent, cancel := context.WithCancelCause(t.Context())
	ctx := d.Context(parent)

	if got := handlers.JobFromContext(ctx); got != job {
		t.Errorf("got %p, want the job %p", got, job)
	}
	if got := handlers.JobFromContext(t.Context()); got != nil {
		t.Errorf("outside a handler: got %v, want nil", got)
	}
	cancel(handlers.ErrTimeout)
	<-ctx.Done()
	if got := context.Cause(ctx); got != handlers.ErrTimeout {
		t.Errorf("cause: got %v, want that of the parent", got)
	}
	if err := handlers.AckTx(ctx, nil); err != handlers.ErrNoJob {
		t.Errorf("AckTx without a client: got %v, want ErrNoJob", err)
	}
	if err := handlers.AckTx(t.Context(), nil); err != handlers.ErrNoJob {
		t.Errorf("AckTx outside a handler: got %v, want ErrNoJob", err)
	}
}

func TestCausesDiffer(t *testing.T) {
	causes := []error{handlers.ErrLeaseLost, handlers.ErrCancelled, handlers.ErrTimeout, handlers.ErrShutdown}
	for i, a := range causes {
		for j, b := range causes {
			if errors.Is(a, b) != (i == j) {
				t.Errorf("errors.Is(%v, %v): got %v", a, b, i != j)
			}
		}
	}
}

// claimed opens a database, enqueues one job and claims it.
func claimed(t *testing.T) (*sql.DB, *queue.Client, *queue.Job) {
	t.Helper()
	db, err := sql.Open("sqlite", queue.SQLiteDSN(filepath.Join(t.TempDir(), "jobs.db")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	c, err := queue.OpenDB(t.Context(), db, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := db.ExecContext(t.Context(), `CREATE TABLE orders (id INTEGER PRIMARY KEY)`); err != nil {
		t.Fatal(err)
	}
	q := queue.DefineRaw("orders", queue.Options{})
	if _, err := q.Enqueue(t.Context(), c, []byte("1"), nil); err != nil {
		t.Fatal(err)
	}
	jobs, err := c.Claim(t.Context(), "orders", "test", 1)
	if err != nil || len(jobs) != 1 {
		t.Fatalf("claim: got %d jobs, %v, want 1", len(jobs), err)
	}
	return db, c, jobs[0]
}

func TestAckTx(t *testing.T) {
	tests := []struct {
		name      string
		before    func(t *testing.T, c *queue.Client, job *queue.Job) // what happens after the claim
		cause     error                                               // why the handler's context has ended; nil: it has not
		commit    bool
		err       error // of AckTx
		acked     bool
		orders    int  // rows of the handler afterwards
		jobExists bool // afterwards
	}{
		{name: "H2_commits_with_the_handlers_writes", commit: true, acked: true, orders: 1},
		{name: "H2_rolls_back_with_the_handlers_writes", acked: true, jobExists: true},
		{name: "H1_claim_that_no_longer_holds", err: handlers.ErrLeaseLost,
			before: func(t *testing.T, c *queue.Client, job *queue.Job) {
				if held, err := c.Release(t.Context(), queue.Released{Handle: job.Handle()}); err != nil || !held[0] {
					t.Fatalf("release: got %v, %v", held, err)
				}
			}, jobExists: true},
		{name: "H1_the_worker_has_lost_the_claim", err: handlers.ErrLeaseLost, cause: handlers.ErrLeaseLost, jobExists: true},
		{name: "H8_the_job_was_cancelled", err: handlers.ErrLeaseLost, cause: handlers.ErrCancelled, jobExists: true},
		{name: "the_worker_stops", err: context.Canceled, cause: handlers.ErrShutdown, jobExists: true},
		{name: "T5_failure_of_the_store", err: queue.ErrClosed,
			before: func(t *testing.T, c *queue.Client, _ *queue.Job) {
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
			}, jobExists: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			db, c, job := claimed(t)
			if tt.before != nil {
				tt.before(t, c, job)
			}
			d := handlers.NewDelivery(c, job)
			parent, end := context.WithCancelCause(t.Context())
			defer end(nil)
			ctx := d.Context(parent)
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback() }()
			if tt.cause != nil {
				end(tt.cause)
			}
			if _, err := tx.ExecContext(t.Context(), `INSERT INTO orders (id) VALUES (1)`); err != nil {
				t.Fatal(err)
			}

			err = handlers.AckTx(ctx, tx)
			if !errors.Is(err, tt.err) {
				t.Errorf("got %v, want %v", err, tt.err)
			}
			if e, ok := errors.AsType[*queue.Error](err); tt.err != nil && (!ok || e.JobID != job.ID) {
				t.Errorf("got %v, want a *queue.Error that names job %d", err, job.ID) // T5
			}
			if got := d.AckedInTx(); got != tt.acked {
				t.Errorf("AckedInTx: got %v, want %v", got, tt.acked)
			}

			over := tx.Rollback
			if tt.commit {
				over = tx.Commit
			}
			if err := over(); err != nil {
				t.Fatal(err)
			}
			var orders, jobs int
			row := db.QueryRowContext(t.Context(), `SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM __alkstore_live)`)
			if err := row.Scan(&orders, &jobs); err != nil {
				t.Fatal(err)
			}
			if orders != tt.orders || (jobs == 1) != tt.jobExists {
				t.Errorf("got %d orders and %d jobs, want %d orders and a job: %v", orders, jobs, tt.orders, tt.jobExists)
			}
		})
	}
}

// The first job of one queue and the first of another have the same handle.
func TestTxOfAnotherDatabase(t *testing.T) {
	_, c, job := claimed(t)
	db, other, theirs := claimed(t)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	d := handlers.NewDelivery(c, job)
	if err := handlers.AckTx(d.Context(t.Context()), tx); !errors.Is(err, queue.ErrUnsupported) || d.AckedInTx() {
		t.Errorf("AckTx: got %v, want ErrUnsupported", err)
	}
	if ids, err := c.EnqueueTx(t.Context(), tx, queue.NewJob{Queue: "stray"}); !errors.Is(err, queue.ErrUnsupported) {
		t.Errorf("EnqueueTx: got %v, %v, want ErrUnsupported", ids, err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	left, err := other.List(t.Context(), queue.Filter{})
	if err != nil || len(left) != 1 || left[0].ID != theirs.ID {
		t.Errorf("jobs of the other database: got %v, %v, want the one that was there", left, err)
	}
}
