package storetest

import (
	"github.com/alkstore/alkworker/internal/sqlstore"
)

func sweepRules() []rule {
	return []rule{
		{name: "D2_sweep_buries_what_has_expired_in_both_states", test: sweepExpired},
		{name: "D2_the_second_of_expiry_still_counts", test: sweepBoundary},
		{name: "D2_sweep_touches_one_queue_only", test: sweepOneQueue},
		{name: "D2_the_holder_of_an_expired_job_is_refused", test: sweepHolder},
		{name: "D2_dead_jobs_go_after_their_own_retention", test: sweepRetention},
		{name: "D2_a_job_that_dies_in_a_sweep_is_kept_for_its_retention", test: sweepFreshDead},
		{name: "D2_many_at_once", test: sweepMany},
		{name: "K3_sweep_repairs_a_processing_row_without_a_deadline", test: sweepRepairs, needs: hasEdit},
	}
}

func sweepExpired(e *env) {
	brief := newJob("mail")
	brief.ExpiresS = new(int64(10))
	_, held := e.hold(brief)
	lapsing := brief
	lapsing.Stamps.VisibilityTimeoutS = 2
	_, lapsed := e.hold(lapsing)
	pending := e.enqueueOne(brief)
	delayed := brief
	delayed.DelayS = 10
	late := e.enqueueOne(delayed)
	long := newJob("mail")
	long.ExpiresS = new(int64(1000))
	kept := e.enqueue(newJob("mail"), long)
	e.advance(11)
	want := e.get(held.ID)
	same(e, "sweep", e.sweep("mail"), sqlstore.Swept{Expired: 4})
	want.State = sqlstore.Dead
	want.Claimant = ""
	want.ClaimExpiresAt = nil
	want.DiedAt = new(e.now())
	want.LastError = new(expiredText)
	same(e, "dead job", e.get(held.ID), want)
	e.states(sqlstore.Dead, lapsed.ID, pending, late)
	e.states(sqlstore.Pending, kept...)
	e.unchanged("another sweep", func() { same(e, "sweep", e.sweep("mail"), sqlstore.Swept{}) })
}

func sweepBoundary(e *env) {
	j := newJob("mail")
	j.ExpiresS = new(int64(10))
	id := e.enqueueOne(j)
	e.advance(10)
	same(e, "sweep at the second of expiry", e.sweep("mail"), sqlstore.Swept{})
	e.states(sqlstore.Pending, id)
	e.advance(1)
	same(e, "sweep one second later", e.sweep("mail"), sqlstore.Swept{Expired: 1})
	e.states(sqlstore.Dead, id)
}

func sweepOneQueue(e *env) {
	for _, q := range []string{"mail", "other"} {
		j := newJob(q)
		j.Stamps.DeadLetterRetentionS = new(int64(0))
		e.buryOne(j)
		e.buryOne(newJob(q + " grave"))
		j.ExpiresS = new(int64(1))
		e.enqueue(j)
	}
	e.advance(2)
	same(e, "sweep", e.sweep("mail"), sqlstore.Swept{Expired: 1, Dropped: 1})
	same(e, "sweep of a queue with nothing to do", e.sweep("mail grave"), sqlstore.Swept{})
	same(e, "sweep of the other", e.sweep("other"), sqlstore.Swept{Expired: 1, Dropped: 1})
}

func sweepHolder(e *env) {
	for _, op := range holdOps() {
		j := newJob(op.name)
		j.ExpiresS = new(int64(5))
		_, h := e.hold(j)
		e.advance(6)
		same(e, "sweep", e.sweep(op.name), sqlstore.Swept{Expired: 1})
		same(e, op.name+" after the sweep", op.do(e, h), []bool{false})
		e.states(sqlstore.Dead, h.ID)
	}
}

func sweepRetention(e *env) {
	bury := func(retention *int64) int64 {
		j := newJob("mail")
		j.Stamps.DeadLetterRetentionS = retention
		return e.buryOne(j)
	}
	forever, short, long, none := bury(nil), bury(new(int64(10))), bury(new(int64(60))), bury(new(int64(0)))
	same(e, "sweep in the second of death", e.sweep("mail"), sqlstore.Swept{})
	e.advance(1)
	same(e, "sweep a second later", e.sweep("mail"), sqlstore.Swept{Dropped: 1})
	e.gone(none)
	e.advance(9)
	same(e, "sweep at the end of retention", e.sweep("mail"), sqlstore.Swept{})
	e.advance(1)
	same(e, "sweep past it", e.sweep("mail"), sqlstore.Swept{Dropped: 1})
	e.gone(short)
	e.states(sqlstore.Dead, long, forever)
	same(e, "requeue of what is gone", e.requeue(short), []bool{false})
	e.h.Clock.Set(253_402_300_000)
	same(e, "sweep in the year 9999", e.sweep("mail"), sqlstore.Swept{Dropped: 1})
	e.gone(long)
	e.states(sqlstore.Dead, forever)
}

func sweepFreshDead(e *env) {
	j := newJob("mail")
	j.ExpiresS, j.Stamps.DeadLetterRetentionS = new(int64(5)), new(int64(3))
	id := e.enqueueOne(j)
	e.advance(1000)
	same(e, "sweep long after", e.sweep("mail"), sqlstore.Swept{Expired: 1})
	e.states(sqlstore.Dead, id)
	e.advance(3)
	same(e, "sweep within its retention", e.sweep("mail"), sqlstore.Swept{})
	e.advance(1)
	same(e, "sweep past it", e.sweep("mail"), sqlstore.Swept{Dropped: 1})
}

func sweepMany(e *env) {
	const n = 1_500
	j := newJob("mail")
	j.ExpiresS = new(int64(5))
	e.enqueue(jobs(n, j)...)
	e.claim("mail", n/2)
	kept := e.enqueue(jobs(100, newJob("mail"))...)
	e.advance(6)
	same(e, "sweep", e.sweep("mail"), sqlstore.Swept{Expired: n})
	e.advance(1001)
	same(e, "sweep past retention", e.sweep("mail"), sqlstore.Swept{Dropped: n})
	e.states(sqlstore.Pending, kept...)
}

func sweepRepairs(e *env) {
	_, h := e.hold(newJob("mail"))
	_, fine := e.hold(newJob("mail"))
	_, elsewhere := e.hold(newJob("other"))
	brief := newJob("mail")
	brief.ExpiresS = new(int64(5))
	_, expired := e.hold(brief)
	for _, id := range []int64{h.ID, elsewhere.ID, expired.ID} {
		e.h.Edit(e.T, id, "claim_expires_at", nil)
	}
	e.advance(6)
	same(e, "sweep", e.sweep("mail"), sqlstore.Swept{Expired: 1, Repaired: 1})
	same(e, "deadline of the repaired row", *e.get(h.ID).ClaimExpiresAt, e.now()-1)
	e.states(sqlstore.Dead, expired.ID)
	same(e, "sweep of the other queue", e.sweep("other"), sqlstore.Swept{Repaired: 1})
	same(e, "claim", rowIDs(e.claim("mail", 10)), []int64{h.ID})
	same(e, "the one with a deadline", e.ack(fine), []bool{true})
}
