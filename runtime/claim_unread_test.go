package runtime_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/runtime"
)

// TestClaimUnread is about claims that follow one another while the jobs of those before are read.
func TestClaimUnread(t *testing.T) {
	t.Parallel()

	// reading starts a worker with a backlog whose reads wait until they are told to go on.
	reading := func(w *world, config runtime.Config, o handlers.Options, backlog int) (p *process, ids []int64, goOn func()) {
		w.Helper()
		ids = w.enqueue("q", backlog, queue.EnqueueOptions{VisibilityTimeout: 10 * time.Minute})
		r := serve("q", w.ledger.taking(time.Minute), o)
		r.Register("other", w.ledger.taking(time.Minute), o)
		p = w.prepare(config, r)
		blocked := make(chan struct{})
		p.store.inject(func(_ context.Context, op string) error {
			if op == "read" {
				<-blocked
			}
			return nil
		})
		w.run(p)
		w.pass(time.Second)
		return p, ids, func() { close(blocked) }
	}
	asked := func(p *process) (n []int) {
		for _, c := range p.store.made("claim") {
			n = append(n, c.n)
		}
		return n
	}
	wantRunning := func(w *world, want int) {
		w.Helper()
		if running, _ := w.ledger.count(); running != want {
			w.Errorf("%d handlers run, want %d", running, want)
		}
	}

	bubble(t, "the_next_claim_does_not_wait_for_the_jobs_of_the_last_to_be_read", func(w *world) {
		p, ids, goOn := reading(w, runtime.Config{Concurrency: 2000}, handlers.Options{}, 1500)
		if got, want := asked(p), []int{500, 500, 500, 500}; !slices.Equal(got, want) {
			w.Errorf("claims of %d jobs, want %d: the last to learn that there are no more", got, want)
		}
		wantRunning(w, 500) // the first claim did not know that there would be another one
		goOn()
		w.pass(time.Second)
		wantRunning(w, 1500)
		w.pass(time.Minute)
		w.ledger.wantOnce(w.T, ids...)
		w.stop(p)
	})

	bubble(t, "K8_what_is_being_read_has_its_slots", func(w *world) {
		p, _, goOn := reading(w, runtime.Config{Concurrency: 700}, handlers.Options{}, 2000)
		if got, want := asked(p), []int{500, 200}; !slices.Equal(got, want) {
			w.Errorf("claims of %d jobs, want %d", got, want)
		}
		w.enqueue("other", 10, queue.EnqueueOptions{})
		w.pass(time.Second)
		if got := asked(p); len(got) != 2 {
			w.Errorf("another queue was asked for %d jobs, want no claim without a slot", got[2:])
		}
		goOn()
		w.pass(time.Second)
		wantRunning(w, 700)
		w.pass(5 * time.Minute)
		if _, most := w.ledger.count(); most > 700 {
			w.Errorf("%d handlers ran at the same time, want 700 at most", most)
		}
		w.stop(p)
	})

	bubble(t, "and_its_share_of_its_queue", func(w *world) {
		p, _, goOn := reading(w, runtime.Config{Concurrency: 2000}, handlers.Options{Concurrency: 700}, 2000)
		if got, want := asked(p), []int{500, 200}; !slices.Equal(got, want) {
			w.Errorf("claims of %d jobs, want %d", got, want)
		}
		goOn()
		w.pass(time.Second)
		wantRunning(w, 700)
		w.stop(p)
	})

	bubble(t, "a_job_that_is_cancelled_before_it_is_read_does_not_run_and_keeps_no_slot", func(w *world) {
		p, ids, goOn := reading(w, runtime.Config{Concurrency: 1000}, handlers.Options{}, 1500)
		cancelled := ids[500:900]
		done, err := w.client.Cancel(w.Context(), cancelled...)
		if must(w.T, err); slices.Contains(done, false) {
			w.Fatal("not all jobs were cancelled")
		}
		goOn()
		w.pass(time.Second)
		wantRunning(w, 1000)
		w.pass(2 * time.Minute)
		w.ledger.wantOnce(w.T, append(ids[:500:500], ids[900:]...)...)
		w.stop(p)
	})

	bubble(t, "a_stop_hands_back_what_has_not_been_read", func(w *world) {
		p, ids, goOn := reading(w, runtime.Config{Concurrency: 1000}, handlers.Options{}, 1500)
		p.Stop()
		w.pass(2 * time.Minute)
		select {
		case <-p.ended:
			w.Error("Run has returned while jobs were being read")
		default:
		}
		goOn()
		w.pass(time.Second)
		if j := w.get(ids[500]); j.State != queue.Pending || j.Attempt != 0 {
			w.Errorf("got a %s job that has spent %d attempts, want one that was handed back", j.State, j.Attempt)
		}
		w.stop(p)
		w.ledger.wantOnce(w.T, ids[:500]...)
	})

	failingReads := func(w *world, cause error) (p *process, ids []int64) {
		w.Helper()
		ids = w.enqueue("q", 1500, queue.EnqueueOptions{})
		p = w.prepare(runtime.Config{Concurrency: 1000}, serve("q", w.ledger.taking(time.Second), handlers.Options{}))
		p.store.inject(failing(cause, "read"))
		w.run(p)
		return p, ids
	}

	bubble(t, "K19_a_read_that_fails_is_not_tried_again_at_once", func(w *world) {
		p, ids := failingReads(w, queue.ErrUnavailable)
		w.pass(10 * time.Second)
		w.log.want(w.T, 1, "level=WARN", "claims")
		if n := p.store.failed("read"); n != 1 {
			w.Errorf("%d reads have failed, want one, and then claims that read by themselves", n)
		}
		w.ledger.wantOnce(w.T, ids...)
		w.stop(p)
	})

	bubble(t, "and_ends_the_worker_if_it_will_not_pass", func(w *world) {
		broken := errors.New("malformed")
		p, ids := failingReads(w, broken)
		if err := p.wait(); !errors.Is(err, broken) {
			w.Errorf("Run returned %v, want what made it impossible to go on", err)
		}
		w.ledger.wantOnce(w.T, ids[:500]...)
		w.wantState(queue.Pending, ids[500:]...)
	})
}

var _ sqlstore.LateReader = (*faulty)(nil)
