package runtime_test

import (
	"context"
	"errors"
	goruntime "runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/runtime"
	"github.com/alkstore/alkworker/scheduler"
)

func TestRunError(t *testing.T) {
	t.Parallel()

	// What will not pass stops the worker, in good order, whichever loop meets it.
	for _, op := range []string{"claim", "next", "heartbeat", "ack", "retry", "fail", "release", "announce", "stats", "queues", "sweep"} {
		bubble(t, "T5_a_permanent_failure_of_"+op, func(w *world) {
			ids := w.enqueue("q", 5, queue.EnqueueOptions{VisibilityTimeout: 3 * time.Second, BackoffBase: time.Hour})
			r := serve("q", w.ledger.handler(func(ctx context.Context, j *queue.Job) error {
				if err := within(ctx, 2500*time.Millisecond+time.Duration(j.ID)*time.Second); err != nil {
					return err
				}
				switch j.ID {
				case ids[0]:
					return errors.New("boom")
				case ids[1]:
					return handlers.Fail(nil)
				case ids[2]:
					return handlers.Snooze(time.Hour)
				}
				return nil
			}), handlers.Options{})
			p := w.prepare(runtime.Config{NoScheduler: true}, r)
			broken := []string{"claim", "next"}
			if op != "claim" && op != "next" {
				w.run(p)
				synctest.Wait()
				broken = nil
			}
			p.store.inject(failing(queue.ErrCorrupt, append(broken, op)...))
			switch op {
			case "claim", "next":
				w.run(p)
			case "announce":
				w.pass(time.Minute)
			case "stats":
				p.bury() // asked at the start only
				p = w.prepare(runtime.Config{NoScheduler: true}, r)
				p.store.inject(failing(queue.ErrCorrupt, op))
				w.run(p)
			}
			err := p.wait()
			if e := new(queue.Error); !errors.Is(err, queue.ErrCorrupt) || !errors.As(err, &e) {
				w.Errorf("Run returned %v, want ErrCorrupt", err)
			}
			if n := strings.Count(err.Error(), queue.ErrCorrupt.Error()); n != 1 {
				w.Errorf("the error names its cause %d times: %v", n, err)
			}
			w.log.want(w.T, 0, "does not take", "trying again") // returned, not logged
			if op == "announce" {
				w.ledger.wantOnce(w.T, ids...)
			}
			// What has nothing to do with the failure was recorded in good order.
			want := map[string]queue.State{"retry": queue.Pending, "fail": queue.Dead, "release": queue.Pending, "ack": gone}
			for i, kind := range []string{"retry", "fail", "release", "ack", "ack"} {
				runs := w.ledger.of(ids[i])
				switch {
				case len(runs) == 0: // never claimed
					w.wantState(queue.Pending, ids[i])
				case op == kind, op == "heartbeat", op == "stats": // not recorded, lost or handed back
				default:
					w.wantState(want[kind], ids[i])
				}
			}
		})
	}

	bubble(t, "T5_heartbeats_that_will_not_pass_still_tell_when_a_claim_ends", func(w *world) {
		ids := w.enqueue("q", 1, queue.EnqueueOptions{VisibilityTimeout: 9 * time.Second})
		p := w.start(runtime.Config{}, serve("q", w.ledger.taking(time.Hour), handlers.Options{}))
		synctest.Wait()
		p.store.inject(failing(queue.ErrCorrupt, "heartbeat"))
		if err := p.wait(); !errors.Is(err, queue.ErrCorrupt) {
			w.Errorf("Run returned %v, want ErrCorrupt", err)
		}
		w.ledger.wantCause(w.T, ids[0], handlers.ErrLeaseLost)
		if runs := w.ledger.of(ids[0]); runs[0].end != 9*time.Second {
			w.Errorf("got %+v, want it ended with its lease", runs)
		}
	})

	bubble(t, "the_client_is_closed_under_it", func(w *world) {
		w.enqueue("q", 1, queue.EnqueueOptions{})
		p := w.start(runtime.Config{Drain: time.Second}, serve("q", w.ledger.taking(time.Hour), handlers.Options{}))
		w.pass(time.Second)
		must(w.T, w.client.Close())
		if err := p.wait(); !errors.Is(err, queue.ErrClosed) {
			w.Errorf("Run returned %v, want ErrClosed", err)
		}
	})
}

func TestRunWithoutHandlers(t *testing.T) {
	t.Parallel()

	bubble(t, "K105_it_warns_and_does_what_any_worker_does_for_all", func(w *world) {
		must(w.T, scheduler.Set(w.Context(), w.client, scheduler.Schedule{Name: "s", Queue: "q", Spec: "@every 10s", Expires: 30 * time.Second}))
		p := w.prepare(runtime.Config{}, handlers.NewRegistry())
		w.run(p)
		w.pass(time.Minute + 2*time.Second)
		stats, err := w.client.Stats(w.Context())
		must(w.T, err)
		if len(stats) != 1 || stats[0].Ready+stats[0].Dead != 6 || stats[0].Dead < 2 || stats[0].Workers != 0 {
			w.Errorf("got %+v, want six fired jobs, the first of them expired, and nobody who serves them", stats)
		}
		if n := len(p.store.made("claim")); n != 0 {
			w.Errorf("%d claims", n)
		}
		w.log.want(w.T, 1, "level=WARN", "no handlers are registered")
		w.stop(p)
	})
}

func TestScheduler(t *testing.T) {
	t.Parallel()

	bubble(t, "schedules_fire_and_their_jobs_run", func(w *world) {
		must(w.T, scheduler.Set(w.Context(), w.client, scheduler.Schedule{Name: "s", Queue: "q", Spec: "@every 10s"}))
		r := serve("q", w.ledger.taking(3*time.Second), handlers.Options{})
		a, b := w.prepare(runtime.Config{}, r), w.prepare(runtime.Config{}, r)
		w.run(a)
		w.run(b)
		w.pass(10*time.Minute + 5*time.Second)
		if n := len(w.ledger.all()); n != 60 {
			w.Errorf("%d runs in ten minutes, want 60", n)
		}
		w.stop(a, b)
		// The lock of the leader is free.
		if led, err := w.store.Lead(w.Context(), "scheduler", "other", 1); err != nil || !led {
			w.Errorf("lead: %v, %v, want the lock free after the stop", led, err)
		}
	})

	bubble(t, "NoScheduler_leaves_them_to_others", func(w *world) {
		must(w.T, scheduler.Set(w.Context(), w.client, scheduler.Schedule{Name: "s", Queue: "q", Spec: "@every 10s"}))
		p := w.prepare(runtime.Config{NoScheduler: true}, serve("q", w.ledger.taking(0), handlers.Options{}))
		w.run(p)
		w.pass(10 * time.Minute)
		w.ledger.wantOnce(w.T)
		w.stop(p)
	})
}

// Not parallel: it counts the goroutines of the whole process.
func TestOutageLeavesNothingBehind(t *testing.T) {
	t.Run("K38_ten_minutes_without_a_database", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			r := serve("q", w.ledger.taking(time.Second), handlers.Options{Timeout: 30 * time.Second})
			p := w.prepare(runtime.Config{SweepInterval: time.Second}, r)
			w.run(p)
			w.enqueue("q", 50, queue.EnqueueOptions{})
			w.pass(time.Minute)
			before := goruntime.NumGoroutine()

			long := w.enqueue("q", 20, queue.EnqueueOptions{})
			w.pass(500 * time.Millisecond)
			p.store.inject(failing(queue.ErrUnavailable))
			most := 0
			for range 600 {
				w.pass(time.Second)
				most = max(most, goruntime.NumGoroutine())
			}
			p.store.inject(nil)
			w.pass(10 * time.Minute)
			if after := goruntime.NumGoroutine(); after > before || most > before+2*16 {
				t.Errorf("%d goroutines before, %d at most meanwhile, %d after", before, most, after)
			}
			for _, id := range long {
				if len(w.ledger.of(id)) == 0 {
					t.Errorf("job %d did not run", id)
				}
			}
			w.wantState(gone, long...)
			for _, what := range []string{"claims", "answers of handlers", "sweeps", "announcements"} {
				w.log.want(t, 1, "level=WARN", "does not take "+what)
				w.log.want(t, 1, "level=INFO", "takes "+what+" again")
			}
			w.log.want(t, 6, "level=WARN", "error=") // and heartbeats and the scheduler
			w.stop(p)
		})
	})
}
