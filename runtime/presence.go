package runtime

import (
	"context"
	"time"

	"github.com/alkstore/alkworker/queue"
)

// A worker announces itself rarely, so that an idle one writes next to nothing, and outlives two lost announcements.
const (
	announceEvery = time.Minute
	announceFor   = 150 * time.Second
)

// announce tells the others which queues are served here, and warns about those that nobody serves.
func (w *Worker) announce(ctx context.Context) error {
	defer w.withdraw(ctx)
	trouble := newOutage(w.log, "announcements")
	for first := true; ; {
		err := w.client.Announce(ctx, w.config.Name, w.names, announceFor)
		wait := announceEvery
		switch {
		case err == nil:
			trouble.over()
			if first {
				first = false
				err = w.warnUnserved(ctx)
			}
		case queue.Transient(err):
			wait, err = trouble.wait(err), nil
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// warnUnserved names queues whose jobs wait for nobody, such as one with a misspelled name. // K105
func (w *Worker) warnUnserved(ctx context.Context) error {
	stats, err := w.client.Stats(ctx)
	if err != nil {
		if queue.Transient(err) {
			return nil // it is a courtesy
		}
		return err
	}
	for _, q := range stats {
		if q.Workers == 0 && q.Ready+q.Delayed > 0 {
			w.log.Warn("jobs wait in a queue that no running worker serves", "queue", q.Queue, "ready", q.Ready,
				"delayed", q.Delayed, "oldest", q.OldestReady)
		}
	}
	return nil
}

// withdraw takes the announcement back. If that fails, it lapses.
func (w *Worker) withdraw(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordGrace)
	defer cancel()
	if err := w.client.Withdraw(ctx, w.config.Name); err != nil {
		w.log.Debug("announcement not taken back", "error", err)
	}
}
