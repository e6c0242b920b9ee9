package storetest

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

func suspectRules() []rule {
	return []rule{
		{name: "K25_a_job_whose_claim_lapsed_is_a_suspect", test: lapsedIsSuspect},
		{name: "K25_a_suspect_stays_one_until_it_answers", test: suspectUntilAnswer},
		{name: "K25_a_claim_may_ask_for_one_kind", test: claimKinds},
		{name: "K25_each_kind_of_claim_keeps_the_order", test: kindsKeepOrder},
		{name: "C4_a_claim_of_suspects_hands_out_what_is_stored", test: suspectRows},
		{name: "C2_suspects_are_taken_in_order", test: suspectOrder},
		{name: "C3_a_suspect_that_waits_is_not_handed_out_early", test: suspectNotEarly},
		{name: "C3_an_expired_suspect_is_not_handed_out", test: suspectExpired, needs: hasEdit},
		{name: "C1_suspects_of_another_queue_stay_there", test: suspectElsewhere, needs: hasEdit},
		{name: "K25_exhausted_jobs_are_buried_by_every_kind_of_claim", test: kindsBury},
	}
}

func (e *env) claimKind(kind sqlstore.ClaimKind, limit int64) []int64 {
	e.Helper()
	c := claimOf("mail", limit)
	c.Kind = kind
	rows, err := e.store.ClaimBatch(e.Context(), c)
	e.ok(err)
	return rowIDs(rows)
}

// suspect makes a job of the queue "mail" that is claimed again after its first claim has lapsed.
func (e *env) suspect() sqlstore.Handle {
	e.Helper()
	_, h := e.hold(newJob("mail"))
	e.advance(visibility + 1)
	same(e, "claimed again", e.claimKind(sqlstore.OnlySuspects, 1), []int64{h.ID})
	return sqlstore.Handle{ID: h.ID, Fence: 2}
}

func lapsedIsSuspect(e *env) {
	r, h := e.hold(newJob("mail"))
	same(e, "lapsed fence of a first claim", r.LapsedFence, 0)
	e.advance(visibility + 1)
	same(e, "lapsed fence before anybody has noticed", e.get(h.ID).LapsedFence, 0)
	same(e, "claim of proven jobs", e.claimKind(sqlstore.OnlyProven, 5), []int64{})
	r = e.claimOne("mail")
	same(e, "lapsed fence of the claimed row", r.LapsedFence, 1)
	same(e, "lapsed fence of the stored row", e.get(h.ID).LapsedFence, 1)
	same(e, "lapsed fence of the listed row", e.list(sqlstore.Filter{Limit: 1})[0].LapsedFence, 1)
	e.advance(visibility + 1)
	same(e, "lapsed fence after a second lapse", e.claimOne("mail").LapsedFence, 2)
}

func suspectUntilAnswer(e *env) {
	kept := func(h sqlstore.Handle, want int64) {
		e.Helper()
		same(e, "lapsed fence", e.get(h.ID).LapsedFence, want)
	}
	h := e.suspect()
	same(e, "heartbeat", e.heartbeat(h), []bool{true})
	kept(h, 1)
	same(e, "release", e.release(h), []bool{true})
	kept(h, 1) // a worker that hands it back without running it has proven nothing
	same(e, "claim of proven jobs", e.claimKind(sqlstore.OnlyProven, 5), []int64{})
	same(e, "claim of suspects", e.claimKind(sqlstore.OnlySuspects, 5), []int64{h.ID})
	kept(h, 1)
	h.Fence = 3
	e.retry(sqlstore.Retrial{Handle: h})
	kept(h, 0)
	same(e, "claim of suspects after a retry", e.claimKind(sqlstore.OnlySuspects, 5), []int64{})
	same(e, "claim of proven jobs after a retry", e.claimKind(sqlstore.OnlyProven, 5), []int64{h.ID})
	same(e, "cancel", e.cancel(h.ID), []bool{true})

	h = e.suspect()
	same(e, "fail", e.fail(h), []bool{true})
	kept(h, 0)
	same(e, "requeue", e.requeue(h.ID), []bool{true})
	kept(h, 0)
	same(e, "claim of proven jobs after a requeue", e.claimKind(sqlstore.OnlyProven, 5), []int64{h.ID})
}

func claimKinds(e *env) {
	_, lapsed := e.hold(newJob("mail"))
	_, noted := e.hold(newJob("mail"))
	e.advance(visibility + 1)
	same(e, "claimed again", len(e.claimKind(sqlstore.OnlySuspects, 5)), 2)
	same(e, "release", e.release(sqlstore.Handle{ID: noted.ID, Fence: 2}), []bool{true})
	e.advance(visibility + 1)
	fresh := e.enqueue(jobs(2, newJob("mail"))...)
	j := newJob("mail")
	j.DelayS = 50
	e.enqueue(j)
	same(e, "one proven job", e.claimKind(sqlstore.OnlyProven, 1), fresh[:1])
	same(e, "one suspect", e.claimKind(sqlstore.OnlySuspects, 1), []int64{lapsed.ID})
	same(e, "one of any kind", e.claimKind(sqlstore.AnyJob, 1), []int64{noted.ID})
	same(e, "no suspect is left", e.claimKind(sqlstore.OnlySuspects, 5), []int64{})
	same(e, "the last proven one", e.claimKind(sqlstore.OnlyProven, 5), fresh[1:])
}

func kindsKeepOrder(e *env) {
	enqueue := func(priority int64) int64 {
		j := newJob("mail")
		j.Priority = priority
		return e.enqueueOne(j)
	}
	for _, priority := range []int64{1, 5, 3} {
		enqueue(priority)
	}
	suspects := rowIDs(e.claim("mail", 3))
	e.advance(visibility + 1)
	low, high, middle := enqueue(2), enqueue(6), enqueue(4)
	for kind, want := range map[sqlstore.ClaimKind][]int64{
		sqlstore.OnlySuspects: suspects,
		sqlstore.OnlyProven:   {high, middle, low},
		sqlstore.AnyJob:       {high, suspects[0], middle, suspects[1], low, suspects[2]},
	} {
		same(e, "claim of one kind", e.claimKind(kind, 10), want)
		for _, id := range want {
			same(e, "release", e.release(sqlstore.Handle{ID: id, Fence: e.get(id).Fence}), []bool{true})
		}
	}
}

func kindsBury(e *env) {
	for _, kind := range []sqlstore.ClaimKind{sqlstore.AnyJob, sqlstore.OnlyProven, sqlstore.OnlySuspects} {
		_, h := e.hold(oneShot("mail"))
		e.advance(visibility + 1)
		same(e, "handed out", e.claimKind(kind, 5), []int64{})
		r := e.get(h.ID)
		same(e, "state", r.State, sqlstore.Dead)
		same(e, "reason", *r.LastError, exhaustedText)
		same(e, "lapsed fence", r.LapsedFence, 0)
	}
}

func suspectRows(e *env) {
	for _, kind := range []sqlstore.ClaimKind{sqlstore.AnyJob, sqlstore.OnlySuspects} {
		j := newJob("mail")
		j.Stamps.VisibilityTimeoutS = 77
		_, h := e.hold(j)
		e.advance(78)
		var history []sqlstore.Failure
		for fence := int64(2); fence < 4; fence++ { // the first claim lapsed, the second was handed back
			c := claimOf("mail", 5)
			c.Kind = kind
			rows, err := e.store.ClaimBatch(e.Context(), c)
			e.ok(err)
			want := e.get(h.ID)
			if history == nil {
				history = want.Failures
			}
			same(e, "history", want.Failures, history)
			want.Failures = nil // which a claim does not read
			same(e, "claimed rows", rows, []sqlstore.Row{want})
			same(e, "deadline", *want.ClaimExpiresAt, e.now()+77)
			h.Fence = fence
			if fence == 2 {
				same(e, "release", e.release(h), []bool{true})
			}
		}
		e.advance(77)
		same(e, "heartbeat", e.heartbeat(h), []bool{true})
		same(e, "deadline after it", *e.get(h.ID).ClaimExpiresAt, e.now()+77)
		same(e, "ack", e.ack(h), []bool{true})
	}
}

// suspectOrder takes pages of suspects, some of which wait, while the claims of others have lapsed.
func suspectOrder(e *env) {
	seed := rand.Uint64()
	e.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const n = 100
	batch := make([]sqlstore.NewJob, n)
	for i := range batch {
		batch[i] = newJob("mail")
		batch[i].Priority = random.Int64N(3)
		batch[i].RunAt = new(e.now() - random.Int64N(3)) // many that only their ids tell apart
	}
	e.enqueue(batch...)
	same(e, "claimed", len(e.claim("mail", n)), n)
	e.advance(visibility + 1)
	for i, r := range e.claim("mail", n) {
		if i%2 == 0 {
			_, err := e.store.Release(e.Context(), []sqlstore.Releasing{{Handle: handle(r), DelayS: random.Int64N(3)}})
			e.ok(err)
		}
	}
	e.advance(visibility + 1)
	for _, kind := range []sqlstore.ClaimKind{sqlstore.OnlySuspects, sqlstore.AnyJob} {
		want := []sqlstore.Row{}
		for _, r := range e.everything() {
			want = append(want, r)
		}
		slices.SortFunc(want, func(a, b sqlstore.Row) int {
			return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.RunAt, b.RunAt), cmp.Compare(a.ID, b.ID))
		})
		got := []int64{}
		for _, limit := range []int64{1, 2, 30, 1, 7, 11, n} {
			got = append(got, e.claimKind(kind, limit)...)
		}
		same(e, "suspects in claim order", got, rowIDs(want))
		e.advance(visibility + 1)
	}
}

// waitingSuspect is a suspect of the queue "mail" that was handed back, to be ready in so many seconds.
func (e *env) waitingSuspect(delayS int64) sqlstore.Handle {
	e.Helper()
	h := e.suspect()
	answers, err := e.store.Release(e.Context(), []sqlstore.Releasing{{Handle: h, DelayS: delayS}})
	e.ok(err)
	same(e, "release", answers, []bool{true})
	return h
}

func suspectNotEarly(e *env) {
	for _, kind := range []sqlstore.ClaimKind{sqlstore.AnyJob, sqlstore.OnlySuspects} {
		h := e.waitingSuspect(50)
		e.advance(49)
		same(e, "one second early", e.claimKind(kind, 5), []int64{})
		e.advance(1)
		same(e, "on time", e.claimKind(kind, 5), []int64{h.ID})
		same(e, "cancel", e.cancel(h.ID), []bool{true})
	}
}

func suspectExpired(e *env) {
	for _, kind := range []sqlstore.ClaimKind{sqlstore.AnyJob, sqlstore.OnlySuspects} {
		j := newJob("mail")
		j.ExpiresS = new(int64(visibility + 5))
		ids := e.enqueue(jobs(3, j)...)
		same(e, "claimed", rowIDs(e.claim("mail", 5)), ids)
		e.advance(visibility + 1)
		same(e, "claimed again", e.claimKind(sqlstore.OnlySuspects, 5), ids)
		for _, id := range ids[:2] {
			same(e, "release", e.release(sqlstore.Handle{ID: id, Fence: 2}), []bool{true})
		}
		e.h.Edit(e.T, ids[2], "claim_expires_at", nil)
		e.advance(4)
		same(e, "at the second of expiry", e.claimKind(kind, 1), ids[2:]) // it is the one that was ready first
		e.h.Edit(e.T, ids[2], "claim_expires_at", nil)
		e.advance(1)
		same(e, "one second later", e.claimKind(kind, 5), []int64{})
		same(e, "sweep", e.sweep("mail"), sqlstore.Swept{Expired: 3})
	}
}

func suspectElsewhere(e *env) {
	e.waitingSuspect(0)
	_, h := e.hold(newJob("held"))
	e.h.Edit(e.T, h.ID, "claim_expires_at", nil)
	for _, kind := range []sqlstore.ClaimKind{sqlstore.AnyJob, sqlstore.OnlySuspects} {
		c := claimOf("other", 5)
		c.Kind = kind
		rows, err := e.store.ClaimBatch(e.Context(), c)
		e.ok(err)
		same(e, "handed out from another queue", rowIDs(rows), []int64{})
	}
	same(e, "cancel", e.cancel(h.ID), []bool{true})
}
