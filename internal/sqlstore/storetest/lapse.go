package storetest

import (
	"fmt"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

func lapseRules() []rule {
	return []rule{
		{name: "C4_a_reclaim_spends_an_attempt", test: reclaimSpends},
		{name: "C6_exhausted_job_goes_to_dead_letters", test: exhausted},
		{name: "C6_exhausted_jobs_do_not_hide_the_others", test: exhaustedAmongOthers},
		{name: "C6_exhausted_jobs_beyond_the_limit_are_never_handed_out", test: manyExhausted},
		{name: "C6_so_it_is_for_jobs_that_wait", test: manyPendingExhausted, needs: hasEdit},
		{name: "C6_a_pending_job_without_attempts_is_buried_too", test: pendingExhausted, needs: hasEdit},
		{name: "C6_an_expired_job_without_attempts_is_left_to_the_sweep", test: expiredExhausted, needs: hasEdit},
		{name: "C6_a_claim_buries_jobs_of_its_own_queue_only", test: exhaustedElsewhere, needs: hasEdit},
		{name: "C6_an_exhausted_job_is_held_until_its_deadline", test: exhaustedIsHeld},
		{name: "C7_the_deadline_is_inclusive", test: deadlineInclusive},
		{name: "K2_a_late_worker_changes_nothing", test: lateWorker},
		{name: "K23_a_worker_that_dies_on_the_only_attempt_strands_nothing", test: onlyAttempt},
		{name: "K3_a_processing_row_without_a_deadline_is_reclaimed", test: noDeadlineReclaimed, needs: hasEdit},
	}
}

func reclaimSpends(e *env) {
	id := e.enqueueOne(newJob("mail"))
	first := e.claimOne("mail")
	e.advance(visibility + 1)
	c := claimOf("mail", 1)
	c.Claimant = "second"
	rows, err := e.store.ClaimBatch(e.Context(), c)
	e.ok(err)
	want := first
	want.Claimant = "second"
	want.ClaimedAt = new(e.now())
	want.ClaimExpiresAt = new(e.now() + visibility)
	want.Attempts, want.Fence, want.LapsedFence = 2, 2, 1
	same(e, "reclaimed row", rows, []sqlstore.Row{want})
	want.Failures = []sqlstore.Failure{{Attempt: 1, At: e.now(), Error: lapsedText}}
	same(e, "stored row", e.get(id), want)
}

func exhausted(e *env) {
	j := newJob("mail")
	j.Stamps.MaxAttempts = 2
	j.Priority, j.ExpiresS = 5, new(int64(900))
	id := e.enqueueOne(j)
	e.retry(sqlstore.Retrial{Handle: handle(e.claimOne("mail")), Error: "first", Stack: "stack"})
	failedAt := e.now()
	e.advance(3)
	want := e.claimOne("mail")
	e.advance(visibility + 1)
	same(e, "jobs handed out", len(e.claim("mail", 1)), 0)
	want.State = sqlstore.Dead
	want.Claimant = ""
	want.ClaimExpiresAt = nil
	want.LastError = new(exhaustedText)
	want.DiedAt = new(e.now())
	want.Failures = []sqlstore.Failure{
		{Attempt: 1, At: failedAt, Error: "first", Stack: "stack"},
		{Attempt: 2, At: e.now(), Error: lapsedText},
	}
	same(e, "dead job", e.get(id), want)
	e.unchanged("another claim", func() { same(e, "jobs handed out", len(e.claim("mail", 1)), 0) })
}

func exhaustedAmongOthers(e *env) {
	urgent := oneShot("mail")
	urgent.Priority = 9
	spent := e.enqueue(jobs(3, urgent)...)
	same(e, "claimed", rowIDs(e.claim("mail", 3)), spent)
	elsewhere := e.enqueueOne(oneShot("other"))
	e.claimOne("other")
	e.advance(visibility + 1)
	good := e.enqueue(jobs(4, newJob("mail"))...)
	same(e, "handed out", rowIDs(e.claim("mail", 3)), good[:3])
	e.states(sqlstore.Dead, spent...)
	e.states(sqlstore.Processing, elsewhere) // another queue's claim finds it
	same(e, "handed out next", rowIDs(e.claim("mail", 3)), good[3:])
}

func manyExhausted(e *env) {
	const n = 600 // more than a claim buries
	spent := e.enqueue(jobs(n, oneShot("mail"))...)
	same(e, "claimed", len(e.claim("mail", n)), n)
	if e.h.Edit != nil {
		e.h.Edit(e.T, spent[n-1], "claim_expires_at", nil)
	}
	e.advance(visibility + 1)
	good := e.enqueue(jobs(60, newJob("mail"))...)
	got := []int64{}
	for range 61 {
		got = append(got, rowIDs(e.claim("mail", 1))...)
	}
	same(e, "handed out", got, good)
	e.states(sqlstore.Dead, spent...)
}

func pendingExhausted(e *env) {
	early := newJob("mail")
	early.DelayS = 50
	delayed := e.enqueueOne(early)
	ready := e.enqueueOne(newJob("mail"))
	for _, id := range []int64{delayed, ready} {
		e.h.Edit(e.T, id, "attempts", int64(9)) // K3: above the budget of 4
	}
	same(e, "handed out", len(e.claim("mail", 10)), 0)
	e.states(sqlstore.Pending, delayed)
	r := e.get(ready)
	same(e, "state", r.State, sqlstore.Dead)
	same(e, "reason", *r.LastError, exhaustedText)
	same(e, "failures of a job that nobody held", len(r.Failures), 0)
	e.advance(50)
	same(e, "handed out when ready", len(e.claim("mail", 10)), 0)
	e.states(sqlstore.Dead, delayed)
	same(e, "purge", e.purge(ready, delayed), []bool{true, true})
}

// manyPendingExhausted is manyExhausted for jobs that nobody holds, which only an edit can bring about: proven ones and
// suspects.
func manyPendingExhausted(e *env) {
	const n = 600
	for queue, kind := range map[string]sqlstore.ClaimKind{
		"proven": sqlstore.OnlyProven, "suspects": sqlstore.OnlySuspects,
	} {
		j := newJob(queue)
		j.Stamps.MaxAttempts = 2
		spent := e.enqueue(jobs(n, j)...)
		if queue == "suspects" {
			same(e, "claimed", len(e.claim(queue, n)), n)
			e.advance(visibility + 1)
			for _, r := range e.claim(queue, n) {
				same(e, "release", e.release(handle(r)), []bool{true})
			}
		}
		for _, id := range spent {
			e.h.Edit(e.T, id, "attempts", int64(2)) // K3
		}
		for _, kind := range []sqlstore.ClaimKind{kind, sqlstore.AnyJob} {
			c := claimOf(queue, 5)
			c.Kind = kind
			rows, err := e.store.ClaimBatch(e.Context(), c)
			e.ok(err)
			same(e, "handed out from "+queue, rowIDs(rows), []int64{})
		}
		e.states(sqlstore.Dead, spent...)
		e.purge(spent...)
	}
}

// exhaustedInAllWays makes jobs of the queue "mail" that expire, have no attempts left, and are claimable: one whose
// claim has lapsed, one whose claim has no deadline, and one that waits, with an attempt that no claim has made.
func (e *env) exhaustedInAllWays(expiresS int64) []int64 {
	e.Helper()
	j := oneShot("mail")
	j.ExpiresS = &expiresS
	ids := e.enqueue(jobs(3, j)...)
	same(e, "claimed", rowIDs(e.claim("mail", 2)), ids[:2])
	e.h.Edit(e.T, ids[1], "claim_expires_at", nil)
	e.h.Edit(e.T, ids[2], "attempts", int64(1))
	e.advance(visibility + 1)
	return ids
}

func expiredExhausted(e *env) {
	ids := e.exhaustedInAllWays(visibility)
	e.unchanged("a claim after expiry", func() { same(e, "handed out", len(e.claim("mail", 5)), 0) })
	e.sweep("mail")
	for _, id := range ids {
		same(e, "reason", *e.get(id).LastError, expiredText)
	}
	e.purge(ids[2])
	ids = e.exhaustedInAllWays(visibility + 1)
	same(e, "handed out at the second of expiry", len(e.claim("mail", 5)), 0)
	for _, id := range ids {
		same(e, "reason", *e.get(id).LastError, exhaustedText)
	}
	e.purge(ids[2])
}

func exhaustedElsewhere(e *env) {
	ids := e.exhaustedInAllWays(900)
	e.hold(oneShot("other"))
	e.advance(visibility + 1)
	same(e, "handed out", len(e.claim("other", 5)), 0)
	e.states(sqlstore.Pending, ids[2])
	e.states(sqlstore.Processing, ids[:2]...)
	same(e, "handed out from their own queue", len(e.claim("mail", 5)), 0)
	e.states(sqlstore.Dead, ids...)
	e.purge(ids[2])
}

func exhaustedIsHeld(e *env) {
	_, h := e.hold(oneShot("mail"))
	e.advance(visibility)
	e.unchanged("a claim at the deadline", func() { same(e, "handed out", len(e.claim("mail", 5)), 0) })
	same(e, "ack on the last attempt", e.ack(h), []bool{true})
}

func deadlineInclusive(e *env) {
	r, h := e.hold(newJob("mail"))
	e.h.Clock.Set(*r.ClaimExpiresAt)
	same(e, "claim at the deadline", len(e.claim("mail", 1)), 0)
	same(e, "heartbeat at the deadline", e.heartbeat(h), []bool{true})
	e.advance(visibility + 1)
	e.unchanged("heartbeat past the deadline", func() {
		same(e, "heartbeat one second later", e.heartbeat(h), []bool{false})
	})
	same(e, "claim one second later", rowIDs(e.claim("mail", 1)), []int64{h.ID})
}

func lateWorker(e *env) {
	for _, end := range []string{"ack", "cancel"} {
		for _, op := range holdOps() {
			queue := fmt.Sprint(end, " ", op.name)
			_, late := e.hold(newJob(queue))
			e.advance(visibility + 1)
			current := handle(e.claimOne(queue))
			e.unchanged(op.name+" by the late worker", func() { same(e, op.name, op.do(e, late), []bool{false}) })
			if end == "cancel" {
				same(e, "cancel", e.cancel(late.ID), []bool{true})
				same(e, "ack by the holder of a cancelled job", e.ack(current), []bool{false})
			} else {
				same(e, "ack by the holder", e.ack(current), []bool{true})
			}
			same(e, op.name+" once the job is gone", op.do(e, late), []bool{false})
			e.gone(late.ID)
		}
	}
}

func onlyAttempt(e *env) {
	_, h := e.hold(oneShot("mail"))
	e.advance(visibility + 1)
	_, next, err := e.store.NextReady(e.Context(), []string{"mail"})
	e.ok(err)
	same(e, "the queue asks for a claim", next, map[string]int64{"mail": e.now()})
	same(e, "handed out", len(e.claim("mail", 1)), 0)
	r := e.get(h.ID)
	same(e, "state", r.State, sqlstore.Dead)
	same(e, "reason", *r.LastError, exhaustedText)
	_, next, err = e.store.NextReady(e.Context(), []string{"mail"})
	e.ok(err)
	same(e, "queues with work", len(next), 0)
	same(e, "late ack", e.ack(h), []bool{false})
}

func noDeadlineReclaimed(e *env) {
	_, h := e.hold(newJob("mail"))
	e.h.Edit(e.T, h.ID, "claim_expires_at", nil)
	for _, op := range holdOps() {
		e.unchanged(op.name+" without a deadline", func() { same(e, op.name, op.do(e, h), []bool{false}) })
	}
	now, next, err := e.store.NextReady(e.Context(), []string{"mail"})
	e.ok(err)
	same(e, "ready", next, map[string]int64{"mail": now})
	r := e.claimOne("mail")
	same(e, "attempts and fence", []int64{r.Attempts, r.Fence}, []int64{2, 2})
	same(e, "history", e.get(h.ID).Failures, []sqlstore.Failure{{Attempt: 1, At: now, Error: lapsedText}})
}
