package storetest

import "github.com/alkstore/alkworker/internal/sqlstore"

func idleRules() []rule {
	return []rule{
		{name: "Idle_while_nothing_is_ready_running_or_waiting_for_a_retry", test: idle},
		{name: "Idle_looks_at_the_queues_asked_only", test: idleQueues},
		{name: "Idle_looks_at_every_priority", test: idlePriorities},
		{name: "Idle_in_spite_of_what_waits_in_a_paused_queue", test: idlePaused},
	}
}

func (e *env) idle(want bool, queues ...string) {
	e.Helper()
	for _, s := range e.handles(2) {
		got, err := s.Idle(e.Context(), queues)
		e.ok(err)
		same(e, "idle", got, want)
	}
}

func idle(e *env) {
	e.idle(true, "mail")
	j := newJob("mail")
	j.DelayS = 10
	e.enqueue(j)
	e.idle(true, "mail") // delayed, and never tried
	e.advance(10)
	e.idle(false, "mail")
	h := handle(e.claimOne("mail"))
	e.idle(false, "mail")
	e.retry(sqlstore.Retrial{Handle: h, DelayS: 1000})
	e.idle(false, "mail")
	e.advance(1000)
	e.claimOne("mail")
	e.advance(visibility + 1)
	e.idle(false, "mail") // lapsed: to be claimed again
	h = handle(e.claimOne("mail"))
	same(e, "fail", e.fail(h), []bool{true})
	e.idle(true, "mail")
	same(e, "requeue", e.requeue(h.ID), []bool{true})
	e.idle(false, "mail")
	same(e, "ack", e.ack(handle(e.claimOne("mail"))), []bool{true})
	e.idle(true, "mail")
}

func idleQueues(e *env) {
	e.idle(true)
	e.enqueue(newJob("mail"))
	e.hold(newJob("held"))
	e.idle(true)
	e.idle(true, "other")
	e.idle(false, "mail")
	e.idle(false, "other", "held")
	e.idle(false, "mail", "mail")
}

func idlePriorities(e *env) {
	late := newJob("mail")
	late.Priority, late.DelayS = 5, 1000
	e.enqueue(late)
	e.idle(true, "mail")
	e.enqueue(newJob("mail"))
	e.idle(false, "mail")
}

func idlePaused(e *env) {
	e.enqueue(newJob("mail"))
	e.hold(newJob("held"))
	e.ok(e.store.SetPaused(e.Context(), "mail", true))
	e.ok(e.store.SetPaused(e.Context(), "held", true))
	e.idle(true, "mail")
	e.idle(false, "mail", "held") // what runs, runs on
	e.enqueue(newJob("other"))
	e.idle(false, "mail", "other")
	e.advance(visibility)
	e.idle(false, "held")
	e.advance(1)
	e.idle(true, "held") // its worker is dead, and nobody may claim it
	e.ok(e.store.SetPaused(e.Context(), "held", false))
	e.idle(false, "held")
	e.ok(e.store.SetPaused(e.Context(), "mail", false))
	e.idle(false, "mail")
	e.retry(sqlstore.Retrial{Handle: handle(e.claimOne("mail")), DelayS: 50})
	e.idle(false, "mail")
	e.ok(e.store.SetPaused(e.Context(), "mail", true))
	e.idle(true, "mail") // nor is there a retry to wait for
}
