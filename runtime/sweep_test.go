package runtime_test

import (
	"testing"
	"time"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/runtime"
)

func TestSweep(t *testing.T) {
	t.Parallel()

	bubble(t, "D2_also_the_queues_that_nobody_serves", func(w *world) {
		expiring := w.enqueue("other", 2, queue.EnqueueOptions{DeadLetterRetention: time.Hour, Expires: 10 * time.Second})
		kept := w.enqueue("other", 1, queue.EnqueueOptions{DeadLetterRetention: queue.KeepForever, Expires: 10 * time.Second})
		lasting := w.enqueue("other", 1, queue.EnqueueOptions{})
		short := w.enqueue("other", 1, queue.EnqueueOptions{DeadLetterRetention: time.Minute, Expires: 10 * time.Second})
		p := w.start(runtime.Config{}, serve("q", w.ledger.taking(0), handlers.Options{}))
		w.pass(10 * time.Second)
		w.wantState(queue.Pending, expiring...)
		w.pass(6 * time.Second)
		w.wantState(queue.Dead, expiring...)
		w.wantState(queue.Dead, short...)
		if j := w.get(expiring[0]); j.LastError != queue.TextExpired {
			w.Errorf("error %q, want %q", j.LastError, queue.TextExpired)
		}
		w.pass(70 * time.Second)
		w.wantState(gone, short...)
		w.pass(time.Hour)
		w.wantState(gone, expiring...)
		w.wantState(queue.Dead, kept...)
		w.wantState(queue.Pending, lasting...)
		w.log.want(w.T, 1, "level=WARN", "jobs expired", "queue=other", "jobs=4")
		w.log.want(w.T, 1, "level=INFO", "past their retention", "jobs=1")
		w.log.want(w.T, 1, "level=INFO", "past their retention", "jobs=2")
		w.stop(p)
	})

	bubble(t, "K3_a_queue_that_no_job_may_have_stops_nothing", func(w *world) {
		_, err := w.store.Enqueue(w.Context(), []sqlstore.NewJob{{Queue: "", ExpiresS: new(int64(5)), Stamps: queue.Options{}.Stamps()}})
		must(w.T, err)
		expiring := w.enqueue("other", 1, queue.EnqueueOptions{Expires: 5 * time.Second})
		p := w.start(runtime.Config{}, serve("q", w.ledger.taking(0), handlers.Options{}))
		w.pass(time.Minute)
		w.wantState(queue.Dead, expiring...)
		w.wantState(queue.Dead, expiring[0]-1)
		w.stop(p)
	})

	bubble(t, "as_often_as_configured", func(w *world) {
		w.enqueue("other", 1, queue.EnqueueOptions{})
		p := w.start(runtime.Config{SweepInterval: time.Minute}, serve("q", w.ledger.taking(0), handlers.Options{}))
		w.pass(time.Hour)
		if n := len(p.store.made("sweep")); n < 60 || n > 80 {
			w.Errorf("%d sweeps in an hour, want one in 45 to 60 seconds", n)
		}
		w.stop(p)
	})

	bubble(t, "an_outage_is_told_once_and_survived", func(w *world) {
		ids := w.enqueue("other", 1, queue.EnqueueOptions{Expires: time.Second})
		p := w.prepare(runtime.Config{NoScheduler: true}, serve("q", w.ledger.taking(0), handlers.Options{}))
		p.store.inject(failing(queue.ErrFull, "sweep"))
		w.run(p)
		w.pass(time.Hour)
		p.store.inject(nil)
		w.pass(6 * time.Second)
		w.wantState(queue.Dead, ids...)
		w.log.want(w.T, 1, "does not take sweeps")
		w.log.want(w.T, 1, "takes sweeps again")
		w.stop(p)
	})
}
