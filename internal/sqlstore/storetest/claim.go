package storetest

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

func claimRules() []rule {
	return []rule{
		{name: "C1_hands_out_at_most_the_limit_of_one_queue", test: claimLimit},
		{name: "C6_a_claim_of_no_jobs_buries_none", test: claimNothing},
		{name: "C2_order_is_priority_then_ready_time_then_id", test: func(e *env) { claimOrder(e, sqlstore.AnyJob) }},
		{name: "C2_so_it_is_for_proven_jobs", test: func(e *env) { claimOrder(e, sqlstore.OnlyProven) }},
		{name: "C4_each_kind_of_claim_hands_out_what_is_stored", test: claimedRows},
		{name: "C2_a_ready_job_is_found_among_many_that_are_not", test: claimAmongDelayed},
		{name: "C2_lapsed_jobs_take_their_place_in_the_order", test: claimOrderOfLapsed},
		{name: "C3_a_delayed_job_is_not_handed_out_early", test: notEarly},
		{name: "C3_an_expired_job_is_not_handed_out", test: expiredNotHandedOut},
		{name: "C3_a_held_job_is_not_handed_out", test: heldNotHandedOut},
		{name: "C3_so_it_is_for_proven_jobs", test: provenRules},
		{name: "C4_a_claim_sets_claimant_times_attempt_and_fence", test: claimSets},
		{name: "C4_the_deadline_comes_from_the_jobs_own_stamp", test: ownVisibility},
		{name: "C4_claimants_of_any_name", test: oddClaimants},
		{name: "C5_the_fence_counts_claims_and_is_never_reset", test: fenceCounts},
		{name: "C3_a_paused_queue_hands_out_nothing", test: pausedQueue},
	}
}

func claimLimit(e *env) {
	ids := e.enqueue(jobs(7, newJob("mail"))...)
	other := e.enqueueOne(newJob("other"))
	same(e, "claim of none", len(e.claim("mail", 0)), 0)
	same(e, "first three", rowIDs(e.claim("mail", 3)), ids[:3])
	same(e, "one more", rowIDs(e.claim("mail", 1)), ids[3:4])
	same(e, "the rest", rowIDs(e.claim("mail", 100)), ids[4:])
	same(e, "from the empty queue", rowIDs(e.claim("mail", 100)), []int64{})
	e.states(sqlstore.Pending, other)
}

func claimOrder(e *env, kind sqlstore.ClaimKind) {
	seed := rand.Uint64()
	e.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	priorities := []int64{math.MinInt64, -1 << 40, -1, 0, 0, 0, 1, 1 << 40, math.MaxInt64}
	const n = 200
	batch := make([]sqlstore.NewJob, n)
	for i := range batch {
		batch[i] = newJob("mail")
		batch[i].Priority = priorities[random.IntN(len(priorities))]
		batch[i].RunAt = new(e.now() - random.Int64N(20))
	}
	want := []sqlstore.Row{}
	for _, id := range e.enqueue(batch...) {
		want = append(want, e.get(id))
	}
	slices.SortFunc(want, func(a, b sqlstore.Row) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.RunAt, b.RunAt), cmp.Compare(a.ID, b.ID))
	})
	got := []int64{}
	for _, limit := range []int64{1, 2, 50, 1, 30, n} { // pages of one order
		got = append(got, e.claimKind(kind, limit)...)
	}
	same(e, "jobs in claim order", got, rowIDs(want))
}

func claimedRows(e *env) {
	plain := newJob("mail")
	full := newJob("mail")
	full.Payload, full.Priority, full.ExpiresS = []byte{0, 255}, 3, new(int64(900))
	full.Stamps = sqlstore.Stamps{VisibilityTimeoutS: 77, MaxAttempts: 9, BackoffBaseS: 8}
	tried := newJob("mail")
	for _, kind := range []sqlstore.ClaimKind{sqlstore.AnyJob, sqlstore.OnlyProven} {
		e.enqueue(tried)
		e.retry(sqlstore.Retrial{Handle: handle(e.claimOne("mail")), Error: "no answer"})
		e.enqueue(plain, full)
		c := claimOf("mail", 10)
		c.Kind = kind
		rows, err := e.store.ClaimBatch(e.Context(), c)
		e.ok(err)
		same(e, "claimed", len(rows), 3)
		for _, got := range rows {
			want := e.get(got.ID)
			want.Failures = nil // which a claim does not read
			same(e, "claimed row", got, want)
			same(e, "deadline", *got.ClaimExpiresAt, e.now()+got.Stamps.VisibilityTimeoutS)
			e.ack(handle(got))
		}
	}
}

func claimAmongDelayed(e *env) {
	for p := range int64(5) {
		j := newJob("mail")
		j.Priority = 10 + p
		j.DelayS = 100
		e.enqueue(jobs(20, j)...)
	}
	low := newJob("mail")
	low.Priority = -5
	id := e.enqueueOne(low)
	same(e, "ready job of a low priority", rowIDs(e.claim("mail", 3)), []int64{id})
	mixed := newJob("mail")
	mixed.Priority = 12
	mid := e.enqueueOne(mixed)
	same(e, "ready job of a priority with delayed ones", rowIDs(e.claim("mail", 3)), []int64{mid})
}

func claimOrderOfLapsed(e *env) {
	lapsing := func(priority, runAt int64) int64 {
		j := newJob("mail")
		j.Priority, j.RunAt = priority, &runAt
		id := e.enqueueOne(j)
		same(e, "claimed", e.claimOne("mail").ID, id)
		return id
	}
	now := e.now()
	a := lapsing(1, now-5)
	b := lapsing(0, now-20)
	c := lapsing(0, now)
	e.advance(visibility + 1)
	waiting := func(priority, runAt int64) int64 {
		j := newJob("mail")
		j.Priority, j.RunAt = priority, &runAt
		return e.enqueueOne(j)
	}
	d := waiting(1, now-6)
	f := waiting(0, now-10)
	g := waiting(0, now)
	h := waiting(2, now+visibility)
	want := []int64{h, d, a, b, f, c, g}
	same(e, "first four of pending and lapsed jobs", rowIDs(e.claim("mail", 4)), want[:4])
	same(e, "the others", rowIDs(e.claim("mail", 10)), want[4:])
}

func notEarly(e *env) {
	j := newJob("mail")
	j.DelayS = 10
	id := e.enqueueOne(j)
	e.advance(9)
	same(e, "one second early", len(e.claim("mail", 1)), 0)
	e.advance(1)
	same(e, "on time", rowIDs(e.claim("mail", 1)), []int64{id})
}

func expiredNotHandedOut(e *env) {
	j := newJob("mail")
	j.ExpiresS = new(int64(60))
	j.Stamps.VisibilityTimeoutS = 10
	ids := e.enqueue(jobs(3, j)...)
	last := newJob("mail")
	last.ExpiresS, last.Stamps.VisibilityTimeoutS, last.Stamps.MaxAttempts = new(int64(60)), 10, 1
	last.Priority = 1
	spent := e.enqueueOne(last)
	same(e, "claimed", rowIDs(e.claim("mail", 2)), []int64{spent, ids[0]})
	e.advance(60)
	same(e, "at the second of expiry", rowIDs(e.claim("mail", 1)), ids[:1]) // and spent is buried
	e.advance(1)
	e.unchanged("a claim after expiry", func() { // nobody is buried either: that is the sweep's
		same(e, "one second later", len(e.claim("mail", 10)), 0)
		e.advance(100)
		same(e, "and after the held one lapsed", len(e.claim("mail", 10)), 0)
	})
	e.states(sqlstore.Dead, spent)
	e.states(sqlstore.Processing, ids[0])
	e.states(sqlstore.Pending, ids[1:]...)
	same(e, "sweep", e.sweep("mail"), sqlstore.Swept{Expired: 3})
}

// provenRules is what a claim hands out and what not, for the statement that most claims are.
func provenRules(e *env) {
	brief, late := newJob("mail"), newJob("mail")
	brief.ExpiresS, late.DelayS = new(int64(60)), 62
	expiring := e.enqueue(jobs(2, brief)...)
	plain := e.enqueueOne(newJob("mail"))
	delayed := e.enqueueOne(late)
	other := e.enqueueOne(newJob("other"))
	e.advance(60)
	same(e, "at the second of expiry", e.claimKind(sqlstore.OnlyProven, 1), expiring[:1])
	e.advance(1)
	same(e, "one second later", e.claimKind(sqlstore.OnlyProven, 5), []int64{plain})
	e.ok(e.store.SetPaused(e.Context(), "mail", true))
	e.advance(1)
	same(e, "while paused", e.claimKind(sqlstore.OnlyProven, 5), []int64{})
	e.ok(e.store.SetPaused(e.Context(), "mail", false))
	same(e, "once it is ready", e.claimKind(sqlstore.OnlyProven, 5), []int64{delayed})
	e.states(sqlstore.Pending, other, expiring[1])
}

func heldNotHandedOut(e *env) {
	_, h := e.hold(newJob("mail"))
	for range 3 {
		e.advance(visibility)
		same(e, "claim at the deadline", len(e.claim("mail", 10)), 0)
		same(e, "heartbeat at the deadline", e.heartbeat(h), []bool{true})
	}
}

func claimSets(e *env) {
	j := newJob("mail")
	j.Priority, j.ExpiresS = 3, new(int64(500))
	id := e.enqueueOne(j)
	want := e.get(id)
	e.advance(4)
	want.State = sqlstore.Processing
	want.Claimant = "host-1/42"
	want.ClaimedAt = new(e.now())
	want.ClaimExpiresAt = new(e.now() + visibility)
	want.Attempts, want.Fence = 1, 1
	c := claimOf("mail", 1)
	c.Claimant = "host-1/42"
	rows, err := e.store.ClaimBatch(e.Context(), c)
	e.ok(err)
	same(e, "claimed rows", rows, []sqlstore.Row{want})
	same(e, "stored row", e.get(id), want)
}

func ownVisibility(e *env) {
	var want []int64
	for _, s := range []int64{1, 5, 3600, 31_536_000} {
		j := newJob("mail")
		j.Stamps.VisibilityTimeoutS = s
		e.enqueueOne(j)
		want = append(want, e.now()+s)
	}
	var got []int64
	for _, r := range e.claim("mail", 10) {
		got = append(got, *r.ClaimExpiresAt)
	}
	same(e, "deadlines", got, want)
}

func oddClaimants(e *env) {
	for _, name := range oddNames() {
		id := e.enqueueOne(newJob("mail"))
		c := claimOf("mail", 1)
		c.Claimant = name
		rows, err := e.store.ClaimBatch(e.Context(), c)
		e.ok(err)
		same(e, "claimant of the claimed row", rows[0].Claimant, name)
		same(e, "claimant of the stored row", e.get(id).Claimant, name)
	}
}

func fenceCounts(e *env) {
	j := newJob("mail")
	j.Stamps.MaxAttempts = 3
	id := e.enqueueOne(j)
	claim := func(attempts, fence int64) sqlstore.Handle {
		e.Helper()
		r := e.claimOne("mail")
		same(e, "attempts and fence", []int64{r.Attempts, r.Fence}, []int64{attempts, fence})
		return handle(r)
	}
	e.retry(sqlstore.Retrial{Handle: claim(1, 1)})
	e.release(claim(2, 2))
	claim(2, 3)
	e.advance(visibility + 1)
	e.fail(claim(3, 4))
	same(e, "fence of the dead job", e.get(id).Fence, 4)
	e.requeue(id)
	e.release(claim(1, 5))
	claim(1, 6)
}

func pausedQueue(e *env) {
	pause := func(queue string, paused bool) {
		e.Helper()
		e.ok(e.store.SetPaused(e.Context(), queue, paused))
	}
	_, h := e.hold(newJob("mail"))
	_, acked := e.hold(newJob("mail"))
	id := e.enqueueOne(newJob("mail"))
	other := e.enqueueOne(newJob("other"))
	pause("mail", true)
	pause("mail", true)
	pause("empty", true)
	same(e, "claim from the paused queue", len(e.claim("mail", 10)), 0)
	same(e, "claim from another", rowIDs(e.claim("other", 10)), []int64{other})
	same(e, "heartbeat while paused", e.heartbeat(h), []bool{true})
	same(e, "ack while paused", e.ack(acked), []bool{true})
	later := e.enqueueOne(newJob("mail"))
	same(e, "retry while paused", e.retry(sqlstore.Retrial{Handle: h}), []sqlstore.Verdict{sqlstore.Retrying})
	same(e, "claim of what came while paused", len(e.claim("mail", 10)), 0)
	for _, s := range e.handles(2) {
		rows, err := s.ClaimBatch(e.Context(), claimOf("mail", 10))
		e.ok(err)
		same(e, "claim through any handle", len(rows), 0)
	}
	pause("mail", false)
	pause("mail", false)
	same(e, "claim after resuming", rowIDs(e.claim("mail", 10)), []int64{h.ID, id, later})
}

func claimNothing(e *env) {
	_, h := e.hold(oneShot("mail"))
	e.advance(visibility + 1)
	for _, limit := range []int64{0, -1} {
		same(e, "claimed", len(e.claim("mail", limit)), 0)
		e.states(sqlstore.Processing, h.ID)
	}
}
