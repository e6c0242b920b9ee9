package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/runtime"
)

// fatal is a series of processes, one after the other, in which some jobs kill the process that runs them.
type fatal struct {
	*world
	config  runtime.Config
	takes   time.Duration // a job that kills nobody
	killers []int64
	died    int // processes

	mu   sync.Mutex
	done map[int64]int // how often the work of a job was finished
}

// live starts processes until one survives for d.
func (f *fatal) live(d time.Duration) {
	f.Helper()
	f.done = make(map[int64]int)
	for {
		dead := make(chan struct{})
		die := sync.OnceFunc(func() { close(dead) })
		var p *process
		p = f.prepare(f.config, serve("q", f.ledger.handler(func(ctx context.Context, job *queue.Job) error {
			if slices.Contains(f.killers, job.ID) {
				sleep(100 * time.Millisecond)
				p.kill()
				die()
			}
			select {
			case <-dead:
				return errors.New("nobody hears this")
			case <-time.After(f.takes):
				f.mu.Lock()
				defer f.mu.Unlock()
				f.done[job.ID]++
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}), handlers.Options{}))
		f.run(p)
		select {
		case <-dead:
			f.died++
			p.cancel()
			if f.died > 50 {
				f.Fatal("fifty processes died")
			}
		case <-time.After(d):
			f.stop(p)
			return
		}
	}
}

func TestSuspects(t *testing.T) {
	t.Parallel()

	for _, takes := range []time.Duration{30 * time.Millisecond, time.Second, 8 * time.Second} {
		bubble(t, "K25_a_job_that_kills_its_process_dies_alone_among_jobs_of_"+takes.String(), func(w *world) {
			const attempts = 3
			ids := w.enqueue("q", 20, queue.EnqueueOptions{VisibilityTimeout: 9 * time.Second, MaxAttempts: attempts})
			f := &fatal{world: w, takes: takes, killers: ids[7:8], config: runtime.Config{NoScheduler: true}}
			f.live(10 * time.Minute)
			if f.died != attempts {
				w.Errorf("%d processes died, want one for each attempt", f.died)
			}
			killer := w.get(ids[7])
			if killer == nil || killer.State != queue.Dead || killer.LastError != queue.TextMaxAttempts || len(killer.Failures) != attempts {
				w.Errorf("the killer: got %+v, want it dead with %d failures", killer, attempts)
			}
			for _, id := range slices.Concat(ids[:7], ids[8:]) {
				if w.state(id) != gone || f.done[id] != 1 {
					w.Errorf("job %d is %s and was finished %d times, want once: %+v", id, w.state(id), f.done[id], w.ledger.of(id))
				}
			}
		})
	}

	bubble(t, "K25_a_killer_with_a_large_budget_costs_its_neighbours_little_of_theirs", func(w *world) {
		const attempts = 20
		ids := w.enqueue("q", 16, queue.EnqueueOptions{VisibilityTimeout: 9 * time.Second, MaxAttempts: attempts})
		f := &fatal{world: w, takes: 2 * time.Second, killers: ids[7:8], config: runtime.Config{NoScheduler: true}}
		f.live(10 * time.Minute)
		w.wantState(queue.Dead, ids[7])
		if f.died != attempts {
			w.Errorf("%d processes died, want one for each attempt", f.died)
		}
		for _, id := range slices.Concat(ids[:7], ids[8:]) {
			w.wantState(gone, id)
			if runs := w.ledger.of(id); f.done[id] != 1 || len(runs) > 4 {
				w.Errorf("job %d was finished %d times in %d runs, want once in at most four", id, f.done[id], len(runs))
			}
		}
	})

	bubble(t, "K25_two_of_them", func(w *world) {
		ids := w.enqueue("q", 12, queue.EnqueueOptions{VisibilityTimeout: 9 * time.Second, MaxAttempts: 4})
		f := &fatal{world: w, takes: time.Second, killers: []int64{ids[3], ids[9]}, config: runtime.Config{NoScheduler: true, Concurrency: 6}}
		f.live(10 * time.Minute)
		w.wantState(queue.Dead, f.killers...)
		for _, id := range ids {
			if !slices.Contains(f.killers, id) {
				w.wantState(gone, id)
			}
		}
	})

	bubble(t, "K23_one_attempt_and_a_killed_process", func(w *world) {
		ids := w.enqueue("q", 1, queue.EnqueueOptions{VisibilityTimeout: 9 * time.Second, MaxAttempts: 1})
		f := &fatal{world: w, takes: time.Second, killers: ids, config: runtime.Config{NoScheduler: true}}
		f.live(time.Minute)
		if j := w.get(ids[0]); f.died != 1 || j.State != queue.Dead || j.LastError != queue.TextMaxAttempts || len(j.Failures) != 1 {
			w.Errorf("%d processes died, job %+v, want one and the job dead", f.died, j)
		}
	})

	const lease = 9 * time.Second
	const beat = lease / 3

	// abandoned makes n suspects of each kind. They have used so much of their budget that nobody trusts them.
	abandoned := func(w *world, n int, kinds ...queue.EnqueueOptions) (ids []int64) {
		w.Helper()
		for _, o := range kinds {
			o.VisibilityTimeout = lease
			if o.MaxAttempts == 0 {
				o.MaxAttempts = 3
			}
			ids = append(ids, w.enqueue("q", n, o)...)
		}
		w.claim("q", len(ids))
		w.pass(lease + time.Second)
		return ids
	}

	for _, c := range []struct {
		lost, budget int
		together     bool
	}{
		{1, 20, true}, {2, 20, true}, {3, 20, false}, {1, 4, true}, {2, 5, false}, {1, 3, false},
	} {
		name := fmt.Sprintf("K25_after_%d_of_%d_attempts_they_start_at_once_%v", c.lost, c.budget, c.together)
		bubble(t, name, func(w *world) {
			const n = 10
			ids := w.enqueue("q", n, queue.EnqueueOptions{VisibilityTimeout: lease, MaxAttempts: c.budget})
			for range c.lost {
				w.claim("q", n)
				w.pass(lease + time.Second)
			}
			p := w.start(runtime.Config{Concurrency: n}, serve("q", w.ledger.taking(time.Minute), handlers.Options{}))
			w.pass(time.Second)
			if running, _ := w.ledger.count(); (running == n) != c.together || running == 0 {
				w.Errorf("%d suspects run", running)
			}
			w.pass(10 * time.Minute)
			w.wantState(gone, ids...)
			w.stop(p)
		})
	}

	bubble(t, "K25_they_start_one_at_a_time_after_a_heartbeat", func(w *world) {
		ids := abandoned(w, 4, queue.EnqueueOptions{})
		fresh := w.enqueue("q", 3, queue.EnqueueOptions{Priority: -1})
		p := w.start(runtime.Config{}, serve("q", w.ledger.taking(time.Minute), handlers.Options{}))
		w.pass(50 * time.Second)
		var at []time.Duration
		for _, r := range w.ledger.all() {
			if slices.Contains(fresh, r.id) && r.start > time.Second {
				w.Errorf("a job that nobody suspects began after %v, want at once", r.start)
			}
			if slices.Contains(ids, r.id) {
				at = append(at, r.start)
			}
		}
		if len(at) != 4 {
			w.Fatalf("%d suspects began, want 4", len(at))
		}
		for i := 1; i < 4; i++ {
			if gap := at[i] - at[i-1]; gap < beat || gap > beat+200*time.Millisecond {
				w.Errorf("suspects began at %v, want a heartbeat (%v) apart", at, beat)
			}
		}
		w.stop(p)
	})

	bubble(t, "K25_a_heartbeat_for_the_sake_of_another_job_proves_nothing", func(w *world) {
		ids := abandoned(w, 3, queue.EnqueueOptions{})
		w.enqueue("q", 1, queue.EnqueueOptions{Priority: -1, VisibilityTimeout: time.Second}) // with three heartbeats a second
		p := w.start(runtime.Config{}, serve("q", w.ledger.taking(time.Minute), handlers.Options{}))
		w.pass(20 * time.Second)
		var at []time.Duration
		for _, r := range w.ledger.all() {
			if slices.Contains(ids, r.id) {
				at = append(at, r.start)
			}
		}
		if len(at) != 3 || at[1]-at[0] < beat || at[2]-at[1] < beat {
			w.Errorf("suspects began at %v, want at least %v apart", at, beat)
		}
		w.stop(p)
	})

	bubble(t, "K25_short_ones_follow_one_another_without_a_pause", func(w *world) {
		ids := abandoned(w, 50, queue.EnqueueOptions{})
		p := w.start(runtime.Config{}, serve("q", w.ledger.taking(100*time.Millisecond), handlers.Options{}))
		w.pass(6 * time.Second)
		w.wantState(gone, ids...)
		if _, most := w.ledger.count(); most != 1 {
			w.Errorf("%d ran at the same time, want 1", most)
		}
		w.stop(p)
	})

	bubble(t, "K25_in_all_queues_together", func(w *world) {
		for _, name := range []string{"a", "b"} {
			w.enqueue(name, 3, queue.EnqueueOptions{VisibilityTimeout: lease, MaxAttempts: 3})
			w.claim(name, 3)
		}
		w.pass(lease + time.Second)
		r := serve("a", w.ledger.taking(1500*time.Millisecond), handlers.Options{})
		r.Register("b", w.ledger.taking(1500*time.Millisecond), handlers.Options{})
		p := w.start(runtime.Config{}, r)
		w.pass(time.Minute)
		runs := w.ledger.all()
		if _, most := w.ledger.count(); most != 1 || len(runs) != 6 || runs[5].end > 9300*time.Millisecond {
			w.Errorf("%d at the same time, %+v; want six, one by one and without pauses", most, runs)
		}
		w.stop(p)
	})

	for _, first := range []bool{true, false} {
		bubble(t, fmt.Sprintf("K25_the_last_attempt_runs_beside_no_other_suspect_first_in_line_%v", first), func(w *world) {
			last, more := queue.EnqueueOptions{MaxAttempts: 2}, queue.EnqueueOptions{}
			if !first {
				more.Priority = 1
			}
			all := abandoned(w, 3, last, more)
			ids, others := all[:3], all[3:]
			p := w.start(runtime.Config{}, serve("q", w.ledger.taking(20*time.Second), handlers.Options{}))
			w.pass(10 * time.Minute)
			w.wantState(gone, ids...)
			w.wantState(gone, others...)
			for _, a := range w.ledger.all() {
				for _, b := range w.ledger.all() {
					if slices.Contains(ids, a.id) && a.id != b.id && a.start < b.end && b.start < a.end {
						w.Errorf("job %d, on its last attempt, ran beside suspect %d: %+v, %+v", a.id, b.id, a, b)
					}
				}
			}
			for _, id := range ids {
				if runs := w.ledger.of(id); len(runs) != 1 || runs[0].attempt != 2 {
					w.Errorf("job %d: %+v, want one run, as attempt 2: a refused start gives the attempt back", id, runs)
				}
			}
			if refused := len(p.store.made("release")); (refused == 0) != first || refused > 100 {
				w.Errorf("%d starts were refused", refused)
			}
			w.stop(p)
		})
	}

	bubble(t, "K25_a_refused_start_is_tried_again_soon_however_long_the_lease", func(w *world) {
		more := w.enqueue("q", 1, queue.EnqueueOptions{Priority: 1, VisibilityTimeout: queue.MaxVisibilityTimeout})
		last := w.enqueue("q", 1, queue.EnqueueOptions{VisibilityTimeout: queue.MaxVisibilityTimeout, MaxAttempts: 2})
		for _, j := range w.claim("q", 2) {
			w.endLease(j.ID, j.Fence)
		}
		w.pass(2 * time.Second)
		p := w.start(runtime.Config{}, serve("q", w.ledger.taking(20*time.Second), handlers.Options{}))
		w.pass(3 * time.Minute)
		w.wantState(gone, append(more, last...)...)
		w.stop(p)
	})

	bubble(t, "K25_they_are_found_while_other_jobs_keep_the_slots_busy", func(w *world) {
		ids := abandoned(w, 2, queue.EnqueueOptions{Priority: -5})
		w.enqueue("q", 1000, queue.EnqueueOptions{Priority: 5})
		p := w.start(runtime.Config{Concurrency: 2}, serve("q", w.ledger.taking(500*time.Millisecond), handlers.Options{}))
		w.pass(10 * time.Second)
		w.wantState(gone, ids...)
		w.stop(p)
	})

	bubble(t, "K25_they_are_found_in_a_steady_stream_of_other_jobs", func(w *world) {
		// There is always a wake-up before the next look.
		ids := abandoned(w, 2, queue.EnqueueOptions{})
		p := w.start(runtime.Config{}, serve("q", w.ledger.taking(5*time.Millisecond), handlers.Options{}))
		for range 500 {
			w.enqueue("q", 1, queue.EnqueueOptions{})
			w.pass(20 * time.Millisecond)
		}
		w.wantState(gone, ids...)
		w.stop(p)
	})

	bubble(t, "K4_a_suspect_that_hangs_does_not_stop_the_others", func(w *world) {
		ids := abandoned(w, 4, queue.EnqueueOptions{MaxAttempts: 2})
		hang := make(chan struct{})
		p := w.start(runtime.Config{}, serve("q", w.ledger.handler(func(ctx context.Context, j *queue.Job) error {
			if j.ID == ids[0] {
				<-hang
			}
			return nil
		}), handlers.Options{Timeout: time.Second}))
		w.pass(2 * time.Minute)
		w.wantState(gone, ids[1:]...)
		close(hang)
		w.pass(time.Second)
		w.stop(p)
	})
}

func TestStuck(t *testing.T) {
	t.Parallel()

	bubble(t, "K4_a_handler_that_ignores_its_timeout", func(w *world) {
		const lease = 30 * time.Second
		ids := w.enqueue("hangs", 1, queue.EnqueueOptions{VisibilityTimeout: lease})
		hang := make(chan struct{})
		r := serve("hangs", w.ledger.handler(func(context.Context, *queue.Job) error { <-hang; return nil }),
			handlers.Options{Timeout: 5 * time.Second, Concurrency: 1})
		r.Register("other", w.ledger.taking(time.Second), handlers.Options{})
		p := w.start(runtime.Config{Concurrency: 1}, r)
		synctest.Wait()
		others := w.enqueue("other", 3, queue.EnqueueOptions{})
		w.pass(14 * time.Second)
		w.wantState(queue.Pending, others...)
		w.log.want(w.T, 0, "ignores the end of its context")

		// Ten seconds after its time was up its slot goes to others, and the operator is told.
		w.pass(time.Second)
		w.log.want(w.T, 1, "level=ERROR", "ignores the end of its context", "handler timed out")
		w.pass(3 * time.Second)
		w.wantState(gone, others...)

		// Its claim is not kept, so another worker has the job after the lease. It counts against its own queue here.
		if held, err := w.client.Idle(w.Context(), []string{"hangs"}); err != nil || held {
			w.Errorf("idle: %v, %v", held, err)
		}
		w.pass(lease)
		if n := len(w.ledger.of(ids[0])); n != 1 {
			w.Errorf("it ran %d times in the same worker, which has no room for it", n)
		}
		again := w.claim("hangs", 1)
		if again[0].ID != ids[0] || again[0].Attempt != 2 {
			w.Errorf("claimed %+v, want the job that hangs, as attempt 2", again[0])
		}
		held, err := w.client.Ack(w.Context(), again[0].Handle())
		if err != nil || !held[0] {
			w.Fatalf("ack by the other: %v, %v", held, err)
		}

		// When it returns after all, its answer is dropped and its queue has room again.
		close(hang)
		w.pass(time.Second)
		w.log.want(w.T, 1, "its answer is dropped", "queue=hangs")
		more := w.enqueue("hangs", 1, queue.EnqueueOptions{})
		w.pass(time.Second)
		w.wantState(gone, more...)
		w.stop(p)
	})

	bubble(t, "K4_handlers_that_always_hang_stop_only_their_queue", func(w *world) {
		hang := make(chan struct{})
		r := serve("hangs", func(context.Context, *queue.Job) error { <-hang; return nil },
			handlers.Options{Timeout: time.Second, Concurrency: 3})
		r.Register("other", w.ledger.taking(time.Second), handlers.Options{})
		w.enqueue("hangs", 100, queue.EnqueueOptions{VisibilityTimeout: 5 * time.Second})
		p := w.start(runtime.Config{Concurrency: 4}, r)
		w.pass(5 * time.Minute)
		ids := w.enqueue("other", 40, queue.EnqueueOptions{})
		w.pass(11 * time.Second)
		w.wantState(gone, ids...)
		if _, most := w.ledger.count(); most != 4 {
			w.Errorf("%d of the other queue ran at the same time, want all four slots", most)
		}
		w.log.want(w.T, 3, "ignores the end of its context")
		close(hang)
		w.pass(time.Second)
		w.stop(p)
	})

	bubble(t, "K4_a_handler_that_returns_in_time_keeps_its_slot", func(w *world) {
		ids := w.enqueue("q", 1, queue.EnqueueOptions{})
		p := w.start(runtime.Config{Concurrency: 1}, serve("q", func(context.Context, *queue.Job) error {
			sleep(14 * time.Second) // four more than the timeout
			return nil
		}, handlers.Options{Timeout: 5 * time.Second}))
		w.pass(time.Minute)
		w.wantState(gone, ids...)
		w.log.quiet(w.T)
		w.stop(p)
	})
}
