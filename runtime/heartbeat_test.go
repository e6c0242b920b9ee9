package runtime_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/runtime"
)

func TestHeartbeat(t *testing.T) {
	t.Parallel()

	bubble(t, "K13_a_handler_of_ten_leases_runs_once", func(w *world) {
		const lease = 3 * time.Second
		ids := w.enqueue("q", 1, queue.EnqueueOptions{VisibilityTimeout: lease})
		r := serve("q", w.ledger.taking(10*lease), handlers.Options{})
		a, b, c := w.start(runtime.Config{}, r), w.start(runtime.Config{}, r), w.start(runtime.Config{}, r)
		w.pass(12 * lease)
		w.ledger.wantOnce(w.T, ids...)
		w.ledger.wantCause(w.T, ids[0], nil)
		w.wantState(gone, ids...)
		w.stop(a, b, c)
		w.log.quiet(w.T)
	})

	bubble(t, "one_statement_for_all_at_a_third_of_the_shortest_timeout", func(w *world) {
		w.enqueue("q", 5, queue.EnqueueOptions{VisibilityTimeout: 9 * time.Second})
		w.enqueue("q", 5, queue.EnqueueOptions{VisibilityTimeout: time.Hour})
		p := w.start(runtime.Config{}, serve("q", w.ledger.taking(time.Minute), handlers.Options{}))
		began := time.Now()
		w.pass(30 * time.Second)
		beats := p.store.made("heartbeat")
		if len(beats) != 10 {
			w.Errorf("%d heartbeats in 30 s, want 10", len(beats))
		}
		for i, b := range beats {
			if want := time.Duration(i+1) * 3 * time.Second; b.n != 10 || b.at.Sub(began) != want {
				w.Errorf("heartbeat %d for %d claims at %v, want 10 at %v", i, b.n, b.at.Sub(began), want)
			}
		}
		w.stop(p)
	})

	bubble(t, "a_claim_of_a_shorter_timeout_brings_the_next_heartbeat_forward", func(w *world) {
		w.enqueue("q", 1, queue.EnqueueOptions{VisibilityTimeout: time.Hour})
		p := w.start(runtime.Config{}, serve("q", w.ledger.taking(10*time.Minute), handlers.Options{}))
		w.pass(time.Minute)
		ids := w.enqueue("q", 1, queue.EnqueueOptions{VisibilityTimeout: 3 * time.Second})
		w.pass(time.Minute)
		w.ledger.wantCause(w.T, ids[0], nil)
		if n := len(p.store.made("heartbeat")); n != 60 {
			w.Errorf("%d heartbeats, want one a second since the second job came", n)
		}
		w.stop(p)
	})

	bubble(t, "the_hour_of_a_claim_that_is_over_is_nobodys", func(w *world) {
		o := queue.EnqueueOptions{VisibilityTimeout: 9 * time.Second}
		w.enqueue("q", 1, o)
		p := w.start(runtime.Config{}, serve("q", func(ctx context.Context, j *queue.Job) error {
			return within(ctx, time.Duration(j.ID)*time.Second)
		}, handlers.Options{}))
		began := time.Now()
		w.pass(2 * time.Second)
		w.enqueue("q", 4, o) // 2, 3, 4 and 5 seconds from now on
		w.pass(time.Minute)
		beats := p.store.made("heartbeat")
		if len(beats) != 1 || beats[0].at.Sub(began) != 5*time.Second {
			w.Errorf("got %+v, want one heartbeat, three seconds after the second claim", beats)
		}
		w.stop(p)
	})

	bubble(t, "K6_whatever_else_hangs", func(w *world) {
		const lease = 3 * time.Second
		ids := w.enqueue("q", 3, queue.EnqueueOptions{VisibilityTimeout: lease})
		r := serve("q", w.ledger.handler(func(ctx context.Context, j *queue.Job) error {
			if j.ID == ids[0] {
				return within(ctx, time.Second) // its claim has to be kept as well, until the ack gets through
			}
			return within(ctx, 10*lease)
		}), handlers.Options{})
		p, other := w.prepare(runtime.Config{SweepInterval: time.Second}, r), w.prepare(runtime.Config{}, r)
		w.run(p)
		synctest.Wait()
		free := time.Now().Add(12 * lease)
		p.store.inject(func(_ context.Context, op string) error {
			if op != "heartbeat" {
				sleep(time.Until(free))
			}
			return nil
		})
		w.enqueue("elsewhere", 1, queue.EnqueueOptions{})
		w.run(other)
		w.pass(15 * lease)
		w.ledger.wantOnce(w.T, ids...)
		w.wantState(gone, ids...)
		w.stop(p, other)
	})

	bubble(t, "no_claims_no_heartbeats", func(w *world) {
		w.enqueue("q", 3, queue.EnqueueOptions{})
		p := w.start(runtime.Config{}, serve("q", w.ledger.taking(0), handlers.Options{}))
		w.pass(time.Hour)
		if n := len(p.store.made("heartbeat")); n != 0 {
			w.Errorf("%d heartbeats, want none", n)
		}
		w.stop(p)
	})

	for _, timeout := range []int64{0, -5, 1 << 40} {
		bubble(t, fmt.Sprintf("K3_a_timeout_of_%d_seconds_written_by_hand_does_not_spin", timeout), func(w *world) {
			_, err := w.store.Enqueue(w.Context(), []sqlstore.NewJob{{
				Queue: "q", Payload: []byte{}, Stamps: sqlstore.Stamps{VisibilityTimeoutS: timeout, MaxAttempts: 1},
			}})
			must(w.T, err)
			p := w.start(runtime.Config{}, serve("q", w.ledger.taking(time.Minute), handlers.Options{}))
			w.pass(time.Minute)
			if n := len(p.store.made("heartbeat")); n > 200 {
				w.Errorf("%d heartbeats in a minute, want at most three a second", n)
			}
			w.stop(p)
		})
	}
}

func TestLeaseLost(t *testing.T) {
	t.Parallel()
	const lease = 9 * time.Second
	const beat = lease / 3

	bubble(t, "K5_another_worker_has_the_job", func(w *world) {
		ids := w.enqueue("q", 1, queue.EnqueueOptions{VisibilityTimeout: lease})
		frozen := w.start(runtime.Config{}, serve("q", w.ledger.taking(time.Hour), handlers.Options{}))
		w.pass(time.Second)
		frozen.store.inject(failing(queue.ErrUnavailable)) // as with SIGSTOP: nothing gets through
		w.endLease(ids[0], 1)                              // long before its own clock says so, which is tested below
		other := w.start(runtime.Config{}, serve("q", w.ledger.handler(func(ctx context.Context, _ *queue.Job) error {
			return within(ctx, time.Minute)
		}), handlers.Options{}))
		w.pass(1500 * time.Millisecond)
		frozen.store.inject(nil) // SIGCONT
		w.pass(beat)
		runs := w.ledger.of(ids[0])
		if len(runs) != 2 || !errors.Is(runs[0].cause, handlers.ErrLeaseLost) || runs[1].end != 0 {
			w.Fatalf("got %+v, want the first run ended by ErrLeaseLost within one heartbeat, the second going on", runs)
		}
		w.pass(time.Minute)
		w.wantState(gone, ids...)
		if n := len(frozen.store.made("retry", "ack", "release", "fail")); n != 0 {
			w.Errorf("the first worker recorded its answer, want it dropped: %v", frozen.store.made())
		}
		if len(w.ledger.of(ids[0])) != 2 {
			w.Errorf("got %+v, want two runs", w.ledger.all())
		}
		w.stop(frozen, other)
		w.log.want(w.T, 1, "level=WARN", "claim was lost")
		w.log.want(w.T, 1, "level=INFO", "its answer is dropped", "lease lost")
		w.log.want(w.T, 0, "level=ERROR")
	})

	bubble(t, "K5_another_worker_has_finished_the_job", func(w *world) {
		// The job is gone, as after a cancel, but we hear of it only once our lease has ended.
		ids := w.enqueue("q", 1, queue.EnqueueOptions{VisibilityTimeout: lease})
		p := w.start(runtime.Config{}, serve("q", w.ledger.taking(time.Hour), handlers.Options{}))
		w.pass(time.Second)
		p.store.injectAfter(func(_ context.Context, op string) error {
			switch op {
			case "heartbeat":
				sleep(lease)
			case "next":
				return queue.ErrBusy
			}
			return nil
		})
		w.endLease(ids[0], 1)
		w.pass(time.Second)
		stolen := w.claim("q", 1)
		held, err := w.client.Ack(w.Context(), stolen[0].Handle())
		if err != nil || !held[0] {
			w.Fatalf("ack by the other: got %v, %v", held, err)
		}
		w.pass(beat + lease)
		w.ledger.wantCause(w.T, ids[0], handlers.ErrLeaseLost)
		w.log.want(w.T, 1, "claim was lost")
		w.stop(p)
	})

	bubble(t, "the_lease_ends_without_a_heartbeat_getting_through", func(w *world) {
		ids := w.enqueue("q", 2, queue.EnqueueOptions{VisibilityTimeout: lease})
		long := w.enqueue("q", 1, queue.EnqueueOptions{VisibilityTimeout: time.Hour})
		p := w.start(runtime.Config{}, serve("q", w.ledger.taking(30*time.Minute), handlers.Options{}))
		w.pass(beat / 2)
		p.store.inject(failing(queue.ErrBusy, "heartbeat"))
		w.pass(lease - beat/2 - time.Millisecond)
		if running, _ := w.ledger.count(); running != 3 {
			w.Fatalf("%d handlers run just before the end of the lease, want 3", running)
		}
		w.pass(time.Millisecond)
		for _, id := range ids {
			w.ledger.wantCause(w.T, id, handlers.ErrLeaseLost)
		}
		w.wantState(queue.Processing, ids...) // and not yet claimable: nobody else runs it before we stop
		p.store.inject(nil)
		w.pass(10 * time.Minute)
		if runs := w.ledger.of(long[0]); len(runs) != 1 || runs[0].end != 0 {
			w.Errorf("the job of a longer timeout: got %+v, want it still running", runs)
		}
		w.log.want(w.T, 1, "does not take heartbeats")
		w.log.want(w.T, 1, "takes heartbeats again")
		w.log.want(w.T, 2, "could not get through")
		w.stop(p)
	})

	bubble(t, "the_lease_ends_while_the_database_does_not_answer", func(w *world) {
		ids := w.enqueue("q", 1, queue.EnqueueOptions{VisibilityTimeout: lease})
		p := w.start(runtime.Config{}, serve("q", w.ledger.taking(time.Hour), handlers.Options{}))
		w.pass(time.Second)
		p.store.inject(slow(time.Hour, "heartbeat"))
		w.pass(lease - time.Second)
		w.ledger.wantCause(w.T, ids[0], handlers.ErrLeaseLost)
		w.stop(p)
	})

	bubble(t, "one_failed_round_cancels_nobody", func(w *world) {
		ids := w.enqueue("q", 20, queue.EnqueueOptions{VisibilityTimeout: lease})
		r := serve("q", w.ledger.taking(4*lease), handlers.Options{})
		p, neighbour := w.start(runtime.Config{Concurrency: 20}, r), w.start(runtime.Config{}, r)
		w.pass(beat / 2)
		p.store.inject(first(2, failing(queue.ErrBusy), "heartbeat"))
		w.pass(5 * lease)
		if n := p.store.failed("heartbeat"); n != 2 {
			w.Errorf("%d faults reached the worker, want 2", n)
		}
		w.ledger.wantOnce(w.T, ids...)
		w.wantState(gone, ids...)
		w.stop(p, neighbour)
	})

	bubble(t, "K11_failed_heartbeats_are_repeated_without_a_hot_loop", func(w *world) {
		w.enqueue("q", 1, queue.EnqueueOptions{VisibilityTimeout: time.Hour})
		p := w.start(runtime.Config{}, serve("q", w.ledger.taking(2*time.Hour), handlers.Options{}))
		w.pass(19 * time.Minute)
		p.store.inject(failing(queue.ErrBusy, "heartbeat"))
		w.pass(11 * time.Minute)
		if n := p.store.failed("heartbeat"); n < 100 || n > 3000 {
			w.Errorf("%d tries in ten minutes, want one or two a second", n)
		}
		w.stop(p)
	})

	bubble(t, "expired_while_it_ran", func(w *world) {
		ids := w.enqueue("q", 1, queue.EnqueueOptions{VisibilityTimeout: lease, Expires: 20 * time.Second})
		p := w.start(runtime.Config{}, serve("q", w.ledger.taking(time.Hour), handlers.Options{}))
		w.pass(20*time.Second + 6*time.Second + beat)
		w.ledger.wantCause(w.T, ids[0], handlers.ErrLeaseLost)
		w.wantState(queue.Dead, ids...)
		w.log.want(w.T, 1, "in the dead letters as expired")
		w.stop(p)
	})

	bubble(t, "why_it_is_lost_cannot_be_told", func(w *world) {
		ids := w.enqueue("q", 1, queue.EnqueueOptions{VisibilityTimeout: lease})
		p := w.start(runtime.Config{}, serve("q", w.ledger.taking(time.Hour), handlers.Options{}))
		w.pass(time.Second)
		p.store.inject(failing(queue.ErrUnavailable, "get"))
		_, err := w.client.Cancel(w.Context(), ids...)
		must(w.T, err)
		w.pass(beat)
		w.ledger.wantCause(w.T, ids[0], handlers.ErrLeaseLost)
		w.log.want(w.T, 1, "does not tell why", queue.ErrUnavailable.Error())
		w.stop(p)
	})
}

func TestCancelled(t *testing.T) {
	t.Parallel()

	bubble(t, "H8_the_context_ends_with_the_next_heartbeat", func(w *world) {
		ids := w.enqueue("q", 3, queue.EnqueueOptions{VisibilityTimeout: 30 * time.Second})
		p := w.start(runtime.Config{}, serve("q", w.ledger.taking(time.Hour), handlers.Options{}))
		w.pass(time.Second)
		found, err := w.client.Cancel(w.Context(), ids[1])
		if err != nil || !found[0] {
			w.Fatalf("cancel: got %v, %v", found, err)
		}
		w.pass(9 * time.Second)
		w.ledger.wantCause(w.T, ids[1], handlers.ErrCancelled)
		if running, _ := w.ledger.count(); running != 2 {
			w.Errorf("%d handlers run, want the two neighbours", running)
		}
		if n := len(p.store.made("retry", "ack", "release", "fail")); n != 0 {
			w.Errorf("%d answers were recorded for a job that is gone, want none", n)
		}
		w.stop(p)
		w.log.want(w.T, 1, "level=INFO", "cancelled while it ran")
		w.log.want(w.T, 0, "level=ERROR") // K107
	})

	bubble(t, "K107_an_ack_that_a_heartbeat_overtakes_is_no_cancel", func(w *world) {
		// The ack is done, its answer still on the way, when the heartbeat is refused.
		ids := w.enqueue("q", 1, queue.EnqueueOptions{VisibilityTimeout: 3 * time.Second})
		p := w.start(runtime.Config{}, serve("q", w.ledger.taking(1500*time.Millisecond), handlers.Options{}))
		p.store.injectAfter(slow(5*time.Second, "ack"))
		w.pass(10 * time.Second)
		beats := p.store.made("heartbeat")
		if len(beats) != 2 {
			w.Errorf("%d heartbeats, want one while it ran, one refused and no more", len(beats))
		}
		w.wantState(gone, ids...)
		w.log.quiet(w.T)
		w.log.want(w.T, 0, "cancelled")
		w.log.want(w.T, 1, "job done")
		w.stop(p)
	})
}

// The deadline of a claim in the store is never earlier than the worker believes: were it so, another worker could start
// a job while ours still runs.
func TestLeaseEnd(t *testing.T) {
	t.Parallel()
	for _, offset := range []time.Duration{0, time.Millisecond, 500 * time.Millisecond, 999 * time.Millisecond} {
		bubble(t, fmt.Sprintf("C7_claimed_%v_into_a_second", offset), func(w *world) {
			w.pass(offset)
			ids := w.enqueue("q", 1, queue.EnqueueOptions{VisibilityTimeout: 2 * time.Second})
			r := serve("q", w.ledger.taking(time.Hour), handlers.Options{})
			p := w.start(runtime.Config{}, r)
			synctest.Wait()
			p.kill()
			other := w.start(runtime.Config{}, r)
			w.pass(5 * time.Second)
			runs := w.ledger.of(ids[0])
			if len(runs) != 2 || runs[0].end == 0 || runs[0].end > runs[1].start {
				w.Errorf("got %+v, want the first run to end before the second starts", runs)
			}
			p.bury()
			w.stop(other)
		})
	}
}

// What a real file answers while another connection holds its write lock is an outage, not a reason to stop.
func TestHeartbeatLockedOut(t *testing.T) {
	t.Parallel()
	for name, busy := range map[string]time.Duration{
		"K11_with_a_busy_timeout_longer_than_the_lease":  0,
		"K11_with_a_busy_timeout_shorter_than_the_lease": 50 * time.Millisecond,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "jobs.db")
			c, err := queue.Open(t.Context(), path, &queue.Config{BusyTimeout: busy, Synchronous: queue.Normal})
			must(t, err)
			t.Cleanup(func() { must(t, c.Close()) })
			other, err := sql.Open("sqlite", queue.SQLiteDSN(path))
			must(t, err)
			t.Cleanup(func() { must(t, other.Close()) })

			enqueue(t, c, "q", 1, queue.EnqueueOptions{VisibilityTimeout: time.Second})
			began, causes := make(chan int, 2), make(chan error, 2)
			background(t, c, serve("q", func(ctx context.Context, j *queue.Job) error {
				began <- j.Attempt
				if j.Attempt == 1 {
					<-ctx.Done()
				}
				causes <- context.Cause(ctx)
				return nil
			}, handlers.Options{}), runtime.Config{Logger: new(logbook).logger(), SweepInterval: 100 * time.Millisecond})
			receive(t, began)
			tx, err := other.BeginTx(t.Context(), nil) // takes the write lock
			must(t, err)
			if cause := receive(t, causes); !errors.Is(cause, handlers.ErrLeaseLost) {
				t.Errorf("got the cause %v, want ErrLeaseLost", cause)
			}
			must(t, tx.Rollback())
			if attempt := receive(t, began); attempt != 2 {
				t.Errorf("ran as attempt %d, want 2", attempt)
			}
			if cause := receive(t, causes); cause != nil {
				t.Errorf("got the cause %v, want none", cause)
			}
		})
	}
}
