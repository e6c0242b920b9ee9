package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/runtime"
	"github.com/alkstore/alkworker/scheduler"
)

// The clock of a machine is set while workers run: by an administrator, or by a time server that steps.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	const lease = 12 * time.Second

	for _, jump := range []time.Duration{-3 * time.Second, 3 * time.Second} {
		for _, after := range []time.Duration{0, 1500 * time.Millisecond, 3999 * time.Millisecond} {
			bubble(t, fmt.Sprintf("K18_by_%v_%v_after_a_heartbeat_ends_no_lease", jump, after), func(w *world) {
				ids := w.enqueue("q", 8, queue.EnqueueOptions{VisibilityTimeout: lease})
				r := serve("q", w.ledger.taking(10*lease), handlers.Options{})
				p, other := w.start(runtime.Config{}, r), w.start(runtime.Config{}, r)
				w.pass(lease/3 + after)
				w.jump(jump)
				w.pass(5 * lease)
				w.jump(-jump)
				w.pass(6 * lease)
				w.ledger.wantOnce(w.T, ids...)
				for _, id := range ids {
					w.ledger.wantCause(w.T, id, nil)
				}
				w.wantState(gone, ids...)
				w.stop(p, other)
				w.log.quiet(w.T)
			})
		}
	}

	bubble(t, "by_two_hours_forward_loses_leases_and_no_job", func(w *world) {
		// Every deadline is past: that is what the clock says, and who may claim has to believe it.
		running := w.enqueue("q", 8, queue.EnqueueOptions{VisibilityTimeout: lease})
		later := w.enqueue("q", 8, queue.EnqueueOptions{VisibilityTimeout: lease, Delay: time.Hour})
		r := serve("q", w.ledger.taking(time.Minute), handlers.Options{})
		p, other := w.start(runtime.Config{}, r), w.start(runtime.Config{}, r)
		w.pass(30 * time.Second)
		w.jump(2 * time.Hour)
		w.pass(lease / 3)
		for _, id := range running {
			if runs := w.ledger.of(id); !errors.Is(runs[0].cause, handlers.ErrLeaseLost) {
				w.Errorf("job %d: got %+v, want its first run ended by ErrLeaseLost within one heartbeat", id, runs)
			}
		}
		w.pass(5 * time.Minute)
		w.wantState(gone, append(running, later...)...)
		for _, id := range running {
			if runs := w.ledger.of(id); len(runs) != 2 || runs[1].cause != nil {
				w.Errorf("job %d: got %+v, want a second run to its end", id, runs)
			}
		}
		for _, id := range later {
			if runs := w.ledger.of(id); len(runs) != 1 {
				w.Errorf("job %d: got %+v, want one run, its time has come", id, runs)
			}
		}
		w.stop(p, other)
		w.log.want(w.T, 0, "level=ERROR")
	})

	bubble(t, "by_two_hours_back_loses_nothing", func(w *world) {
		// What runs goes on, what is new runs at once, and what was ready before waits until its time comes again.
		running := w.enqueue("q", 4, queue.EnqueueOptions{VisibilityTimeout: lease})
		waiting := w.enqueue("q", 4, queue.EnqueueOptions{VisibilityTimeout: lease, Delay: time.Minute})
		r := serve("q", w.ledger.taking(time.Minute+30*time.Second), handlers.Options{})
		p, other := w.start(runtime.Config{}, r), w.start(runtime.Config{}, r)
		w.pass(30 * time.Second)
		w.jump(-2 * time.Hour)
		fresh := w.enqueue("q", 4, queue.EnqueueOptions{VisibilityTimeout: lease})
		w.pass(5 * time.Minute)
		w.ledger.wantOnce(w.T, append(running, fresh...)...)
		w.wantState(gone, append(running, fresh...)...)
		w.wantState(queue.Pending, waiting...)
		if n := len(p.store.made()); n > 1000 {
			w.Errorf("%d calls in five minutes, want no hot loop", n)
		}
		w.pass(2 * time.Hour)
		w.ledger.wantOnce(w.T, append(append(running, fresh...), waiting...)...)
		w.wantState(gone, waiting...)
		w.stop(p, other)
		w.log.quiet(w.T)
	})

	bubble(t, "S5_by_two_hours_fires_no_boundary_twice", func(w *world) {
		must(w.T, scheduler.Set(w.Context(), w.client, scheduler.Schedule{Name: "a", Spec: "@every 10m", Queue: "q"}))
		boundaries := make(map[time.Time]int)
		var mu sync.Mutex
		p := w.prepare(runtime.Config{}, serve("q", func(_ context.Context, j *queue.Job) error {
			mu.Lock()
			defer mu.Unlock()
			boundaries[j.ScheduledFor]++
			return nil
		}, handlers.Options{}))
		w.run(p)
		s := scheduler.New(w.client, scheduler.Config{Logger: w.log.logger()})
		ctx, stop := context.WithCancel(w.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		for _, jump := range []time.Duration{2 * time.Hour, -2 * time.Hour, -3 * time.Second, 3 * time.Second, 2 * time.Hour} {
			w.pass(25 * time.Minute)
			w.jump(jump)
		}
		w.pass(25 * time.Minute)
		stop()
		must(w.T, <-ended)
		w.stop(p)
		// 2 h 25 min were the farthest the clock came, and in the end it came to 4 h 5 min less 2 h and 2 h.
		if len(boundaries) < 26 {
			w.Errorf("%d boundaries were fired, want those of more than four hours", len(boundaries))
		}
		for at, times := range boundaries {
			if times != 1 {
				w.Errorf("boundary %v was fired %d times", at, times)
			}
		}
	})
}

// A disk, or a server, that takes its time for everything.
func TestSlowDatabase(t *testing.T) {
	t.Parallel()
	const lease = 9 * time.Second

	for _, most := range []time.Duration{500 * time.Millisecond, 2 * time.Second} {
		bubble(t, fmt.Sprintf("every_call_takes_up_to_%v", most), func(w *world) {
			ids := w.enqueue("q", 60, queue.EnqueueOptions{VisibilityTimeout: lease})
			r := serve("q", w.ledger.handler(func(ctx context.Context, j *queue.Job) error {
				return within(ctx, time.Duration(j.ID%5)*lease/2)
			}), handlers.Options{})
			var fleet []*process
			for i := range uint64(2) {
				p := w.prepare(runtime.Config{Concurrency: 8}, r)
				random := rand.New(rand.NewPCG(7, i))
				var mu sync.Mutex
				p.store.inject(func(ctx context.Context, op string) error {
					mu.Lock()
					d := time.Duration(random.Int64N(int64(most)))
					mu.Unlock()
					return slow(d)(ctx, op)
				})
				w.run(p)
				fleet = append(fleet, p)
			}
			w.pass(10 * time.Minute)
			w.ledger.wantOnce(w.T, ids...)
			for _, id := range ids {
				w.ledger.wantCause(w.T, id, nil)
			}
			w.wantState(gone, ids...)
			w.stop(fleet...)
			w.log.want(w.T, 0, "level=ERROR")
		})
	}
}

// A heartbeat that gets no answer at all is worse than one that fails.
func TestStalledHeartbeat(t *testing.T) {
	t.Parallel()
	const lease = 9 * time.Second

	for n := 1; n <= 2; n++ {
		bubble(t, fmt.Sprintf("%d_without_an_answer_cancel_nobody_while_lease_is_left", n), func(w *world) {
			ids := w.enqueue("q", 5, queue.EnqueueOptions{VisibilityTimeout: lease})
			r := serve("q", w.ledger.taking(4*lease), handlers.Options{})
			p, other := w.start(runtime.Config{}, r), w.start(runtime.Config{}, r)
			w.pass(time.Second)
			for _, one := range []*process{p, other} {
				one.store.inject(first(n, slow(time.Hour), "heartbeat"))
			}
			w.pass(5 * lease)
			if faults := p.store.failed("heartbeat") + other.store.failed("heartbeat"); faults < n {
				w.Errorf("%d heartbeats were stalled, want %d", faults, n)
			}
			w.ledger.wantOnce(w.T, ids...)
			for _, id := range ids {
				w.ledger.wantCause(w.T, id, nil)
			}
			w.wantState(gone, ids...)
			w.stop(p, other)
		})
	}
}

// The name of a worker is for people: nothing depends on its being unique.
func TestSameNameTwice(t *testing.T) {
	t.Parallel()

	bubble(t, "two_workers_of_one_name_share_the_work_and_survive_each_other", func(w *world) {
		const lease = 6 * time.Second
		ids := w.enqueue("q", 40, queue.EnqueueOptions{VisibilityTimeout: lease})
		r := serve("q", w.ledger.taking(2*lease), handlers.Options{})
		config := runtime.Config{Name: "twin", Concurrency: 4}
		one, two := w.start(config, r), w.start(config, r)
		w.pass(lease)
		if stats := w.stats("q"); stats.Workers != 2 || stats.Processing != 8 {
			w.Errorf("got %+v, want two workers with four jobs each", stats)
		}
		w.stop(one)
		if stats := w.stats("q"); stats.Workers != 1 {
			w.Errorf("got %+v, want the other still announced", stats)
		}
		// One of them dies, and comes back under its name while its claims still hold.
		w.pass(time.Second) // it is between two acks
		two.kill()
		three := w.start(config, r)
		w.pass(time.Minute)
		two.bury()
		w.pass(10 * time.Minute)
		w.stop(three)
		w.wantState(gone, ids...)
		again := 0
		for _, id := range ids {
			switch runs := w.ledger.of(id); {
			case len(runs) == 2 && errors.Is(runs[0].cause, handlers.ErrLeaseLost) && runs[0].end <= runs[1].start:
				again++
			case len(runs) != 1:
				w.Errorf("job %d: got %+v, want one run, or two with a lapsed lease in between", id, runs)
			}
		}
		if again == 0 {
			w.Error("no lease lapsed: the test shows nothing")
		}
	})

	bubble(t, "a_claim_of_the_other_twin_cannot_be_ended", func(w *world) {
		w.enqueue("q", 1, queue.EnqueueOptions{VisibilityTimeout: time.Second})
		claim := func() sqlstore.Handle {
			w.Helper()
			rows, err := w.store.ClaimBatch(w.Context(), sqlstore.Claim{Queue: "q", Claimant: "twin", Limit: 1})
			must(w.T, err)
			if len(rows) != 1 {
				w.Fatalf("claimed %d jobs, want 1", len(rows))
			}
			return sqlstore.Handle{ID: rows[0].ID, Fence: rows[0].Fence}
		}
		first := claim()
		w.pass(3 * time.Second)
		second := claim()
		if held, err := w.store.AckBatch(w.Context(), []sqlstore.Handle{first, second}); err != nil || held[0] || !held[1] {
			w.Errorf("acks: got %v, %v, want only that of the second claim", held, err)
		}
	})
}
