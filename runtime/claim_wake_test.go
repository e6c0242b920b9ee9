package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/runtime"
)

func TestWakeUp(t *testing.T) {
	t.Parallel()

	// began is a handler that tells when it began.
	began := func() (handlers.HandlerFunc, func() []time.Duration) {
		zero := time.Now()
		var at []time.Duration
		return func(context.Context, *queue.Job) error { at = append(at, time.Since(zero)); return nil },
			func() []time.Duration { return at }
	}

	bubble(t, "at_once_for_a_job_of_this_process", func(w *world) {
		h, at := began()
		p := w.start(runtime.Config{PollInterval: time.Hour}, serve("q", h, handlers.Options{}))
		w.pass(10*time.Minute + 123*time.Millisecond)
		w.enqueue("q", 1, queue.EnqueueOptions{})
		synctest.Wait()
		if want := []time.Duration{10*time.Minute + 123*time.Millisecond}; !slices.Equal(at(), want) {
			w.Errorf("began at %v, want %v", at(), want)
		}
		w.stop(p)
	})

	bubble(t, "at_once_when_a_slot_becomes_free", func(w *world) {
		h, at := began()
		r := serve("q", func(ctx context.Context, j *queue.Job) error { return errors.Join(h(ctx, j), within(ctx, time.Second)) },
			handlers.Options{})
		w.enqueue("q", 4, queue.EnqueueOptions{})
		p := w.start(runtime.Config{PollInterval: time.Hour, Concurrency: 1}, r)
		w.pass(time.Minute)
		if want := []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second}; !slices.Equal(at(), want) {
			w.Errorf("began at %v, want %v", at(), want)
		}
		w.stop(p)
	})

	for _, offset := range []time.Duration{0, 50 * time.Millisecond, 950 * time.Millisecond} {
		bubble(t, fmt.Sprintf("at_the_ready_time_of_a_delayed_job_seen_%v_into_a_second", offset), func(w *world) {
			h, at := began()
			w.pass(offset)
			p := w.start(runtime.Config{PollInterval: time.Hour}, serve("q", h, handlers.Options{}))
			delays := []time.Duration{3 * time.Second, 17 * time.Second, 31 * time.Second, 10 * time.Minute}
			for _, d := range slices.Backward(delays) {
				w.enqueue("q", 1, queue.EnqueueOptions{Delay: d}) // from the whole second on
			}
			w.pass(time.Hour)
			for i, d := range delays {
				if got := at(); len(got) != len(delays) || got[i] < d || got[i] > d+150*time.Millisecond {
					w.Fatalf("began at %v, want %v or a moment later", got, delays)
				}
			}
			w.stop(p)
		})
	}

	bubble(t, "when_a_retry_is_due", func(w *world) {
		h, at := began()
		r := serve("q", func(ctx context.Context, j *queue.Job) error {
			_ = h(ctx, j)
			if j.Attempt < 3 {
				return handlers.RetryAfter(40*time.Second, errors.New("not yet"))
			}
			return nil
		}, handlers.Options{})
		w.enqueue("q", 1, queue.EnqueueOptions{})
		p := w.start(runtime.Config{PollInterval: time.Hour}, r)
		w.pass(time.Hour)
		if got := at(); len(got) != 3 || got[1] > 41*time.Second || got[2] > 82*time.Second {
			w.Errorf("began at %v, want every 40 s", got)
		}
		w.stop(p)
	})

	bubble(t, "when_the_lease_of_another_worker_ends", func(w *world) {
		h, at := began()
		w.enqueue("q", 1, queue.EnqueueOptions{VisibilityTimeout: 50 * time.Second})
		w.claim("q", 1)
		p := w.start(runtime.Config{PollInterval: time.Hour}, serve("q", h, handlers.Options{}))
		w.pass(time.Hour)
		if got := at(); len(got) != 1 || got[0] < 51*time.Second || got[0] > 52*time.Second {
			w.Errorf("began at %v, want right after 51 s", got)
		}
		w.stop(p)
	})

	bubble(t, "when_a_paused_queue_is_resumed", func(w *world) {
		h, at := began()
		must(w.T, w.client.Pause(w.Context(), "q"))
		p := w.start(runtime.Config{PollInterval: time.Hour}, serve("q", h, handlers.Options{}))
		w.enqueue("q", 1, queue.EnqueueOptions{})
		w.pass(time.Minute)
		if got := at(); len(got) != 0 {
			w.Errorf("began at %v while paused", got)
		}
		must(w.T, w.client.Resume(w.Context(), "q"))
		synctest.Wait()
		if got := at(); !slices.Equal(got, []time.Duration{time.Minute}) {
			w.Errorf("began at %v, want at once after the minute", got)
		}
		w.stop(p)
	})
}
