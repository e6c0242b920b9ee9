package runtime_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/runtime"
)

func TestClaim(t *testing.T) {
	t.Parallel()

	bubble(t, "K8_never_more_than_there_are_free_slots", func(w *world) {
		ids := w.enqueue("q", 20, queue.EnqueueOptions{VisibilityTimeout: 2 * time.Second})
		r := serve("q", w.ledger.taking(500*time.Millisecond), handlers.Options{})
		a, b := w.start(runtime.Config{Concurrency: 1}, r), w.start(runtime.Config{Concurrency: 1}, r)
		w.pass(6 * time.Second)
		w.ledger.wantOnce(w.T, ids...)
		w.wantState(gone, ids...)
		for _, c := range append(a.store.made("claim"), b.store.made("claim")...) {
			if c.n != 1 {
				w.Errorf("a claim asked for %d jobs, want 1", c.n)
			}
		}
		w.stop(a, b)
	})

	bubble(t, "asks_for_as_many_as_there_are_free_slots", func(w *world) {
		w.enqueue("q", 10, queue.EnqueueOptions{})
		p := w.start(runtime.Config{Concurrency: 16}, serve("q", w.ledger.taking(time.Minute), handlers.Options{}))
		w.pass(time.Second)
		w.enqueue("q", 100, queue.EnqueueOptions{})
		w.pass(time.Second)
		free := 16
		for _, c := range p.store.made("claim") {
			if c.n > free {
				w.Errorf("a claim asked for %d jobs with %d free slots", c.n, free)
			}
			free = 6
		}
		if running, most := w.ledger.count(); running != 16 || most != 16 {
			w.Errorf("%d handlers run, %d at most, want 16", running, most)
		}
		w.stop(p)
	})

	bubble(t, "one_claim_does_not_take_all_of_many_slots", func(w *world) {
		w.enqueue("q", 1200, queue.EnqueueOptions{})
		p := w.start(runtime.Config{Concurrency: 1000}, serve("q", w.ledger.taking(time.Minute), handlers.Options{}))
		w.pass(time.Second)
		var asked []int
		for _, c := range p.store.made("claim") {
			asked = append(asked, c.n)
		}
		if !slices.Equal(asked, []int{500, 500}) {
			w.Errorf("claims asked for %d jobs, want 500 and, while they run, 500 more", asked)
		}
		if running, _ := w.ledger.count(); running != 1000 {
			w.Errorf("%d handlers run, want 1000", running)
		}
		w.stop(p)
	})

	bubble(t, "a_queue_stays_within_its_own_concurrency", func(w *world) {
		w.enqueue("few", 50, queue.EnqueueOptions{})
		w.enqueue("many", 200, queue.EnqueueOptions{})
		var few, many ledger
		r := serve("few", few.taking(time.Second), handlers.Options{Concurrency: 3})
		r.Register("many", many.taking(time.Second), handlers.Options{Concurrency: 1000})
		p := w.start(runtime.Config{Concurrency: 10}, r)
		w.pass(time.Minute)
		if _, most := few.count(); most != 3 {
			w.Errorf("%d jobs of few ran at the same time, want 3", most)
		}
		if _, most := many.count(); most != 10 {
			w.Errorf("%d jobs of many ran at the same time, want all slots once few was empty", most)
		}
		w.stop(p)
	})

	bubble(t, "K9_each_job_ends_once_however_much_is_swept", func(w *world) {
		const n = 600
		var ids []int64
		ids = append(ids, w.enqueue("q", n/2, queue.EnqueueOptions{})...)
		doomed := w.enqueue("q", n/2, queue.EnqueueOptions{Priority: -1, Expires: 2 * time.Second})
		ids = append(ids, doomed...)
		r := serve("q", w.ledger.taking(100*time.Millisecond), handlers.Options{})
		var workers []*process
		for range 4 {
			workers = append(workers, w.start(runtime.Config{Concurrency: 4, SweepInterval: 50 * time.Millisecond}, r))
		}
		w.pass(time.Minute)
		finished, dead := 0, 0
		for _, id := range ids {
			switch runs := len(w.ledger.of(id)); {
			case w.state(id) == queue.Dead && runs == 0:
				dead++
			case w.state(id) == gone && runs == 1:
				finished++
			default:
				w.Errorf("job %d is %s after %d runs", id, w.state(id), runs)
			}
		}
		if finished < n/2 || dead == 0 || finished+dead != n {
			w.Errorf("%d finished and %d are dead, want %d in all and some of each", finished, dead, n)
		}
		w.stop(workers...)
	})

	bubble(t, "K15_a_delay_of_five_leases", func(w *world) {
		const lease = 3 * time.Second
		ids := w.enqueue("q", 1, queue.EnqueueOptions{Delay: 5 * lease, VisibilityTimeout: lease})
		enqueued := time.Now()
		var started time.Duration
		r := serve("q", w.ledger.handler(func(context.Context, *queue.Job) error {
			started = time.Since(enqueued)
			return nil
		}), handlers.Options{})
		a, b, c := w.start(runtime.Config{}, r), w.start(runtime.Config{}, r), w.start(runtime.Config{}, r)
		w.pass(5*lease - time.Millisecond)
		if j := w.get(ids[0]); j.State != queue.Pending || j.Fence != 0 || j.Attempt != 0 || !j.ClaimExpiresAt.IsZero() {
			w.Errorf("while it waits: %+v, want it untouched", j)
		}
		w.pass(lease)
		w.ledger.wantOnce(w.T, ids...)
		if started != 5*lease {
			w.Errorf("started after %v, want %v", started, 5*lease)
		}
		w.stop(a, b, c)
	})

	bubble(t, "K17_a_queue_without_a_handler_is_not_touched", func(w *world) {
		ids := w.enqueue("nobody", 3, queue.EnqueueOptions{})
		p := w.start(runtime.Config{}, serve("q", w.ledger.taking(0), handlers.Options{}))
		w.pass(time.Hour)
		w.wantState(queue.Pending, ids...)
		for _, c := range p.store.made("claim") {
			if c.queue != "q" {
				w.Errorf("claimed from %q", c.queue)
			}
		}
		if j := w.get(ids[0]); j.Fence != 0 {
			w.Errorf("fence %d, want 0", j.Fence)
		}
		w.stop(p)
	})

	bubble(t, "K22_room_comes_back_after_lost_claims", func(w *world) {
		const lease = 3 * time.Second
		r := serve("q", w.ledger.taking(2*time.Second), handlers.Options{Concurrency: 2})
		for range 50 {
			w.enqueue("q", 2, queue.EnqueueOptions{VisibilityTimeout: lease})
			p := w.start(runtime.Config{}, r)
			w.pass(time.Second)
			p.kill()
			p.Stop()
		}
		w.enqueue("q", 100, queue.EnqueueOptions{VisibilityTimeout: lease})
		p := w.start(runtime.Config{}, r)
		// The first of it makes its worker wait for the leases of the dead, the rest is throughput: 2 jobs every 2 s.
		w.pass(10 * time.Minute)
		if idle, err := w.client.Idle(w.Context(), []string{"q"}); err != nil || !idle {
			w.Errorf("jobs are left after ten minutes: %v, %v", idle, err)
		}
		w.stop(p)
	})

	bubble(t, "K22_room_comes_back_in_the_worker_that_lost_its_claims", func(w *world) {
		const lease = 3 * time.Second
		w.enqueue("q", 200, queue.EnqueueOptions{VisibilityTimeout: lease})
		p := w.start(runtime.Config{Concurrency: 2}, serve("q", w.ledger.taking(10*time.Second), handlers.Options{}))
		for range 50 {
			w.pass(time.Second)
			p.store.inject(failing(queue.ErrBusy, "heartbeat", "ack", "retry", "release"))
			w.pass(2 * lease)
			p.store.inject(nil)
			w.pass(time.Second)
		}
		w.pass(time.Minute)
		if running, most := w.ledger.count(); running != 2 || most != 2 {
			w.Errorf("%d handlers run, %d at most, want 2", running, most)
		}
		w.stop(p)
	})
}

func TestClaimOutage(t *testing.T) {
	t.Parallel()

	bubble(t, "K21_a_job_that_came_due_while_claims_failed", func(w *world) {
		w.enqueue("q", 1, queue.EnqueueOptions{Delay: time.Second})
		began := time.Now()
		var started time.Duration
		p := w.start(runtime.Config{PollInterval: 30 * time.Second},
			serve("q", func(context.Context, *queue.Job) error { started = time.Since(began); return nil }, handlers.Options{}))
		w.pass(500 * time.Millisecond)
		p.store.inject(failing(queue.ErrBusy, "claim"))
		w.pass(3500 * time.Millisecond)
		if n := p.store.failed("claim"); n < 4 || n > 30 {
			w.Errorf("%d tries in three seconds, want a few", n)
		}
		p.store.inject(nil)
		w.pass(time.Minute)
		if started < 4*time.Second || started > 5*time.Second {
			w.Errorf("started after %v, want within a second of the fourth", started)
		}
		w.log.want(w.T, 1, "does not take claims")
		w.log.want(w.T, 1, "takes claims again")
		w.stop(p)
	})

	bubble(t, "K21_with_a_busy_timeout_of_five_seconds", func(w *world) {
		// As SQLite does it: the call itself waits for the lock.
		w.enqueue("q", 1, queue.EnqueueOptions{Delay: time.Second})
		began := time.Now()
		var started time.Duration
		p := w.start(runtime.Config{PollInterval: 30 * time.Second},
			serve("q", func(context.Context, *queue.Job) error { started = time.Since(began); return nil }, handlers.Options{}))
		w.pass(500 * time.Millisecond)
		p.store.inject(func(_ context.Context, op string) error {
			if op == "claim" {
				sleep(4*time.Second - time.Since(began))
			}
			return nil
		})
		w.pass(time.Minute)
		if started != 4*time.Second {
			w.Errorf("started after %v, want 4 s", started)
		}
		w.stop(p)
	})

	bubble(t, "K21_a_claim_that_had_to_wait_keeps_no_other_waiting", func(w *world) {
		w.enqueue("q", 4, queue.EnqueueOptions{VisibilityTimeout: time.Minute})
		began := time.Now()
		var mu sync.Mutex
		var started []time.Duration
		p := w.prepare(runtime.Config{Concurrency: 3}, serve("q", func(ctx context.Context, j *queue.Job) error {
			mu.Lock()
			started = append(started, time.Since(began))
			mu.Unlock()
			if j.ID <= 2 {
				return within(ctx, time.Minute)
			}
			return nil // and leaves one slot of three, for which it pays to wait for more
		}, handlers.Options{}))
		p.store.inject(first(1, slow(4*time.Second), "claim"))
		w.run(p)
		w.pass(20 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if len(started) != 4 || started[3] > 5*time.Second {
			w.Errorf("started after %v, want all within a second of the claim that took four", started)
		}
		w.stop(p)
	})

	bubble(t, "wake_ups_do_not_make_an_outage_a_hot_loop", func(w *world) {
		p := w.prepare(runtime.Config{NoScheduler: true}, serve("q", w.ledger.taking(10*time.Second), handlers.Options{}))
		p.store.inject(failing(queue.ErrUnavailable))
		w.run(p)
		for range 2000 {
			w.enqueue("q", 1, queue.EnqueueOptions{})
			w.pass(5 * time.Millisecond)
		}
		if n := p.store.failed("claim", "next"); n < 10 || n > 50 {
			w.Errorf("%d tries in ten seconds, want two or three a second", n)
		}
		p.store.inject(nil)
		w.pass(time.Second)
		if running, _ := w.ledger.count(); running != 16 {
			w.Errorf("%d handlers run, want all slots taken", running)
		}
		w.stop(p)
	})

	bubble(t, "looks_that_fail_are_repeated", func(w *world) {
		p := w.start(runtime.Config{}, serve("q", w.ledger.taking(0), handlers.Options{}))
		w.pass(time.Minute)
		p.store.inject(failing(queue.ErrUnavailable, "next", "claim"))
		ids := w.enqueue("q", 1, queue.EnqueueOptions{})
		w.pass(10 * time.Minute)
		p.store.inject(nil)
		w.pass(time.Second)
		w.ledger.wantOnce(w.T, ids...)
		w.log.want(w.T, 2, "claims") // one line at each end
		w.stop(p)
	})

	bubble(t, "a_claim_whose_answer_was_lost_is_made_good_by_its_lease", func(w *world) {
		ids := w.enqueue("q", 3, queue.EnqueueOptions{VisibilityTimeout: 3 * time.Second})
		p := w.prepare(runtime.Config{}, serve("q", w.ledger.taking(0), handlers.Options{}))
		p.store.injectAfter(first(1, failing(queue.ErrUnavailable), "claim"))
		w.run(p)
		w.pass(time.Minute)
		for _, id := range ids {
			if runs := w.ledger.of(id); len(runs) != 1 {
				w.Errorf("job %d: %+v, want one run", id, runs)
			}
		}
		w.wantState(gone, ids...)
		w.stop(p)
	})
}

func TestFairness(t *testing.T) {
	t.Parallel()

	bubble(t, "K96_one_queue_is_always_full", func(w *world) {
		// Its jobs take no time at all, and a claim does: there is always room for more of them. Whoever looks at nothing
		// else while there is something to claim sees nothing else.
		const flood = 2000
		var done atomic.Int64
		r := handlers.NewRegistry()
		r.Register("full", handlers.HandlerFunc(func(ctx context.Context, _ *queue.Job) error {
			jobs := []queue.NewJob{{Queue: "full"}} // one more for each that is done
			switch n := done.Add(1); {
			case n > flood:
				return nil
			case n%100 == 0:
				jobs = append(jobs, queue.NewJob{Queue: "rare", Payload: []byte(fmt.Sprint(n))})
			}
			_, err := w.client.Enqueue(ctx, jobs...)
			return err
		}), handlers.Options{})
		waited := make(map[string]int64)
		r.Register("rare", handlers.HandlerFunc(func(_ context.Context, j *queue.Job) error {
			n, err := strconv.ParseInt(string(j.Payload), 10, 64)
			waited[string(j.Payload)] = done.Load() - n
			return err
		}), handlers.Options{Concurrency: 1})
		w.enqueue("full", 50, queue.EnqueueOptions{})
		p := w.prepare(runtime.Config{Concurrency: 4, NoScheduler: true}, r)
		p.store.inject(slow(time.Millisecond, "claim"))
		w.run(p)
		w.pass(time.Minute)
		if len(waited) != flood/100 {
			w.Errorf("%d rare jobs ran, want %d", len(waited), flood/100)
		}
		for n, others := range waited {
			if others > 40 {
				w.Errorf("the rare job of %s waited for %d of the others, want a few", n, others)
			}
		}
		w.stop(p)
	})

	for _, slots := range []int{1, 2, 3} {
		bubble(t, fmt.Sprintf("K96_two_full_queues_share_%d_slots", slots), func(w *world) {
			w.enqueue("a", 1000, queue.EnqueueOptions{Priority: 9})
			w.enqueue("b", 1000, queue.EnqueueOptions{})
			var a, b ledger
			r := serve("a", a.taking(time.Second), handlers.Options{})
			r.Register("b", b.taking(time.Second), handlers.Options{})
			p := w.start(runtime.Config{Concurrency: slots}, r)
			w.pass(100 * time.Second)
			if n, m := len(a.all()), len(b.all()); min(n, m) < 45*slots || n+m < 99*slots {
				w.Errorf("%d and %d jobs ran, want half of %d each", n, m, 100*slots)
			}
			w.stop(p)
		})
	}

	bubble(t, "slots_that_one_queue_does_not_need_go_to_the_other", func(w *world) {
		w.enqueue("a", 1, queue.EnqueueOptions{})
		w.enqueue("b", 100, queue.EnqueueOptions{})
		r := serve("a", w.ledger.taking(time.Minute), handlers.Options{})
		r.Register("b", w.ledger.taking(time.Minute), handlers.Options{})
		p := w.start(runtime.Config{Concurrency: 16}, r)
		w.pass(time.Second)
		if running, _ := w.ledger.count(); running != 16 {
			w.Errorf("%d handlers run, want 16", running)
		}
		w.stop(p)
	})
}

// A claim is a write. An idle worker makes none, and a fleet few for each job.
func TestClaimCost(t *testing.T) {
	t.Parallel()

	bubble(t, "K95_an_idle_worker_claims_nothing", func(w *world) {
		r := handlers.NewRegistry()
		for i := range 10 {
			r.Register(fmt.Sprint("q", i), w.ledger.taking(0), handlers.Options{})
		}
		w.enqueue("q1", 1, queue.EnqueueOptions{Delay: 24 * time.Hour})
		p := w.start(runtime.Config{}, r)
		w.pass(time.Hour)
		if n := len(p.store.made("claim")); n > 1 {
			w.Errorf("%d claims in an idle hour", n)
		}
		if n := len(p.store.made("next")); n > 300 {
			w.Errorf("%d looks in an idle hour, want two a minute", n)
		}
		w.stop(p)
	})

	bubble(t, "K89_an_idle_fleet_makes_few_claims_for_a_job", func(w *world) {
		const workers, jobs = 4, 120
		r := serve("q", w.ledger.taking(100*time.Millisecond), handlers.Options{})
		var fleet []*process
		for range workers {
			fleet = append(fleet, w.start(runtime.Config{Concurrency: 200}, r))
		}
		w.pass(time.Second)
		for range jobs {
			w.enqueue("q", 1, queue.EnqueueOptions{})
			w.pass(1100 * time.Millisecond)
		}
		claims := 0
		for _, p := range fleet {
			claims += len(p.store.made("claim"))
		}
		if claims >= 5*jobs {
			w.Errorf("%d claims for %d jobs, want fewer than five each", claims, jobs)
		}
		w.stop(fleet...)
	})
}

func TestClaimedAtStop(t *testing.T) {
	t.Parallel()

	bubble(t, "jobs_claimed_while_a_stop_came_in_are_handed_back", func(w *world) {
		ids := w.enqueue("q", 5, queue.EnqueueOptions{})
		p := w.prepare(runtime.Config{}, serve("q", w.ledger.taking(0), handlers.Options{}))
		p.store.injectAfter(func(_ context.Context, op string) error {
			if op == "claim" {
				sleep(time.Second)
			}
			return nil
		})
		w.run(p)
		w.pass(500 * time.Millisecond)
		w.wantState(queue.Processing, ids...)
		w.stop(p)
		w.ledger.wantOnce(w.T) // no job ran
		for _, id := range ids {
			if j := w.get(id); j.State != queue.Pending || j.Attempt != 0 || time.Until(j.RunAt) > 500_000_000*time.Second {
				w.Errorf("job %d: %+v, want it pending, ready and without a spent attempt", id, j)
			}
		}
	})

	bubble(t, "and_lapse_if_that_fails", func(w *world) {
		ids := w.enqueue("q", 2, queue.EnqueueOptions{VisibilityTimeout: 5 * time.Second})
		p := w.prepare(runtime.Config{}, serve("q", w.ledger.taking(0), handlers.Options{}))
		p.store.injectAfter(func(ctx context.Context, op string) error {
			if op == "claim" {
				sleep(time.Second)
			}
			return failing(queue.ErrUnavailable, "release")(ctx, op)
		})
		p.store.Store = undone{w.store}
		w.run(p)
		w.pass(500 * time.Millisecond)
		w.stop(p)
		w.log.want(w.T, 1, "level=WARN", "could not be handed back", "jobs=2")
		other := w.start(runtime.Config{}, serve("q", w.ledger.taking(0), handlers.Options{}))
		w.pass(time.Minute)
		w.wantState(gone, ids...)
		w.stop(other)
	})
}

// undone is a store that forgets to release.
type undone struct{ sqlstore.Store }

func (undone) Release(_ context.Context, releases []sqlstore.Releasing) ([]bool, error) {
	return make([]bool, len(releases)), nil
}
