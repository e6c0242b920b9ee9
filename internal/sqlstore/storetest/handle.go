package storetest

import (
	"strings"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

func handleRules() []rule {
	return []rule{
		{name: "H2_ack_deletes_the_job", test: ackDeletes},
		{name: "H2_ack_of_many_says_which_of_them_held", test: ackMany},
		{name: "H2_ack_of_neighbours_and_of_jobs_that_are_scattered", test: ackScattered},
		{name: "H2_ack_is_part_of_the_callers_transaction", test: ackTx, needs: hasTx},
		{name: "H2_ack_in_a_transaction_is_refused_without_the_claim", test: ackTxRefused, needs: hasTx},
		{name: "H3_heartbeat_moves_the_deadline_and_nothing_else", test: heartbeatMoves},
		{name: "H3_heartbeat_by_a_given_extension", test: heartbeatExtension},
		{name: "H3_of_two_extensions_of_one_claim_the_last_counts", test: heartbeatTwice},
		{name: "H4_of_two_retries_of_one_claim_the_first_counts", test: retryTwice},
		{name: "H4_retry_with_attempts_left_is_pending_again", test: retryPending},
		{name: "H4_retry_with_none_left_goes_to_dead_letters", test: retryBuried},
		{name: "H4_a_batch_of_both_kinds", test: retryBoth},
		{name: "H5_fail_goes_to_dead_letters_at_once", test: failBuries},
		{name: "H6_release_gives_the_attempt_back", test: releaseGivesBack},
		{name: "K41_release_any_number_of_times", test: releaseOften},
		{name: "H7_error_texts_are_kept_as_given", test: errorTexts},
	}
}

func ackDeletes(e *env) {
	_, h := e.hold(newJob("mail"))
	kept := e.enqueueOne(newJob("mail"))
	same(e, "ack", e.ack(h), []bool{true})
	e.gone(h.ID)
	same(e, "ack again", e.ack(h), []bool{false})
	same(e, "requeue", e.requeue(h.ID), []bool{false})
	e.states(sqlstore.Pending, kept)
}

// ackScattered acks claims of one fence, as most are, which a store may end without a look at each.
func ackScattered(e *env) {
	for _, step := range []int{1, 3} {
		hold := func(edit func(j *sqlstore.NewJob)) []sqlstore.Handle {
			e.Helper()
			batch := jobs(5*step, newJob("mail"))
			edit(&batch[2*step])
			e.enqueue(batch...)
			var handles []sqlstore.Handle
			for i, r := range e.claim("mail", 100) {
				if i%step == 0 {
					handles = append(handles, handle(r))
				} else {
					same(e, "cancel", e.cancel(r.ID), []bool{true})
				}
			}
			return handles
		}
		all, but := []bool{true, true, true, true, true}, []bool{true, true, false, true, true}

		large := hold(func(j *sqlstore.NewJob) { j.Payload = make([]byte, 100_000) })
		same(e, "ack of what all holds", e.ack(large...), all)

		brief := hold(func(j *sqlstore.NewJob) { j.Stamps.VisibilityTimeoutS = 10 })
		e.advance(11)
		same(e, "ack when one has lapsed", e.ack(brief...), but)
		e.states(sqlstore.Processing, brief[2].ID)
		same(e, "cancel", e.cancel(brief[2].ID), []bool{true})

		taken := hold(func(j *sqlstore.NewJob) { j.Stamps.VisibilityTimeoutS = 10 })
		e.advance(11)
		current := handle(e.claimOne("mail"))
		same(e, "ack when one is somebody else's by now", e.ack(taken...), but)
		same(e, "ack by whose it is", e.ack(current), []bool{true})
	}
}

func ackMany(e *env) {
	e.enqueue(jobs(6, newJob("mail"))...)
	var first, second []sqlstore.Handle
	for i, r := range e.claim("mail", 6) {
		if i%2 == 0 {
			same(e, "release", e.release(handle(r)), []bool{true})
		} else {
			first = append(first, handle(r))
		}
	}
	for _, r := range e.claim("mail", 6) {
		second = append(second, handle(r))
	}
	other := func(h sqlstore.Handle) sqlstore.Handle { h.Fence = 3 - h.Fence; return h }
	// The fence of each is that of another one in the batch.
	same(e, "ack of the fences of others", e.ack(other(first[0]), other(second[0])), []bool{false, false})
	same(e, "ack of one fence, not all held", e.ack(first[0], other(second[0]), first[0]), []bool{true, false, false})
	same(e, "ack of several fences, not all held", e.ack(second[0], other(first[1]), first[1], first[0]), []bool{true, false, true, false})
	same(e, "ack of several fences, all held", e.ack(second[1], first[2]), []bool{true, true})
	e.states(sqlstore.Processing, second[2].ID)
	same(e, "ack of the last one twice", e.ack(second[2], second[2]), []bool{true, false})
	e.gone(first[0].ID, first[1].ID, first[2].ID, second[0].ID, second[1].ID, second[2].ID)
}

func ackTx(e *env) {
	_, h := e.hold(newJob("mail"))
	tx := e.begin()
	answers, err := e.store.AckBatchTx(e.Context(), tx.Tx, []sqlstore.Handle{h})
	e.ok(err)
	same(e, "ack in a transaction", answers, []bool{true})
	e.states(sqlstore.Processing, h.ID) // for everybody else, until the commit
	e.ok(tx.Rollback())
	e.states(sqlstore.Processing, h.ID)

	tx = e.begin()
	next, err := e.store.EnqueueTx(e.Context(), tx.Tx, jobs(1, newJob("next")))
	e.ok(err)
	answers, err = e.store.AckBatchTx(e.Context(), tx.Tx, []sqlstore.Handle{h})
	e.ok(err)
	same(e, "ack in the second transaction", answers, []bool{true})
	e.ok(tx.Commit())
	e.gone(h.ID)
	e.states(sqlstore.Pending, next...)
}

func ackTxRefused(e *env) {
	_, late := e.hold(newJob("mail"))
	e.advance(visibility + 1)
	_, h := e.hold(newJob("other"))
	tx := e.begin()
	e.unchanged("a refused ack", func() {
		answers, err := e.store.AckBatchTx(e.Context(), tx.Tx, []sqlstore.Handle{late, {ID: h.ID, Fence: 7}})
		e.ok(err)
		same(e, "ack", answers, []bool{false, false})
		e.ok(tx.Commit())
	})
}

func heartbeatMoves(e *env) {
	r, h := e.hold(newJob("mail"))
	want := e.get(r.ID)
	e.advance(visibility)
	same(e, "heartbeat", e.heartbeat(h), []bool{true})
	want.ClaimExpiresAt = new(e.now() + visibility)
	same(e, "job", e.get(r.ID), want)
}

func heartbeatExtension(e *env) {
	_, h := e.hold(newJob("mail"))
	_, k := e.hold(newJob("mail"))
	e.advance(10)
	for _, s := range []int64{500, 40, 1, 0} { // longer, shorter, and until the end of this second
		answers, err := e.store.Heartbeat(e.Context(), []sqlstore.Extension{{Handle: h, S: &s}, {Handle: k}})
		e.ok(err)
		same(e, "heartbeat", answers, []bool{true, true})
		same(e, "deadlines",
			[]int64{*e.get(h.ID).ClaimExpiresAt, *e.get(k.ID).ClaimExpiresAt}, []int64{e.now() + s, e.now() + visibility})
	}
	e.advance(1)
	same(e, "heartbeat after an extension of zero", e.heartbeat(h, k), []bool{false, true})
}

func retryPending(e *env) {
	j := newJob("mail")
	j.Priority, j.ExpiresS = 4, new(int64(900))
	id := e.enqueueOne(j)
	want := e.get(id)
	h := handle(e.claimOne("mail"))
	e.advance(3)
	verdicts := e.retry(sqlstore.Retrial{
		Handle: h, DelayS: 40, Error: "no answer", Stack: "main.go:1", DeadText: deadText,
	})
	same(e, "verdict", verdicts, []sqlstore.Verdict{sqlstore.Retrying})
	want.RunAt = e.now() + 40
	want.Attempts, want.Fence = 1, 1
	want.LastError = new("no answer")
	want.Failures = []sqlstore.Failure{{Attempt: 1, At: e.now(), Error: "no answer", Stack: "main.go:1"}}
	same(e, "job", e.get(id), want)
	e.advance(39)
	same(e, "claim before the delay is over", len(e.claim("mail", 1)), 0)
	e.advance(1)
	same(e, "last error while it runs again", *e.claimOne("mail").LastError, "no answer")
}

func retryBuried(e *env) {
	id := e.enqueueOne(oneShot("mail"))
	want := e.claimOne("mail")
	e.advance(3)
	verdicts := e.retry(sqlstore.Retrial{
		Handle: handle(want), DelayS: 40, Error: "no answer", Stack: "main.go:1", DeadText: deadText,
	})
	same(e, "verdict", verdicts, []sqlstore.Verdict{sqlstore.Buried})
	want.State = sqlstore.Dead
	want.Claimant = ""
	want.ClaimExpiresAt = nil
	want.LastError = new(deadText)
	want.DiedAt = new(e.now())
	want.Failures = []sqlstore.Failure{{Attempt: 1, At: e.now(), Error: "no answer", Stack: "main.go:1"}}
	same(e, "job", e.get(id), want)
}

func retryBoth(e *env) {
	a, b, c := newJob("mail"), oneShot("mail"), newJob("mail")
	e.enqueue(a, b, c)
	var retries []sqlstore.Retrial
	for i, r := range e.claim("mail", 3) {
		retries = append(retries, sqlstore.Retrial{
			Handle: handle(r), DelayS: int64(i), Error: strings.Repeat("x", i), DeadText: deadText,
		})
	}
	retries[2].Fence++
	same(e, "verdicts", e.retry(retries...), []sqlstore.Verdict{sqlstore.Retrying, sqlstore.Buried, sqlstore.Refused})
	e.states(sqlstore.Pending, retries[0].ID)
	e.states(sqlstore.Dead, retries[1].ID)
	e.states(sqlstore.Processing, retries[2].ID)
}

func failBuries(e *env) {
	j := newJob("mail")
	j.Priority, j.ExpiresS = 4, new(int64(900))
	id := e.enqueueOne(j)
	want := e.claimOne("mail")
	e.advance(3)
	answers, err := e.store.Fail(e.Context(), []sqlstore.Failing{
		{Handle: handle(want), Error: "bad address", Stack: "main.go:1"},
	})
	e.ok(err)
	same(e, "fail", answers, []bool{true})
	want.State = sqlstore.Dead
	want.Claimant = ""
	want.ClaimExpiresAt = nil
	want.LastError = new("bad address")
	want.DiedAt = new(e.now())
	want.Failures = []sqlstore.Failure{{Attempt: 1, At: e.now(), Error: "bad address", Stack: "main.go:1"}}
	same(e, "job", e.get(id), want)
}

func releaseGivesBack(e *env) {
	id := e.enqueueOne(oneShot("mail"))
	want := e.get(id)
	h := handle(e.claimOne("mail"))
	e.advance(3)
	answers, err := e.store.Release(e.Context(), []sqlstore.Releasing{{Handle: h, DelayS: 15}})
	e.ok(err)
	same(e, "release", answers, []bool{true})
	want.RunAt = e.now() + 15
	want.Fence = 1
	same(e, "job", e.get(id), want)
	e.advance(14)
	same(e, "claim before the delay is over", len(e.claim("mail", 1)), 0)
	e.advance(1)
	r := e.claimOne("mail") // the only attempt is there again
	same(e, "attempts and fence", []int64{r.Attempts, r.Fence}, []int64{1, 2})
}

func releaseOften(e *env) {
	const n = 1_000
	id := e.enqueueOne(oneShot("mail"))
	for range n {
		same(e, "release", e.release(handle(e.claimOne("mail"))), []bool{true})
	}
	r := e.get(id)
	same(e, "attempts and fence", []int64{r.Attempts, r.Fence}, []int64{0, n})
	same(e, "failures", len(r.Failures), 0)
}

func errorTexts(e *env) {
	texts := append(oddNames(), "", strings.Repeat("long ", 13_000), "\x01\x7f", `{"json": "\u0000"}`)
	for _, text := range texts {
		j := newJob("mail")
		j.Stamps.MaxAttempts = 2
		_, h := e.hold(j)
		e.retry(sqlstore.Retrial{Handle: h, Error: text, Stack: text})
		same(e, "last error of a retried job", e.get(h.ID).LastError, &text)
		e.retry(sqlstore.Retrial{Handle: handle(e.claimOne("mail")), Error: "x", DeadText: text})
		same(e, "last error of an exhausted job", e.get(h.ID).LastError, &text)
		same(e, "history", e.get(h.ID).Failures[0],
			sqlstore.Failure{Attempt: 1, At: e.now(), Error: text, Stack: text})
		_, h = e.hold(j)
		answers, err := e.store.Fail(e.Context(), []sqlstore.Failing{{Handle: h, Error: text, Stack: text}})
		e.ok(err)
		same(e, "fail", answers, []bool{true})
		same(e, "last error of a failed job", e.get(h.ID).LastError, &text)
	}
}

func heartbeatTwice(e *env) {
	for _, seconds := range [][2]int64{{100, 200}, {200, 100}} {
		_, h := e.hold(newJob("mail"))
		answers, err := e.store.Heartbeat(e.Context(), []sqlstore.Extension{
			{Handle: h, S: &seconds[0]}, {Handle: h, S: &seconds[1]},
		})
		e.ok(err)
		same(e, "heartbeat", answers, []bool{true, true})
		same(e, "deadline", *e.get(h.ID).ClaimExpiresAt, e.now()+seconds[1])
	}
}

func retryTwice(e *env) {
	for _, seconds := range [][2]int64{{100, 200}, {200, 100}} {
		_, h := e.hold(newJob("mail"))
		verdicts := e.retry(sqlstore.Retrial{Handle: h, DelayS: seconds[0]}, sqlstore.Retrial{Handle: h, DelayS: seconds[1]})
		same(e, "retry", verdicts, []sqlstore.Verdict{sqlstore.Retrying, sqlstore.Refused})
		same(e, "ready at", e.get(h.ID).RunAt, e.now()+seconds[0])
	}
}
