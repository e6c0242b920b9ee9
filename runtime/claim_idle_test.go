package runtime_test

import (
	"context"
	"testing"
	"time"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/runtime"
)

func TestUntilIdle(t *testing.T) {
	t.Parallel()

	// until runs a worker until it is idle and returns how long that took.
	until := func(w *world, r *handlers.Registry) time.Duration {
		w.Helper()
		began := time.Now()
		p := w.start(runtime.Config{UntilIdle: true}, r)
		if err := p.wait(); err != nil {
			w.Errorf("Run returned %v, want nil", err)
		}
		return time.Since(began)
	}

	bubble(t, "ends_when_all_is_done", func(w *world) {
		ids := w.enqueue("q", 50, queue.EnqueueOptions{})
		if took := until(w, serve("q", w.ledger.taking(time.Second), handlers.Options{})); took > 5*time.Second {
			w.Errorf("took %v, want four batches of a second", took)
		}
		w.ledger.wantOnce(w.T, ids...)
		w.wantState(gone, ids...)
	})

	bubble(t, "ends_at_once_without_jobs", func(w *world) {
		if took := until(w, serve("q", w.ledger.taking(0), handlers.Options{})); took != 0 {
			w.Errorf("took %v, want no time", took)
		}
	})

	bubble(t, "ends_at_once_without_handlers", func(w *world) {
		w.enqueue("q", 1, queue.EnqueueOptions{})
		if took := until(w, handlers.NewRegistry()); took != 0 {
			w.Errorf("took %v, want no time", took)
		}
	})

	bubble(t, "a_delayed_job_that_was_never_tried_does_not_hold_it", func(w *world) {
		ids := w.enqueue("q", 1, queue.EnqueueOptions{Delay: time.Hour})
		if took := until(w, serve("q", w.ledger.taking(0), handlers.Options{})); took > time.Second {
			w.Errorf("took %v, want no time", took)
		}
		w.wantState(queue.Pending, ids...)
	})

	bubble(t, "a_retry_holds_it", func(w *world) {
		ids := w.enqueue("q", 1, queue.EnqueueOptions{})
		took := until(w, serve("q", func(_ context.Context, j *queue.Job) error {
			if j.Attempt == 1 {
				return handlers.RetryAfter(10*time.Minute, nil)
			}
			return nil
		}, handlers.Options{}))
		if took < 10*time.Minute || took > 11*time.Minute {
			w.Errorf("took %v, want a little over ten minutes", took)
		}
		w.wantState(gone, ids...)
	})

	bubble(t, "a_snooze_does_not_hold_it", func(w *world) {
		ids := w.enqueue("q", 1, queue.EnqueueOptions{})
		took := until(w, serve("q", func(context.Context, *queue.Job) error { return handlers.Snooze(time.Hour) }, handlers.Options{}))
		if took > 2*time.Second {
			w.Errorf("took %v, want no time", took)
		}
		w.wantState(queue.Pending, ids...)
	})

	bubble(t, "a_job_that_another_worker_runs_holds_it", func(w *world) {
		w.enqueue("q", 1, queue.EnqueueOptions{VisibilityTimeout: time.Hour})
		other := w.claim("q", 1)
		began := time.Now()
		p := w.start(runtime.Config{UntilIdle: true}, serve("q", w.ledger.taking(0), handlers.Options{}))
		w.pass(5 * time.Minute)
		if _, err := w.client.Ack(w.Context(), other[0].Handle()); err != nil {
			w.Fatal(err)
		}
		must(w.T, p.wait())
		if took := time.Since(began); took < 5*time.Minute || took > 5*time.Minute+2*time.Second {
			w.Errorf("took %v, want until the other was done", took)
		}
	})

	bubble(t, "a_job_of_a_worker_that_died_holds_it", func(w *world) {
		ids := w.enqueue("q", 1, queue.EnqueueOptions{VisibilityTimeout: time.Minute})
		w.claim("q", 1)
		if took := until(w, serve("q", w.ledger.taking(0), handlers.Options{})); took < time.Minute || took > 2*time.Minute {
			w.Errorf("took %v, want a little over the lease", took)
		}
		w.wantState(gone, ids...)
	})

	bubble(t, "a_paused_queue_does_not_hang_it", func(w *world) {
		ids := w.enqueue("q", 3, queue.EnqueueOptions{})
		must(w.T, w.client.Pause(w.Context(), "q"))
		if took := until(w, serve("q", w.ledger.taking(0), handlers.Options{})); took > time.Second {
			w.Errorf("took %v, want no time", took)
		}
		w.wantState(queue.Pending, ids...)
	})

	bubble(t, "a_job_of_a_worker_that_died_does_not_hang_it_in_a_paused_queue", func(w *world) {
		ids := w.enqueue("q", 1, queue.EnqueueOptions{VisibilityTimeout: time.Minute})
		w.claim("q", 1)
		must(w.T, w.client.Pause(w.Context(), "q"))
		if took := until(w, serve("q", w.ledger.taking(0), handlers.Options{})); took < time.Minute || took > 2*time.Minute {
			w.Errorf("took %v, want a little over the lease", took)
		}
		w.wantState(queue.Processing, ids...)
	})

	bubble(t, "an_expired_job_does_not_hang_it", func(w *world) {
		ids := w.enqueue("q", 1, queue.EnqueueOptions{Expires: time.Second})
		w.pass(3 * time.Second)
		if took := until(w, serve("q", w.ledger.taking(0), handlers.Options{})); took > 7*time.Second {
			w.Errorf("took %v, want no longer than a sweep", took)
		}
		w.wantState(queue.Dead, ids...)
		w.ledger.wantOnce(w.T) // no job ran
	})

	bubble(t, "an_outage_does_not_end_it", func(w *world) {
		ids := w.enqueue("q", 3, queue.EnqueueOptions{})
		p := w.prepare(runtime.Config{UntilIdle: true, NoScheduler: true}, serve("q", w.ledger.taking(0), handlers.Options{}))
		p.store.inject(first(3, failing(queue.ErrBusy), "idle", "claim", "next"))
		w.run(p)
		must(w.T, p.wait())
		if n := p.store.failed(); n != 3 {
			w.Errorf("%d faults reached the worker, want 3", n)
		}
		w.ledger.wantOnce(w.T, ids...)
	})
}
