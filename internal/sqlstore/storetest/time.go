package storetest

import (
	"context"
	"errors"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

func timeRules() []rule {
	return []rule{
		{name: "T1_now_is_the_stores_clock", test: nowIsTheClock},
		{name: "T1_every_time_is_read_from_the_clock", test: timesFromTheClock},
		{name: "T1_a_clock_set_back_breaks_no_claim", test: clockSetBack},
		{name: "T5_errors_carry_operation_and_object", test: errorsCarryOperation},
		{name: "T5_no_such_row_is_a_value", test: noSuchRowIsAValue},
		{name: "T5_an_empty_batch_is_nothing_to_do", test: emptyBatches},
		{name: "T6_a_cancelled_call_changes_nothing", test: cancelledCallChangesNothing},
	}
}

func nowIsTheClock(e *env) {
	for _, at := range []int64{e.now(), e.now() + 86_400, 1, 253_402_300_799} {
		e.h.Clock.Set(at)
		for _, s := range e.handles(2) {
			got, err := s.Now(e.Context())
			e.ok(err)
			same(e, "Now", got, at)
		}
	}
}

func timesFromTheClock(e *env) {
	start := e.now()
	id := e.enqueueOne(newJob("mail"))
	e.advance(5)
	h := handle(e.claimOne("mail"))
	r := e.get(id)
	same(e, "created, ready, claimed, deadline",
		[]int64{r.CreatedAt, r.RunAt, *r.ClaimedAt, *r.ClaimExpiresAt},
		[]int64{start, start, start + 5, start + 5 + visibility})
	e.advance(2)
	same(e, "heartbeat", e.heartbeat(h), []bool{true})
	same(e, "deadline after heartbeat", *e.get(id).ClaimExpiresAt, start+7+visibility)
	e.advance(2)
	e.retry(sqlstore.Retrial{Handle: h, DelayS: 10, Error: "later"})
	r = e.get(id)
	same(e, "ready after retry, time of the failure", []int64{r.RunAt, r.Failures[0].At}, []int64{start + 19, start + 9})
	e.advance(10)
	h = handle(e.claimOne("mail"))
	e.advance(1)
	same(e, "fail", e.fail(h), []bool{true})
	same(e, "died", *e.get(id).DiedAt, start+20)
	e.advance(1)
	same(e, "requeue", e.requeue(id), []bool{true})
	same(e, "ready after requeue", e.get(id).RunAt, start+21)
}

func clockSetBack(e *env) {
	_, h := e.hold(newJob("mail"))
	waiting := e.enqueueOne(newJob("mail"))
	e.advance(-3600)
	same(e, "jobs claimed before they are ready", rowIDs(e.claim("mail", 10)), []int64{})
	same(e, "heartbeat", e.heartbeat(h), []bool{true})
	e.advance(3600)
	same(e, "jobs of both kinds, once the time has come again", rowIDs(e.claim("mail", 10)), []int64{h.ID, waiting})
}

func errorsCarryOperation(e *env) {
	var tx sqlstore.Tx
	if e.h.Begin != nil {
		tx = e.begin().Tx
	}
	ctx := e.cancelled()
	ops := make(map[string]string)
	for _, c := range e.calls(tx) {
		err := c.do(ctx, e.store)
		if !errors.Is(err, context.Canceled) {
			e.Errorf("%s with a cancelled context: got %v, want context.Canceled", c.method, err)
			continue
		}
		typed, ok := errors.AsType[*sqlstore.Error](err)
		if !ok && c.method == "Watch" {
			continue // the end of its context is how it ends
		}
		if !ok {
			e.Errorf("%s: got a %T, want a *sqlstore.Error", c.method, err)
			continue
		}
		if typed.Op == "" || typed.Queue != c.queue || typed.JobID != c.jobID {
			e.Errorf("%s: got op %q, queue %q, job %d, want some op, queue %q, job %d",
				c.method, typed.Op, typed.Queue, typed.JobID, c.queue, c.jobID)
		}
		ops[c.method] = typed.Op
	}
	e.Logf("operations: %v", ops)
}

func noSuchRowIsAValue(e *env) {
	live := e.enqueueOne(newJob("mail"))
	dead := e.buryOne(newJob("grave"))
	unknown := []int64{dead + 1, 0, -1, 1<<63 - 1}
	none := make([]bool, len(unknown))
	e.unchanged("operations on jobs that are not there", func() {
		e.gone(unknown...)
		same(e, "cancel", e.cancel(unknown...), none)
		same(e, "requeue", e.requeue(unknown...), none)
		same(e, "purge", e.purge(unknown...), none)
		same(e, "cancel of a dead job", e.cancel(dead), []bool{false})
		same(e, "requeue of a live job", e.requeue(live), []bool{false})
		same(e, "purge of a live job", e.purge(live), []bool{false})
		same(e, "claim from an empty queue", len(e.claim("none", 5)), 0)
		same(e, "sweep of an empty queue", e.sweep("none"), sqlstore.Swept{})
		removed, err := e.store.Unregister(e.Context(), "none")
		same(e, "unregister", removed, false)
		e.ok(err)
		_, fired, err := e.store.FireNow(e.Context(), "none", anySchedule)
		same(e, "fire", fired, false)
		e.ok(err)
		e.ok(e.store.Withdraw(e.Context(), "none"))
		e.ok(e.store.Resign(e.Context(), "none", "me"))
	})
}

func emptyBatches(e *env) {
	e.enqueue()
	for what, n := range map[string]int{
		"ack": len(e.ack()), "heartbeat": len(e.heartbeat()), "retry": len(e.retry()), "fail": len(e.fail()),
		"release": len(e.release()), "cancel": len(e.cancel()), "requeue": len(e.requeue()), "purge": len(e.purge()),
	} {
		if n != 0 {
			e.Errorf("%s of nothing: got %d answers", what, n)
		}
	}
	_, next, err := e.store.NextReady(e.Context(), nil)
	e.ok(err)
	same(e, "next ready of no queues", len(next), 0)
}

func cancelledCallChangesNothing(e *env) {
	_, h := e.hold(newJob("mail"))
	e.enqueue(newJob("mail"))
	dead := e.buryOne(newJob("mail2"))
	lost := newJob("mail")
	lost.ExpiresS = new(int64(1))
	e.enqueue(lost)
	e.advance(2)
	ctx := e.cancelled()
	e.unchanged("calls with a cancelled context", func() {
		for what, err := range map[string]error{
			"enqueue":   second(e.store.Enqueue(ctx, jobs(3, newJob("mail")))),
			"claim":     second(e.store.ClaimBatch(ctx, claimOf("mail", 5))),
			"ack":       second(e.store.AckBatch(ctx, []sqlstore.Handle{h})),
			"heartbeat": second(e.store.Heartbeat(ctx, []sqlstore.Extension{{Handle: h}})),
			"retry":     second(e.store.Retry(ctx, []sqlstore.Retrial{{Handle: h}})),
			"fail":      second(e.store.Fail(ctx, []sqlstore.Failing{{Handle: h}})),
			"release":   second(e.store.Release(ctx, []sqlstore.Releasing{{Handle: h}})),
			"cancel":    second(e.store.Cancel(ctx, []int64{h.ID})),
			"requeue":   second(e.store.Requeue(ctx, []int64{dead})),
			"purge":     second(e.store.Purge(ctx, []int64{dead})),
			"sweep":     second(e.store.SweepExpired(ctx, "mail", expiredText)),
		} {
			if !errors.Is(err, context.Canceled) {
				e.Errorf("%s: got %v, want context.Canceled", what, err)
			}
		}
	})
	same(e, "ack afterwards", e.ack(h), []bool{true})
}
