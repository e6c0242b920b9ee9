package storetest

import (
	"github.com/alkstore/alkworker/internal/sqlstore"
)

func deadRules() []rule {
	return []rule{
		{name: "D1_a_dead_job_keeps_its_fields_however_it_died", test: deadKeeps},
		{name: "D3_get_sees_every_state", test: getSeesAll},
		{name: "D3_get_sees_every_field", test: getSeesFields},
	}
}

// fullJob has a value in every field that a job can have on enqueue.
func fullJob(queue string) sqlstore.NewJob {
	j := newJob(queue)
	j.Priority = -12
	j.RunAt = new(int64(1_600_000_000))
	j.ExpiresS = new(int64(500))
	j.Payload = []byte("\x00full\xff")
	return j
}

// death is one way of dying. kill ends the job, which is pending and the only one of its queue.
type death struct {
	kill      func(e *env, queue string, id int64)
	unclaimed bool // nobody has ever claimed it
	text      string
}

// deaths are all the ways of dying that do not fail.
func deaths() map[string]death {
	return map[string]death{
		"fail": {text: "boom", kill: func(e *env, queue string, _ int64) { e.fail(handle(e.claimOne(queue))) }},
		"retry": {text: deadText, kill: func(e *env, queue string, id int64) {
			e.untilDead(id, func() {
				e.retry(sqlstore.Retrial{Handle: handle(e.claimOne(queue)), Error: "x", DeadText: deadText})
			})
		}},
		"exhaustion": {text: exhaustedText, kill: func(e *env, queue string, id int64) {
			e.untilDead(id, func() {
				e.claim(queue, 1)
				e.advance(visibility + 1)
			})
		}},
		"expiry while pending": {text: expiredText, unclaimed: true, kill: func(e *env, queue string, _ int64) {
			e.advance(501)
			e.sweep(queue)
		}},
		"expiry while processing": {text: expiredText, kill: func(e *env, queue string, _ int64) {
			e.claimOne(queue)
			e.advance(501)
			e.sweep(queue)
		}},
	}
}

// untilDead spends one attempt after the other.
func (e *env) untilDead(id int64, spend func()) {
	e.Helper()
	for range 10 {
		if e.get(id).State == sqlstore.Dead {
			return
		}
		spend()
	}
	e.Fatalf("job %d outlives its budget: %+v", id, e.get(id))
}

func deadKeeps(e *env) {
	for how, death := range deaths() {
		id := e.enqueueOne(fullJob(how))
		want := e.get(id)
		e.advance(3)
		death.kill(e, how, id)
		got := e.get(id)
		want.State = sqlstore.Dead
		want.LastError = &death.text
		want.DiedAt = got.DiedAt
		want.Attempts, want.Fence, want.ClaimedAt, want.Failures = got.Attempts, got.Fence, got.ClaimedAt, got.Failures
		if how == "retry" {
			want.RunAt = e.now() // the retries before the last have moved it
		}
		same(e, "job dead by "+how, got, want)
		if got.DiedAt == nil || *got.DiedAt > e.now() || *got.DiedAt < e.now()-visibility-1 {
			e.Errorf("dead by %s: died at %v, now %d", how, got.DiedAt, e.now())
		}
		if unclaimed := got.ClaimedAt == nil && got.Attempts == 0 && got.Fence == 0; unclaimed != death.unclaimed {
			e.Errorf("dead by %s: got claimed at %v, attempts %d, fence %d", how, got.ClaimedAt, got.Attempts, got.Fence)
		}
	}
}

func getSeesAll(e *env) {
	pending := e.enqueueOne(fullJob("pending"))
	_, held := e.hold(fullJob("held"))
	dead := e.buryOne(fullJob("dead"))
	e.states(sqlstore.Pending, pending)
	e.states(sqlstore.Processing, held.ID)
	e.states(sqlstore.Dead, dead)
	for _, s := range e.handles(2) {
		for _, id := range []int64{pending, held.ID, dead} {
			r, err := s.GetJob(e.Context(), id)
			e.ok(err)
			same(e, "job through any handle", *r, e.get(id))
		}
	}
}

func getSeesFields(e *env) {
	j := fullJob("mail")
	id := e.enqueueOne(j)
	start := e.now()
	e.retry(sqlstore.Retrial{Handle: handle(e.claimOne("mail")), Error: "one"})
	e.advance(1)
	e.claimOne("mail")
	same(e, "every field of a processing job", e.get(id), sqlstore.Row{
		ID: id, Queue: "mail", State: sqlstore.Processing, Payload: j.Payload, PayloadSize: 6, Priority: -12,
		Stamps: j.Stamps, Attempts: 2, Fence: 2, Claimant: "worker", CreatedAt: start, RunAt: start,
		ClaimedAt: new(start + 1), ClaimExpiresAt: new(start + 1 + visibility), ExpiresAt: new(start + 500),
		LastError: new("one"), Failures: []sqlstore.Failure{{Attempt: 1, At: start, Error: "one"}},
	})
}
