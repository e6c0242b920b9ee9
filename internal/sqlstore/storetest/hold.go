package storetest

import (
	"fmt"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

func holdRules() []rule {
	return []rule{
		{name: "H1_every_operation_holds_at_the_deadline", test: holdsAtDeadline},
		{name: "H1_every_operation_is_refused_one_second_later", test: refusedAfterDeadline},
		{name: "H1_every_operation_is_refused_without_the_claim", test: refusedWithoutClaim},
		{name: "H1_a_batch_is_answered_one_by_one", test: batchAnswers},
		{name: "H1_a_handle_that_comes_twice", test: handleTwice},
		{name: "H1_a_large_batch", test: largeBatch},
		{name: "H1_expiry_does_not_end_a_claim", test: expiryKeepsClaim},
	}
}

// holdOp is one of the five operations on a claim. do answers for each handle.
type holdOp struct {
	name  string
	do    func(e *env, handles ...sqlstore.Handle) []bool
	after sqlstore.State // of the job; empty when it is gone
}

func holdOps() []holdOp {
	return []holdOp{
		{"ack", (*env).ack, ""},
		{"heartbeat", (*env).heartbeat, sqlstore.Processing},
		{"retry", func(e *env, handles ...sqlstore.Handle) []bool {
			e.Helper()
			var retries []sqlstore.Retrial
			for _, h := range handles {
				retries = append(retries, sqlstore.Retrial{Handle: h, Error: "again", DeadText: deadText})
			}
			answers := []bool{}
			for _, v := range e.retry(retries...) {
				answers = append(answers, v != sqlstore.Refused)
			}
			return answers
		}, sqlstore.Pending},
		{"fail", (*env).fail, sqlstore.Dead},
		{"release", (*env).release, sqlstore.Pending},
	}
}

// ended fails the test unless the operation has had its effect on the job.
func (op holdOp) ended(e *env, id int64) {
	e.Helper()
	if op.after == "" {
		e.gone(id)
		return
	}
	e.states(op.after, id)
}

func holdsAtDeadline(e *env) {
	for _, op := range holdOps() {
		r, h := e.hold(newJob(op.name))
		e.h.Clock.Set(*r.ClaimExpiresAt)
		same(e, op.name+" at the deadline", op.do(e, h), []bool{true})
		op.ended(e, h.ID)
	}
}

func refusedAfterDeadline(e *env) {
	for _, op := range holdOps() {
		r, h := e.hold(newJob(op.name))
		e.h.Clock.Set(*r.ClaimExpiresAt + 1)
		e.unchanged(op.name+" past the deadline", func() {
			same(e, op.name+" past the deadline", op.do(e, h), []bool{false})
		})
	}
}

func refusedWithoutClaim(e *env) {
	for _, op := range holdOps() {
		name := func(what string) string { return op.name + " of " + what }
		_, h := e.hold(newJob(op.name))
		pending := e.enqueueOne(newJob(name("a pending job")))
		_, released := e.hold(newJob(name("a released job")))
		e.release(released)
		_, dead := e.hold(newJob(name("a dead job")))
		e.fail(dead)
		_, requeued := e.hold(newJob(name("a requeued job")))
		e.fail(requeued)
		e.requeue(requeued.ID)
		_, cancelled := e.hold(newJob(name("a cancelled job")))
		e.cancel(cancelled.ID)
		_, acked := e.hold(newJob(name("an acked job")))
		e.ack(acked)
		e.unchanged(name("what is not held"), func() {
			for what, h := range map[string]sqlstore.Handle{
				"an earlier claim":           {ID: h.ID, Fence: h.Fence - 1},
				"a later claim":              {ID: h.ID, Fence: h.Fence + 1},
				"no claim":                   {ID: h.ID},
				"a negative fence":           {ID: h.ID, Fence: -1},
				"a pending job":              {ID: pending, Fence: 0},
				"a released job":             released,
				"a dead job":                 dead,
				"a requeued job":             requeued,
				"a cancelled job":            cancelled,
				"an acked job":               acked,
				"a job that nobody enqueued": {ID: 1 << 40, Fence: 1},
				"the zero handle":            {},
			} {
				same(e, name(what), op.do(e, h), []bool{false})
			}
		})
	}
}

func batchAnswers(e *env) {
	for _, op := range holdOps() {
		_, mine := e.hold(newJob(op.name))
		_, lapsed := e.hold(newJob(op.name))
		long := newJob(op.name)
		long.Stamps.VisibilityTimeoutS = 1000
		_, other := e.hold(long)
		_, elsewhere := e.hold(newJob(op.name + " elsewhere"))
		e.advance(20)
		e.heartbeat(mine, elsewhere)
		e.advance(visibility - 19)
		untouched := e.get(lapsed.ID)
		wrong, unknown := sqlstore.Handle{ID: other.ID, Fence: 9}, sqlstore.Handle{ID: 1 << 40, Fence: 1}
		got := op.do(e, elsewhere, lapsed, wrong, mine, unknown, other)
		same(e, op.name+" of six", got, []bool{true, false, false, true, false, true})
		for _, h := range []sqlstore.Handle{elsewhere, mine, other} {
			op.ended(e, h.ID)
		}
		same(e, "the lapsed one", e.get(lapsed.ID), untouched)
	}
}

func handleTwice(e *env) {
	for _, op := range holdOps() {
		_, h := e.hold(newJob(op.name))
		_, k := e.hold(newJob(op.name))
		still := op.name == "heartbeat" // the only one that leaves the claim as it is
		same(e, op.name+" twice in one call", op.do(e, h, k, h, k, h), []bool{true, true, still, still, still})
		op.ended(e, h.ID)
		op.ended(e, k.ID)
		if op.name == "retry" || op.name == "fail" {
			same(e, "failures after "+op.name, len(e.get(h.ID).Failures), 1)
		}
		if op.name == "release" {
			same(e, "attempts after release", e.get(h.ID).Attempts, 0)
		}
	}
}

func largeBatch(e *env) {
	const n = 1_200 // more than the variables or terms that databases allow in one statement by default
	for _, op := range holdOps() {
		queue := fmt.Sprint("large ", op.name)
		e.enqueue(jobs(n, newJob(queue))...)
		var handles []sqlstore.Handle
		for i, r := range e.claim(queue, n) {
			if i%3 == 0 {
				r.Fence++
			}
			handles = append(handles, handle(r))
		}
		for i, ok := range op.do(e, handles...) {
			if want := i%3 != 0; ok != want {
				e.Fatalf("%s of %d, answer %d: got %v, want %v", op.name, n, i, ok, want)
			}
		}
	}
}

func expiryKeepsClaim(e *env) {
	for _, op := range holdOps() {
		j := newJob(op.name)
		j.ExpiresS = new(int64(5))
		_, h := e.hold(j)
		e.advance(6)
		same(e, op.name+" after expiry, before a sweep", op.do(e, h), []bool{true})
		op.ended(e, h.ID)
	}
}
