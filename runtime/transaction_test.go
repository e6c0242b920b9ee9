package runtime_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/runtime"
)

// A handler with an open transaction holds the lock that the whole process writes under. What it enqueues beside the
// transaction waits for that lock in vain, and has to say so instead of waiting for ever; inside, it just works.
func TestEnqueueInsideTransaction(t *testing.T) {
	t.Parallel()
	t.Run("K69_inside_it_works_and_beside_it_is_busy", func(t *testing.T) {
		t.Parallel()
		db, err := sql.Open("sqlite", queue.SQLiteDSN(filepath.Join(t.TempDir(), "jobs.db")))
		must(t, err)
		defer func() { must(t, db.Close()) }()
		c, err := queue.OpenDB(t.Context(), db, &queue.Config{Synchronous: queue.Normal, BusyTimeout: 50 * time.Millisecond})
		must(t, err)
		defer func() { must(t, c.Close()) }()
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
