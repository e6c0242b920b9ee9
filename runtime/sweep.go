package runtime

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/alkstore/alkworker/queue"
)

// sweepQueues sweeps every queue of the database now and then, also those that nobody serves: their dead jobs have a
// retention as well.
func (w *Worker) sweepQueues(ctx context.Context) error {
	trouble := newOutage(w.log, "sweeps")
	for {
		// Workers that were started together need not sweep together.
		wait := w.config.SweepInterval - time.Duration(rand.Int64N(int64(w.config.SweepInterval)/4+1))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
		err := w.sweepOnce(ctx)
		switch {
		case err == nil:
			trouble.over()
		case queue.Transient(err):
			trouble.note(err)
		default:
			return err
		}
	}
}

func (w *Worker) sweepOnce(ctx context.Context) error {
	names, err := w.client.Queues(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		swept, err := w.client.Sweep(ctx, name)
		if swept.Expired > 0 {
			w.log.Warn("jobs expired and are in the dead letters", "queue", name, "jobs", swept.Expired)
		}
		if swept.Dropped > 0 {
			w.log.Info("dead jobs past their retention were dropped", "queue", name, "jobs", swept.Dropped)
		}
		if swept.Repaired > 0 {
			w.log.Warn("jobs without a deadline were made claimable again", "queue", name, "jobs", swept.Repaired)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
