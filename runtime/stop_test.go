package runtime_test

import (
	"context"
	"errors"
	"math/rand/v2"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/runtime"
)

func TestStop(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second

	bubble(t, "K10_heartbeats_go_on_while_it_drains", func(w *world) {
		ids := w.enqueue("q", 3, queue.EnqueueOptions{VisibilityTimeout: lease})
		r := serve("q", w.ledger.taking(20*lease), handlers.Options{})
		p := w.start(runtime.Config{Drain: time.Hour}, r)
		w.pass(time.Second)
		p.Stop()
		other := w.start(runtime.Config{}, r)
		began := time.Now()
		must(w.T, p.wait())
		if took := time.Since(began); took != 20*lease-time.Second {
			w.Errorf("the drain took %v, want until the last handler was done", took)
		}
		w.ledger.wantOnce(w.T, ids...)
		w.wantState(gone, ids...)
		w.stop(other)
		w.log.quiet(w.T)
	})

	bubble(t, "no_new_jobs_while_it_drains", func(w *world) {
		w.enqueue("q", 1, queue.EnqueueOptions{})
		p := w.start(runtime.Config{Drain: time.Hour}, serve("q", w.ledger.taking(time.Minute), handlers.Options{}))
		synctest.Wait()
		p.Stop()
		synctest.Wait()
		p.store.forget()
		ids := w.enqueue("q", 5, queue.EnqueueOptions{})
		must(w.T, p.wait())
		w.wantState(queue.Pending, ids...)
		if n := len(p.store.made("claim")); n != 0 {
			w.Errorf("%d claims after the stop", n)
		}
	})

	bubble(t, "handlers_that_run_too_long_are_cancelled_and_hand_their_jobs_back", func(w *world) {
		ids := w.enqueue("q", 3, queue.EnqueueOptions{VisibilityTimeout: lease})
		p := w.start(runtime.Config{Drain: 10 * time.Second}, serve("q", w.ledger.taking(time.Hour), handlers.Options{}))
		w.pass(time.Second)
		began := time.Now()
		w.stop(p)
		if took := time.Since(began); took != 10*time.Second {
			w.Errorf("the stop took %v, want the drain", took)
		}
		for _, id := range ids {
			w.ledger.wantCause(w.T, id, handlers.ErrShutdown)
			if j := w.get(id); j.State != queue.Pending || j.Attempt != 0 || j.LastError != "" {
				w.Errorf("job %d: %+v, want it pending with its attempt given back", id, j)
			}
		}
		w.log.want(w.T, 1, "level=INFO", "stopping", "running=3")
		w.log.want(w.T, 1, "level=WARN", "drain is over", "running=3")
		// Another worker has them at once.
		other := w.start(runtime.Config{}, serve("q", func(context.Context, *queue.Job) error { return nil }, handlers.Options{}))
		synctest.Wait()
		w.wantState(gone, ids...)
		w.stop(other)
	})

	bubble(t, "a_definite_answer_counts_even_then", func(w *world) {
		ids := w.enqueue("q", 4, queue.EnqueueOptions{})
		p := w.start(runtime.Config{Drain: runtime.NoDrain}, serve("q", func(ctx context.Context, j *queue.Job) error {
			<-ctx.Done()
			switch j.ID {
			case ids[0]:
				return nil
			case ids[1]:
				return handlers.Fail(errors.New("boom"))
			case ids[2]:
				return handlers.RetryAfter(time.Hour, nil)
			}
			panic("oh no")
		}, handlers.Options{}))
		w.pass(time.Second)
		w.stop(p)
		for i, want := range []queue.State{gone, queue.Dead, queue.Pending, queue.Pending} {
			w.wantState(want, ids[i])
		}
		if j := w.get(ids[2]); j.Attempt != 1 || j.RunAt.Sub(j.CreatedAt) < time.Hour {
			w.Errorf("retried: %+v, want it after an hour with the attempt spent", j)
		}
		if j := w.get(ids[3]); j.Attempt != 1 || j.LastError != "panic: oh no" {
			w.Errorf("panicked: %+v, want a failed attempt", j)
		}
	})

	bubble(t, "NoDrain_cancels_at_once", func(w *world) {
		ids := w.enqueue("q", 1, queue.EnqueueOptions{})
		p := w.start(runtime.Config{Drain: runtime.NoDrain}, serve("q", w.ledger.taking(time.Hour), handlers.Options{}))
		w.pass(time.Second)
		began := time.Now()
		w.stop(p)
		if took := time.Since(began); took != 0 {
			w.Errorf("the stop took %v, want no time", took)
		}
		w.ledger.wantCause(w.T, ids[0], handlers.ErrShutdown)
	})

	bubble(t, "a_database_that_hangs_does_not_prolong_the_drain", func(w *world) {
		ids := w.enqueue("q", 1, queue.EnqueueOptions{VisibilityTimeout: time.Hour})
		p := w.start(runtime.Config{Drain: 2 * time.Second}, serve("q", w.ledger.taking(time.Hour), handlers.Options{}))
		w.pass(time.Second)
		p.store.inject(func(_ context.Context, op string) error {
			if op == "withdraw" {
				sleep(9 * time.Second)
			}
			return nil
		})
		w.stop(p)
		if runs := w.ledger.of(ids[0]); runs[0].end != 3*time.Second {
			w.Errorf("got %+v, want it cancelled two seconds after the stop", runs)
		}
		w.wantState(queue.Pending, ids...)
	})

	bubble(t, "K33_a_handler_stops_its_worker", func(w *world) {
		ids := w.enqueue("q", 1, queue.EnqueueOptions{})
		var p *process
		p = w.prepare(runtime.Config{}, serve("q", func(context.Context, *queue.Job) error { p.Stop(); return nil }, handlers.Options{}))
		began := time.Now()
		w.run(p)
		must(w.T, p.wait())
		w.wantState(gone, ids...)
		if took := time.Since(began); took != 0 {
			w.Errorf("Run took %v, want no time", took)
		}
	})

	bubble(t, "K33_a_handler_that_stops_its_worker_is_the_last_to_run", func(w *world) {
		for range 100 {
			w.enqueue("q", 3, queue.EnqueueOptions{})
			before := len(w.ledger.all())
			var p *process
			p = w.prepare(runtime.Config{Concurrency: 1, NoScheduler: true},
				serve("q", w.ledger.handler(func(context.Context, *queue.Job) error { p.Stop(); return nil }), handlers.Options{}))
			w.run(p)
			must(w.T, p.wait())
			if n := len(w.ledger.all()) - before; n != 1 {
				w.Fatalf("%d handlers ran, want one", n)
			}
		}
	})

	bubble(t, "K33_a_handler_cancels_the_context_of_Run", func(w *world) {
		ids := w.enqueue("q", 1, queue.EnqueueOptions{})
		var p *process
		p = w.prepare(runtime.Config{}, serve("q", func(ctx context.Context, _ *queue.Job) error {
			p.cancel()
			return within(ctx, 5*time.Second) // and may go on: the end of that context is a stop like any other
		}, handlers.Options{}))
		w.run(p)
		must(w.T, p.wait())
		w.wantState(gone, ids...)
	})

	bubble(t, "K34_the_drain_is_over_while_a_handler_uses_the_client", func(w *world) {
		w.enqueue("q", 1, queue.EnqueueOptions{})
		var before, after error
		p := w.start(runtime.Config{Drain: time.Second}, serve("q", func(ctx context.Context, _ *queue.Job) error {
			for ctx.Err() == nil {
				if _, before = w.client.Enqueue(ctx, queue.NewJob{Queue: "elsewhere"}); before != nil {
					break
				}
				sleep(10 * time.Millisecond)
			}
			_, after = w.client.Enqueue(ctx, queue.NewJob{Queue: "elsewhere"})
			return errors.Join(after, context.Cause(ctx))
		}, handlers.Options{}))
		w.pass(time.Second)
		w.stop(p)
		if before != nil || !errors.Is(after, context.Canceled) {
			w.Errorf("got %v before and %v after the end, want nil and context.Canceled", before, after)
		}
	})

	bubble(t, "K34_a_handler_that_never_returns_is_left_behind", func(w *world) {
		ids := w.enqueue("q", 2, queue.EnqueueOptions{VisibilityTimeout: lease})
		hang := make(chan struct{})
		used := make(chan error)
		p := w.prepare(runtime.Config{Drain: 5 * time.Second, NoScheduler: true}, serve("q", func(context.Context, *queue.Job) error {
			<-hang
			_, err := w.client.Stats(context.Background())
			used <- err
			return nil
		}, handlers.Options{}))
		w.run(p)
		w.pass(time.Second)
		began := time.Now()
		p.Stop()
		if err := p.wait(); !errors.Is(err, runtime.ErrHandlersStuck) {
			w.Errorf("Run returned %v, want ErrHandlersStuck", err)
		}
		if took := time.Since(began); took != 15*time.Second {
			w.Errorf("the stop took %v, want the drain and ten seconds", took)
		}
		w.log.want(w.T, 2, "level=ERROR", "did not return after its context was cancelled")
		w.wantState(queue.Processing, ids...)
		must(w.T, w.client.Close())
		close(hang)
		for range ids {
			if err := <-used; !errors.Is(err, queue.ErrClosed) {
				w.Errorf("the client answered %v, want ErrClosed", err)
			}
		}
	})

	bubble(t, "K4_stuck_ones_are_not_waited_for_a_second_time", func(w *world) {
		w.enqueue("q", 1, queue.EnqueueOptions{})
		hang := make(chan struct{})
		p := w.start(runtime.Config{}, serve("q", func(context.Context, *queue.Job) error { <-hang; return nil },
			handlers.Options{Timeout: time.Second}))
		w.pass(time.Minute)
		began := time.Now()
		p.Stop()
		if err := p.wait(); !errors.Is(err, runtime.ErrHandlersStuck) || time.Since(began) != 0 {
			w.Errorf("Run returned %v after %v, want ErrHandlersStuck at once", err, time.Since(began))
		}
		close(hang)
	})

	bubble(t, "answers_that_cannot_be_recorded_before_the_end", func(w *world) {
		ids := w.enqueue("q", 3, queue.EnqueueOptions{VisibilityTimeout: time.Hour})
		p := w.start(runtime.Config{}, serve("q", w.ledger.taking(21*time.Second), handlers.Options{}))
		w.pass(time.Second)
		p.store.inject(failing(queue.ErrUnavailable, "ack"))
		p.Stop()
		began := time.Now()
		if err := p.wait(); !errors.Is(err, queue.ErrUnavailable) || !strings.Contains(err.Error(), "3 answers") {
			w.Errorf("Run returned %v, want ErrUnavailable and how many answers are lost", err)
		}
		if took := time.Since(began); took != 30*time.Second {
			w.Errorf("gave up after %v, want ten seconds after the last handler", took)
		}
		w.log.want(w.T, 3, "level=ERROR", "could not be recorded")
		w.wantState(queue.Processing, ids...)
	})

	bubble(t, "answers_that_came_while_the_last_call_hung", func(w *world) {
		w.enqueue("q", 3, queue.EnqueueOptions{VisibilityTimeout: time.Hour})
		p := w.start(runtime.Config{}, serve("q", func(ctx context.Context, j *queue.Job) error {
			return within(ctx, time.Duration(j.ID)*time.Second)
		}, handlers.Options{}))
		p.store.inject(slow(time.Hour, "ack"))
		w.pass(500 * time.Millisecond)
		p.Stop()
		if err := p.wait(); err == nil || !strings.Contains(err.Error(), "3 answers") {
			w.Errorf("Run returned %v, want how many answers are lost", err)
		}
		w.log.want(w.T, 3, "level=ERROR", "could not be recorded")
	})

	bubble(t, "a_busy_database_at_the_stop_is_no_error", func(w *world) {
		p := w.prepare(runtime.Config{}, serve("q", w.ledger.taking(0), handlers.Options{}))
		p.store.inject(func(ctx context.Context, op string) error {
			<-ctx.Done() // busy until the stop, and then that is what the call answers
			return queue.ErrBusy
		})
		w.run(p)
		w.pass(time.Second)
		w.enqueue("q", 1, queue.EnqueueOptions{})
		w.pass(time.Second)
		w.stop(p)
	})
}

func TestStopAnyTime(t *testing.T) {
	t.Parallel()

	bubble(t, "K32_before_Run", func(w *world) {
		ids := w.enqueue("q", 5, queue.EnqueueOptions{})
		p := w.prepare(runtime.Config{}, serve("q", w.ledger.taking(0), handlers.Options{}))
		p.Stop()
		w.run(p)
		must(w.T, p.wait())
		w.wantState(queue.Pending, ids...)
		if calls := p.store.made(); len(calls) != 0 {
			w.Errorf("got calls %+v, want none", calls)
		}
		if err := p.Run(w.Context()); !errors.Is(err, runtime.ErrAlreadyRan) {
			w.Errorf("a second Run returned %v, want ErrAlreadyRan", err)
		}
	})

	bubble(t, "K32_with_a_context_that_is_over", func(w *world) {
		ids := w.enqueue("q", 5, queue.EnqueueOptions{})
		p := w.prepare(runtime.Config{}, serve("q", w.ledger.taking(0), handlers.Options{}))
		ctx, cancel := context.WithCancel(w.Context())
		cancel()
		must(w.T, p.Run(ctx))
		w.wantState(queue.Pending, ids...)
	})

	bubble(t, "K32_right_after_the_start_and_twice", func(w *world) {
		for range 200 {
			p := w.start(runtime.Config{}, serve("q", w.ledger.taking(0), handlers.Options{}))
			goruntime.Gosched()
			p.Stop()
			p.Stop()
			must(w.T, p.wait())
			p.Stop()
		}
	})

	bubble(t, "K32_from_many_goroutines", func(w *world) {
		p := w.start(runtime.Config{}, serve("q", w.ledger.taking(0), handlers.Options{}))
		var all sync.WaitGroup
		for range 20 {
			all.Go(p.Stop)
		}
		all.Wait()
		must(w.T, p.wait())
	})

	bubble(t, "K32_Run_twice", func(w *world) {
		p := w.start(runtime.Config{}, serve("q", w.ledger.taking(0), handlers.Options{}))
		w.pass(time.Second)
		if err := p.Run(w.Context()); !errors.Is(err, runtime.ErrAlreadyRan) {
			w.Errorf("a second Run returned %v, want ErrAlreadyRan", err)
		}
		w.stop(p)
	})
}

// K30: whatever the moment of the stop, a handler that returned nil is acked, and what it did not finish is as it was.
func TestEveryNilIsAcked(t *testing.T) {
	t.Parallel()
	const loops, jobs = 200, 100
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range loops {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			ids := w.enqueue("q", jobs, queue.EnqueueOptions{})
			takes := make(map[int64]time.Duration, jobs)
			for _, id := range ids {
				takes[id] = time.Duration(random.IntN(4)) * time.Millisecond // many at the very same moment
			}
			var mu sync.Mutex
			returned := make(map[int64]bool)
			p := w.start(runtime.Config{Concurrency: 1 + random.IntN(jobs), Drain: runtime.NoDrain},
				serve("q", func(ctx context.Context, j *queue.Job) error {
					err := within(ctx, takes[j.ID])
					if err == nil {
						mu.Lock()
						defer mu.Unlock()
						returned[j.ID] = true
					}
					return err
				}, handlers.Options{}))
			sleep(time.Duration(random.IntN(8)) * time.Millisecond)
			p.cancel() // SIGINT
			if err := p.wait(); err != nil {
				t.Errorf("K30 loop %d: Run returned %v", i, err)
			}
			for _, id := range ids {
				j := w.get(id)
				switch {
				case returned[id] && j != nil:
					t.Errorf("K30 loop %d: job %d returned nil and is still there: %+v", i, id, j)
				case !returned[id] && (j == nil || j.State != queue.Pending || j.Attempt != 0):
					t.Errorf("K30 loop %d: job %d did not return nil, got %+v, want it pending and untried", i, id, j)
				}
			}
		})
	}
}
