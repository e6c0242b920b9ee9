package storetest

import "github.com/alkstore/alkworker/internal/sqlstore"

func cancelRules() []rule {
	return []rule{
		{name: "H8_cancel_deletes_live_jobs_and_says_which", test: cancelLive},
		{name: "H8_the_holder_of_a_cancelled_job_is_refused", test: cancelHeld},
	}
}

func cancelLive(e *env) {
	pending := e.enqueueOne(newJob("mail"))
	delayed := newJob("mail")
	delayed.DelayS = 100
	later := e.enqueueOne(delayed)
	_, held := e.hold(newJob("held"))
	dead := e.buryOne(newJob("grave"))
	lapsed := newJob("lapsed")
	lapsed.Stamps.VisibilityTimeoutS = 1
	_, gone := e.hold(lapsed)
	e.advance(2)
	kept := e.enqueueOne(newJob("mail"))
	got := e.cancel(later, 1<<40, held.ID, dead, pending, gone.ID)
	same(e, "cancel", got, []bool{true, false, true, false, true, true})
	e.gone(pending, later, held.ID, gone.ID)
	e.states(sqlstore.Dead, dead)
	e.states(sqlstore.Pending, kept)
	same(e, "cancel again", e.cancel(pending, held.ID), []bool{false, false})
}

func cancelHeld(e *env) {
	for _, op := range holdOps() {
		_, h := e.hold(newJob(op.name))
		same(e, "cancel", e.cancel(h.ID), []bool{true})
		same(e, op.name+" of a cancelled job", op.do(e, h), []bool{false})
		e.gone(h.ID)
	}
}
