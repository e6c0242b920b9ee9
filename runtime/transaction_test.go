package runtime_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/runtime"
)

// openBoth opens a database as a program with tables of its own does.
func openBoth(t *testing.T, config queue.Config) (*sql.DB, *queue.Client) {
	t.Helper()
	db, err := sql.Open("sqlite", queue.SQLiteDSN(filepath.Join(t.TempDir(), "jobs.db")))
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	config.Synchronous = queue.Normal
	c, err := queue.OpenDB(t.Context(), db, &config)
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	return db, c
}

// A handler with an open transaction holds the lock that the whole process writes under. What it enqueues beside the
// transaction waits for that lock in vain, and has to say so instead of waiting for ever; inside, it just works.
func TestEnqueueInsideTransaction(t *testing.T) {
	t.Parallel()
	t.Run("K69_inside_it_works_and_beside_it_is_busy", func(t *testing.T) {
		t.Parallel()
		db, c := openBoth(t, queue.Config{BusyTimeout: 50 * time.Millisecond})
		child := queue.DefineRaw("child", queue.Options{})
		enqueue(t, c, "parent", 1, queue.EnqueueOptions{})

		var beside error
		r := serve("parent", func(ctx context.Context, _ *queue.Job) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }()
			if _, err := child.EnqueueTx(ctx, c, tx, []byte("inside"), nil); err != nil {
				return err
			}
			_, beside = child.Enqueue(ctx, c, []byte("beside"), nil)
			return errors.Join(handlers.AckTx(ctx, tx), tx.Commit())
		}, handlers.Options{})
		w, err := runtime.New(c, r, runtime.Config{UntilIdle: true, Logger: new(logbook).logger()})
		must(t, err)
		must(t, w.Run(t.Context()))

		if !errors.Is(beside, queue.ErrBusy) {
			t.Errorf("enqueue beside the transaction: got %v, want ErrBusy", beside)
		}
		left, err := c.List(t.Context(), queue.Filter{})
		must(t, err)
		if len(left) != 1 || string(left[0].Payload) != "inside" {
			t.Errorf("jobs: got %v, want the one enqueued inside", left)
		}
	})
}

// Until the transaction of an AckTx is committed, nothing has become of the job: it is as good as one that runs.
func TestAckTxUncommitted(t *testing.T) {
	t.Parallel()
	// ackThen is a handler that acks in a transaction, with which then does what it does.
	ackThen := func(db *sql.DB, then func(ctx context.Context, tx *sql.Tx) error) func(context.Context, *queue.Job) error {
		return func(ctx context.Context, _ *queue.Job) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }()
			if err := handlers.AckTx(ctx, tx); err != nil {
				return err
			}
			return then(ctx, tx)
		}
	}

	t.Run("H6_a_stop_in_between_hands_the_job_back", func(t *testing.T) {
		t.Parallel()
		db, c := openBoth(t, queue.Config{})
		id := enqueue(t, c, "q", 1, queue.EnqueueOptions{MaxAttempts: 1})[0]
		var w *runtime.Worker
		w, err := runtime.New(c, serve("q", ackThen(db, func(ctx context.Context, tx *sql.Tx) error {
			w.Stop()
			<-ctx.Done()
			return tx.Commit()
		}), handlers.Options{}), runtime.Config{Drain: runtime.NoDrain, Logger: new(logbook).logger()})
		must(t, err)
		must(t, w.Run(t.Context()))
		job, err := c.Get(t.Context(), id)
		must(t, err)
		if job == nil || job.State != queue.Pending || job.Attempt != 0 {
			t.Errorf("job: got %+v, want it pending with its attempt given back", job)
		}
	})

	t.Run("K13_heartbeats_go_on_after_a_rollback", func(t *testing.T) {
		t.Parallel()
		db, c := openBoth(t, queue.Config{})
		enqueue(t, c, "q", 1, queue.EnqueueOptions{VisibilityTimeout: realLease})
		l := new(ledger)
		w, err := runtime.New(c, serve("q", l.handler(ackThen(db, func(ctx context.Context, tx *sql.Tx) error {
			if err := tx.Rollback(); err != nil {
				return err
			}
			if err := outlast(ctx, c); err != nil {
				return err
			}
			again, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			return errors.Join(handlers.AckTx(ctx, again), again.Commit())
		})), handlers.Options{}), runtime.Config{UntilIdle: true, Logger: new(logbook).logger()})
		must(t, err)
		must(t, w.Run(t.Context()))
		if runs := l.all(); len(runs) != 1 || runs[0].cause != nil {
			t.Errorf("runs: got %+v, want one, to its end", runs)
		}
	})

	t.Run("after_the_commit_its_heartbeats_are_missed_by_nobody", func(t *testing.T) {
		t.Parallel()
		db, c := openBoth(t, queue.Config{})
		enqueue(t, c, "q", 1, queue.EnqueueOptions{VisibilityTimeout: realLease})
		l, log := new(ledger), new(logbook)
		w, err := runtime.New(c, serve("q", l.handler(ackThen(db, func(ctx context.Context, tx *sql.Tx) error {
			return errors.Join(tx.Commit(), outlast(ctx, c))
		})), handlers.Options{}), runtime.Config{UntilIdle: true, Logger: log.logger()})
		must(t, err)
		must(t, w.Run(t.Context()))
		if runs := l.all(); len(runs) != 1 || runs[0].cause != nil {
			t.Errorf("runs: got %+v, want one, to its end", runs)
		}
		log.quiet(t)
	})
}

// acking is a store in whose transactions every ack holds. They are never committed.
type acking struct{ sqlstore.Store }

func (acking) AckBatchTx(_ context.Context, _ sqlstore.Tx, handles []sqlstore.Handle) ([]bool, error) {
	return slices.Repeat([]bool{true}, len(handles)), nil
}

// A claim that was acked in a transaction is kept beyond its lease, since it may have been committed. While the database is
// away its heartbeats have their pauses all the same, and the end of another claim is noticed in time.
func TestAckTxDuringAnOutage(t *testing.T) {
	const enough = 5000 // heartbeats
	bubble(t, "K87", func(w *world) {
		w.enqueue("q", 1, queue.EnqueueOptions{VisibilityTimeout: 3 * time.Second})
		w.enqueue("other", 1, queue.EnqueueOptions{VisibilityTimeout: 10 * time.Second})
		r := serve("q", func(ctx context.Context, _ *queue.Job) error {
			must(w.T, handlers.AckTx(ctx, new(sql.Tx)))
			sleep(100 * time.Millisecond)
			return errors.New("commit: connection refused")
		}, handlers.Options{})
		var told time.Duration
		r.Register("other", handlers.HandlerFunc(func(ctx context.Context, _ *queue.Job) error {
			began := time.Now()
			<-ctx.Done()
			told = time.Since(began)
			return context.Cause(ctx)
		}), handlers.Options{})
		p := w.prepare(runtime.Config{NoScheduler: true}, r)
		p.store.Store = acking{p.store.Store}
		w.run(p)
		w.pass(50 * time.Millisecond)
		beats := 0
		p.store.inject(func(_ context.Context, op string) error {
			if op != "heartbeat" {
				return queue.ErrUnavailable
			}
			if beats++; beats == enough {
				p.store.inject(nil) // or the time would stand still
			}
			return queue.ErrUnavailable
		})
		w.pass(time.Minute)
		p.store.inject(nil)
		if beats >= enough {
			w.Errorf("%d heartbeats in an outage of a minute", beats)
		}
		if told != 10*time.Second {
			w.Errorf("the other handler was told after %v that its claim is over, want 10s", told)
		}
		w.pass(time.Minute)
		w.stop(p)
	})
}
