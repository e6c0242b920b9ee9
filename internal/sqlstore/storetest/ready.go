package storetest

import "github.com/alkstore/alkworker/internal/sqlstore"

func readyRules() []rule {
	return []rule{
		{name: "C3_next_ready_is_when_a_claim_finds_something", test: nextReady},
		{name: "C3_next_ready_looks_at_every_priority", test: nextReadyPriorities},
		{name: "C3_next_ready_answers_for_each_queue_asked", test: nextReadyQueues},
		{name: "C3_an_expired_job_makes_no_queue_ready", test: nextReadyExpired},
		{name: "C3_nor_does_one_without_a_deadline", test: nextReadyNoDeadline, needs: hasEdit},
		{name: "C3_a_paused_queue_is_never_ready", test: nextReadyPaused},
	}
}

// ready fails the test unless NextReady of one queue is want; nil stands for absent.
func (e *env) ready(queue string, want *int64) {
	e.Helper()
	now, next, err := e.store.NextReady(e.Context(), []string{queue})
	e.ok(err)
	same(e, "clock", now, e.now())
	var got *int64
	if at, ok := next[queue]; ok {
		got = &at
	}
	same(e, "next ready", got, want)
}

func nextReady(e *env) {
	e.ready("mail", nil)
	start := e.now()
	j := newJob("mail")
	j.DelayS = 100
	late := e.enqueueOne(j)
	e.ready("mail", new(start+100))
	j.DelayS = 40
	e.enqueue(j)
	e.ready("mail", new(start+40))
	e.enqueue(newJob("mail"))
	e.ready("mail", &start)
	e.advance(10)
	h := handle(e.claimOne("mail"))
	e.ready("mail", new(start+40))
	e.advance(30)
	k := handle(e.claimOne("mail"))
	e.ready("mail", new(start+10+visibility+1)) // the first claim's deadline, and a second: C7
	e.advance(1)
	same(e, "claim that finds what was announced", e.claimOne("mail").ID, h.ID)
	e.ready("mail", new(start+40+visibility+1))
	same(e, "heartbeat", e.heartbeat(k), []bool{true})
	e.ready("mail", new(start+41+visibility+1))
	same(e, "ack", e.ack(k), []bool{true})
	e.ready("mail", new(start+41+visibility+1)) // the reclaimed one's
	same(e, "cancel", e.cancel(h.ID), []bool{true})
	e.ready("mail", new(start+100))
	same(e, "cancel", e.cancel(late), []bool{true})
	e.ready("mail", nil)
	dead := e.buryOne(newJob("mail"))
	e.ready("mail", nil)
	same(e, "requeue", e.requeue(dead), []bool{true})
	e.ready("mail", new(e.now()))
}

func nextReadyPriorities(e *env) {
	for i, delay := range []int64{50, 20, 90, 70} {
		j := newJob("mail")
		j.Priority, j.DelayS = int64(-i), delay
		e.enqueue(j)
	}
	e.ready("mail", new(e.now()+20))
}

func nextReadyQueues(e *env) {
	e.enqueue(newJob("now"))
	later := newJob("later")
	later.DelayS = 60
	e.enqueue(later, newJob("unasked"))
	e.hold(newJob("held"))
	queues := []string{"now", "held", "nothing", "later", "now"}
	for _, s := range e.handles(2) {
		now, next, err := s.NextReady(e.Context(), queues)
		e.ok(err)
		same(e, "next ready", next, map[string]int64{"now": now, "later": now + 60, "held": now + visibility + 1})
	}
}

func nextReadyExpired(e *env) {
	j := newJob("mail")
	j.ExpiresS = new(int64(60))
	j.Stamps.VisibilityTimeoutS = 10
	e.hold(j)
	e.enqueue(j)
	start := e.now()
	e.advance(60)
	e.ready("mail", &start) // the pending one may run until the end of this second
	e.advance(1)
	e.ready("mail", nil)
	later := newJob("mail")
	later.DelayS = 5
	e.enqueue(later)
	e.ready("mail", new(e.now()+5))
	same(e, "sweep", e.sweep("mail"), sqlstore.Swept{Expired: 2})
	e.ready("mail", new(e.now()+5))
}

// nextReadyNoDeadline: a queue that is ready for a job which no claim hands out is asked again and again.
func nextReadyNoDeadline(e *env) {
	j := newJob("mail")
	j.ExpiresS = new(int64(60))
	_, h := e.hold(j)
	e.h.Edit(e.T, h.ID, "claim_expires_at", nil)
	e.advance(60)
	e.ready("mail", new(e.now()))
	e.advance(1)
	e.ready("mail", nil)
	same(e, "cancel", e.cancel(h.ID), []bool{true})
}

func nextReadyPaused(e *env) {
	e.enqueue(newJob("mail"))
	e.hold(newJob("held"))
	for _, q := range []string{"mail", "held"} {
		e.ok(e.store.SetPaused(e.Context(), q, true))
		e.ready(q, nil)
	}
	e.ok(e.store.SetPaused(e.Context(), "mail", false))
	e.ready("mail", new(e.now()))
}
