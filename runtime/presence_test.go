package runtime_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/runtime"
)

func (w *world) stats(name string) queue.Stats {
	w.Helper()
	all, err := w.client.Stats(w.Context())
	must(w.T, err)
	for _, s := range all {
		if s.Queue == name {
			return s
		}
	}
	return queue.Stats{}
}

func TestPresence(t *testing.T) {
	t.Parallel()

	bubble(t, "K17_stats_say_how_many_workers_serve_a_queue", func(w *world) {
		w.enqueue("nobody", 1, queue.EnqueueOptions{})
		r := serve("a", w.ledger.taking(0), handlers.Options{})
		both := serve("a", w.ledger.taking(0), handlers.Options{})
		both.Register("b", w.ledger.taking(0), handlers.Options{})
		p, q := w.start(runtime.Config{}, r), w.start(runtime.Config{Name: p0}, both)
		for range 100 {
			w.pass(time.Minute)
			if a, b, n := w.stats("a").Workers, w.stats("b").Workers, w.stats("nobody").Workers; a != 2 || b != 1 || n != 0 {
				w.Fatalf("%d, %d and %d workers, want 2, 1 and 0", a, b, n)
			}
		}
		w.stop(q)
		if a, b := w.stats("a").Workers, w.stats("b").Workers; a != 1 || b != 0 {
			w.Errorf("%d and %d workers after a stop, want 1 and 0", a, b)
		}
		p.kill()
		w.pass(3 * time.Minute)
		if a := w.stats("a").Workers; a != 0 {
			w.Errorf("%d workers after a kill, want none once its announcement has lapsed", a)
		}
	})

	bubble(t, "two_workers_of_one_name_are_two", func(w *world) {
		r := serve("a", w.ledger.taking(0), handlers.Options{})
		p, q := w.start(runtime.Config{Name: p0}, r), w.start(runtime.Config{Name: p0}, r)
		synctest.Wait()
		if n := w.stats("a").Workers; n != 2 || p.Name() == q.Name() {
			w.Errorf("%d workers named %q and %q, want 2", n, p.Name(), q.Name())
		}
		w.stop(p, q)
	})

	bubble(t, "it_outlives_two_lost_announcements", func(w *world) {
		p := w.start(runtime.Config{}, serve("a", w.ledger.taking(0), handlers.Options{}))
		w.pass(time.Second)
		p.store.inject(failing(queue.ErrBusy, "announce"))
		w.pass(2 * time.Minute)
		if n := w.stats("a").Workers; n != 1 {
			w.Errorf("%d workers, want 1", n)
		}
		p.store.inject(nil)
		w.pass(time.Minute)
		if n := w.stats("a").Workers; n != 1 {
			w.Errorf("%d workers, want 1", n)
		}
		w.log.want(w.T, 1, "does not take announcements")
		w.log.want(w.T, 1, "takes announcements again")
		w.stop(p)
	})

	bubble(t, "K105_queues_that_nobody_serves_are_named_at_the_start", func(w *world) {
		w.enqueue("misspelt", 2, queue.EnqueueOptions{})
		w.enqueue("misspelt", 1, queue.EnqueueOptions{Delay: time.Hour})
		w.enqueue("other", 1, queue.EnqueueOptions{})
		w.enqueue("mine", 1, queue.EnqueueOptions{Delay: time.Hour})
		other := w.start(runtime.Config{Logger: new(logbook).logger()}, serve("other", w.ledger.taking(0), handlers.Options{}))
		w.pass(40 * time.Second)
		p := w.start(runtime.Config{}, serve("mine", w.ledger.taking(0), handlers.Options{}))
		w.pass(time.Hour)
		w.log.want(w.T, 1, "level=WARN")
		w.log.want(w.T, 1, "no running worker serves", "queue=misspelt", "ready=2", "delayed=1", "oldest=40s")
		w.stop(p, other)
	})

	bubble(t, "K105_the_warning_waits_for_the_database", func(w *world) {
		w.enqueue("misspelt", 1, queue.EnqueueOptions{})
		p := w.prepare(runtime.Config{NoScheduler: true}, serve("mine", w.ledger.taking(0), handlers.Options{}))
		p.store.inject(failing(queue.ErrBusy, "announce", "stats"))
		w.run(p)
		w.pass(time.Minute)
		p.store.inject(nil)
		w.pass(time.Minute)
		w.log.want(w.T, 1, "no running worker serves")
		w.stop(p)
	})

	bubble(t, "K95_an_idle_worker_writes_its_announcements_and_nothing_else", func(w *world) {
		r := handlers.NewRegistry()
		for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
			r.Register(name, w.ledger.taking(0), handlers.Options{})
		}
		p := w.prepare(runtime.Config{}, r)
		w.run(p)
		w.pass(time.Second)
		p.store.forget()
		w.pass(10 * time.Minute)
		reads := map[string]bool{"next": true, "queues": true, "soonest": true, "stats": true}
		for _, c := range p.store.made() {
			if !reads[c.op] && c.op != "announce" {
				w.Errorf("an idle worker wrote: %+v", c)
			}
		}
		if n := len(p.store.made("announce")); n != 10 {
			w.Errorf("%d announcements in ten minutes, want 10", n)
		}
		w.stop(p)
	})

	bubble(t, "a_withdrawal_that_fails_is_no_error", func(w *world) {
		p := w.start(runtime.Config{}, serve("a", w.ledger.taking(0), handlers.Options{}))
		w.pass(time.Second)
		p.store.inject(failing(queue.ErrBusy, "withdraw"))
		w.stop(p)
		w.log.quiet(w.T)
	})
}

const p0 = "p0"
