package storetest

import (
	"slices"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

func requeueRules() []rule {
	return []rule{
		{name: "D4_requeue_gives_a_fresh_budget_and_keeps_the_rest", test: requeueKeeps},
		{name: "D4_a_requeued_job_never_expires", test: requeueNeverExpires},
		{name: "D4_requeue_says_which_there_were", test: requeueAnswers},
		{name: "D4_requeue_of_all_that_match_in_bites", test: requeueMatching},
		{name: "D4_purge_says_which_there_were", test: purgeAnswers},
		{name: "D4_purge_of_all_that_match_in_bites", test: purgeMatching},
		{name: "D4_older_than_is_inclusive", test: olderThan},
		{name: "D4_many_ids_in_one_call", test: manyIDs},
		{name: "D5_a_job_can_die_and_come_back_any_number_of_times", test: dieOften},
	}
}

func requeueKeeps(e *env) {
	for how, death := range deaths() {
		id := e.enqueueOne(fullJob(how))
		death.kill(e, how, id)
		want := e.get(id)
		e.advance(7)
		same(e, "requeue", e.requeue(id), []bool{true})
		want.State = sqlstore.Pending
		want.RunAt = e.now()
		want.Attempts = 0
		want.ClaimedAt, want.ExpiresAt, want.DiedAt = nil, nil, nil
		same(e, "job requeued after "+how, e.get(id), want)
		r := e.claimOne(how)
		same(e, "attempts and fence", []int64{r.Attempts, r.Fence}, []int64{1, want.Fence + 1})
		same(e, "payload", r.Payload, fullJob(how).Payload)
		same(e, "ack", e.ack(handle(r)), []bool{true})
	}
}

func requeueNeverExpires(e *env) {
	j := newJob("mail")
	j.ExpiresS = new(int64(5))
	id := e.enqueueOne(j)
	e.advance(6)
	same(e, "sweep", e.sweep("mail"), sqlstore.Swept{Expired: 1})
	same(e, "requeue", e.requeue(id), []bool{true})
	e.advance(100_000)
	same(e, "sweep", e.sweep("mail"), sqlstore.Swept{})
	same(e, "claimed", e.claimOne("mail").ID, id)
}

func requeueAnswers(e *env) {
	a, b := e.buryOne(newJob("mail")), e.buryOne(newJob("other"))
	live := e.enqueueOne(newJob("mail"))
	_, held := e.hold(newJob("held"))
	got := e.requeue(live, a, 1<<40, b, held.ID)
	same(e, "requeue", got, []bool{false, true, false, true, false})
	e.states(sqlstore.Pending, a, b, live)
	same(e, "requeue again", e.requeue(a, b), []bool{false, false})
}

// graves makes n dead jobs of a queue, the oldest id of which has died last.
func (e *env) graves(queue string, n int) []int64 {
	e.Helper()
	ids := e.enqueue(jobs(n, newJob(queue))...)
	rows := e.claim(queue, int64(n))
	slices.Reverse(rows)
	for _, r := range rows {
		same(e, "fail", e.fail(handle(r)), []bool{true})
		e.advance(1)
	}
	return ids
}

func requeueMatching(e *env) {
	mail, other := e.graves("mail", 7), e.graves("other", 3)
	live := e.enqueueOne(newJob("live"))
	bite := func(f sqlstore.DeadFilter, limit, want int64) {
		e.Helper()
		n, err := e.store.RequeueMatching(e.Context(), f, limit)
		e.ok(err)
		same(e, "requeued", n, want)
	}
	bite(sqlstore.DeadFilter{Queue: "mail"}, 0, 0)
	bite(sqlstore.DeadFilter{Queue: "none"}, 10, 0)
	bite(sqlstore.DeadFilter{Queue: "mail"}, 3, 3)
	e.states(sqlstore.Pending, mail[:3]...) // oldest id first, whenever they died
	e.states(sqlstore.Dead, mail[3:]...)
	e.states(sqlstore.Dead, other...)
	same(e, "fresh budget", e.get(mail[0]).Attempts, 0)
	bite(sqlstore.DeadFilter{}, 5, 5)
	e.states(sqlstore.Pending, slices.Concat(mail, other[:1])...)
	e.states(sqlstore.Dead, other[1:]...)
	bite(sqlstore.DeadFilter{}, 5, 2)
	bite(sqlstore.DeadFilter{}, 5, 0)
	e.states(sqlstore.Pending, live)
}

func purgeAnswers(e *env) {
	a, b, kept := e.buryOne(newJob("mail")), e.buryOne(newJob("other")), e.buryOne(newJob("mail"))
	live := e.enqueueOne(newJob("mail"))
	same(e, "purge", e.purge(live, b, 1<<40, a), []bool{false, true, false, true})
	e.gone(a, b)
	same(e, "purge again", e.purge(a), []bool{false})
	same(e, "requeue of what is gone", e.requeue(a), []bool{false})
	e.states(sqlstore.Dead, kept)
	e.states(sqlstore.Pending, live)
}

func purgeMatching(e *env) {
	mail, other := e.graves("mail", 7), e.graves("other", 3)
	live := e.enqueueOne(newJob("mail"))
	bite := func(f sqlstore.DeadFilter, limit, want int64) {
		e.Helper()
		n, err := e.store.PurgeMatching(e.Context(), f, limit)
		e.ok(err)
		same(e, "purged", n, want)
	}
	bite(sqlstore.DeadFilter{Queue: "mail"}, 0, 0)
	bite(sqlstore.DeadFilter{Queue: "none"}, 10, 0)
	bite(sqlstore.DeadFilter{Queue: "mail"}, 3, 3)
	e.gone(mail[:3]...)
	e.states(sqlstore.Dead, mail[3:]...)
	bite(sqlstore.DeadFilter{Queue: "mail"}, 100, 4)
	e.states(sqlstore.Dead, other...)
	bite(sqlstore.DeadFilter{}, 100, 3)
	e.states(sqlstore.Pending, live)
}

func olderThan(e *env) {
	mail := e.graves("mail", 6) // mail[5] died 6 seconds ago, mail[0] one second ago
	older := func(s int64) sqlstore.DeadFilter { return sqlstore.DeadFilter{Queue: "mail", OlderThanS: &s} }
	n, err := e.store.PurgeMatching(e.Context(), older(7), 10)
	e.ok(err)
	same(e, "purged that are older than the oldest", n, 0)
	n, err = e.store.PurgeMatching(e.Context(), older(5), 10)
	e.ok(err)
	same(e, "purged that died at least 5 s ago", n, 2)
	e.gone(mail[4], mail[5])
	n, err = e.store.RequeueMatching(e.Context(), sqlstore.DeadFilter{OlderThanS: new(int64(3))}, 1)
	e.ok(err)
	same(e, "requeued that died at least 3 s ago", n, 1)
	e.states(sqlstore.Pending, mail[2])
	e.states(sqlstore.Dead, mail[0], mail[1], mail[3])
	n, err = e.store.PurgeMatching(e.Context(), older(0), 10)
	e.ok(err)
	same(e, "purged of any age", n, 3)
}

func dieOften(e *env) {
	id := e.enqueueOne(oneShot("mail"))
	for i := range int64(30) {
		r := e.claimOne("mail")
		same(e, "fence", r.Fence, i+1)
		switch i % 3 {
		case 0:
			e.fail(handle(r))
		case 1:
			e.retry(sqlstore.Retrial{Handle: handle(r), Error: "x", DeadText: deadText})
		case 2:
			e.advance(visibility + 1)
			e.claim("mail", 1)
		}
		e.states(sqlstore.Dead, id)
		same(e, "requeue", e.requeue(id), []bool{true})
	}
}

func manyIDs(e *env) {
	const n = 1_200 // see largeBatch
	ids := e.enqueue(jobs(n, newJob("mail"))...)
	var handles []sqlstore.Handle
	for _, r := range e.claim("mail", n) {
		handles = append(handles, handle(r))
	}
	e.fail(handles...)
	for _, call := range []struct {
		name string
		do   func(ids ...int64) []bool
	}{{"requeue", e.requeue}, {"cancel", e.cancel}, {"purge", e.purge}} {
		some := slices.Clone(ids)
		if call.name == "requeue" {
			some = some[:n/2]
		}
		for i, ok := range call.do(some...) {
			if want := call.name == "requeue" || (i < n/2) == (call.name == "cancel"); ok != want {
				e.Fatalf("%s of %d, answer %d: got %v, want %v", call.name, len(some), i, ok, want)
			}
		}
	}
	same(e, "jobs left", len(e.everything()), 0)
}
