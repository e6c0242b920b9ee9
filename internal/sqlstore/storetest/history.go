package storetest

import (
	"fmt"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

func historyRules() []rule {
	return []rule{
		{name: "H10_every_failed_attempt_is_kept", test: everyFailure},
		{name: "H10_the_newest_ten_are_kept", test: newestTen},
		{name: "H10_the_history_outlives_death_and_requeue", test: historyOutlives},
		{name: "H10_histories_of_a_batch_are_kept_apart", test: historiesApart},
		{name: "H10_only_get_reads_the_history", test: onlyGetReads},
	}
}

func everyFailure(e *env) {
	j := newJob("mail")
	j.Stamps.MaxAttempts = 6
	id := e.enqueueOne(j)
	var want []sqlstore.Failure
	failed := func(attempt int64, text, stack string) {
		want = append(want, sqlstore.Failure{Attempt: attempt, At: e.now(), Error: text, Stack: stack})
		same(e, "history", e.get(id).Failures, want)
	}
	h := handle(e.claimOne("mail"))
	e.advance(2)
	e.retry(sqlstore.Retrial{Handle: h, Error: "one", Stack: "panic"})
	failed(1, "one", "panic")
	e.release(handle(e.claimOne("mail"))) // no failure
	e.claimOne("mail")
	e.advance(visibility + 5)
	h = handle(e.claimOne("mail")) // found lapsed
	failed(2, lapsedText, "")
	e.retry(sqlstore.Retrial{Handle: h, Error: "three"})
	failed(3, "three", "")
	h = handle(e.claimOne("mail"))
	e.advance(1)
	same(e, "fail", e.fail(h), []bool{true})
	failed(4, "boom", "")
}

func newestTen(e *env) {
	j := newJob("mail")
	j.Stamps.MaxAttempts = 40
	id := e.enqueueOne(j)
	var want []sqlstore.Failure
	for i := range int64(25) {
		e.advance(1)
		h := handle(e.claimOne("mail"))
		text := fmt.Sprint("failure ", i)
		if i%5 == 4 {
			e.advance(visibility + 1)
			h = handle(e.claimOne("mail"))
			want = append(want, sqlstore.Failure{Attempt: e.get(id).Attempts - 1, At: e.now(), Error: lapsedText})
		}
		attempt := e.get(id).Attempts
		e.retry(sqlstore.Retrial{Handle: h, Error: text})
		want = append(want, sqlstore.Failure{Attempt: attempt, At: e.now(), Error: text})
		want = want[max(0, len(want)-sqlstore.MaxFailures):]
		same(e, "history", e.get(id).Failures, want)
	}
}

func historyOutlives(e *env) {
	j := newJob("mail")
	j.Stamps.MaxAttempts = 2
	id := e.enqueueOne(j)
	var want []sqlstore.Failure
	for life := range 3 {
		for attempt := range int64(2) {
			text := fmt.Sprint("life ", life, " attempt ", attempt)
			e.retry(sqlstore.Retrial{Handle: handle(e.claimOne("mail")), Error: text, DeadText: deadText})
			want = append(want, sqlstore.Failure{Attempt: attempt + 1, At: e.now(), Error: text})
			e.advance(1)
		}
		e.states(sqlstore.Dead, id)
		same(e, "history of the dead job", e.get(id).Failures, want)
		same(e, "requeue", e.requeue(id), []bool{true})
		same(e, "history of the requeued job", e.get(id).Failures, want)
	}
}

func historiesApart(e *env) {
	ids := e.enqueue(jobs(5, newJob("mail"))...)
	for round := range int64(12) {
		var retries []sqlstore.Retrial
		for _, r := range e.claim("mail", 5) {
			retries = append(retries, sqlstore.Retrial{Handle: handle(r), Error: fmt.Sprint(r.ID, " ", round)})
		}
		e.retry(retries...)
		if round%4 == 3 {
			for _, id := range ids {
				e.states(sqlstore.Dead, id)
			}
			e.requeue(ids...)
		}
	}
	for _, id := range ids {
		var got, want []string
		for i, f := range e.get(id).Failures {
			got = append(got, f.Error)
			want = append(want, fmt.Sprint(id, " ", i+2))
		}
		same(e, "number of failures", len(got), sqlstore.MaxFailures)
		same(e, "history", got, want)
	}
}

func onlyGetReads(e *env) {
	id := e.enqueueOne(newJob("mail"))
	e.retry(sqlstore.Retrial{Handle: handle(e.claimOne("mail")), Error: "one"})
	page, err := e.store.ListJobs(e.Context(), sqlstore.Filter{Limit: 1})
	e.ok(err)
	same(e, "failures in a list", len(page[0].Failures), 0)
	same(e, "failures of a claimed row", len(e.claimOne("mail").Failures), 0)
	same(e, "failures of a read job", len(e.get(id).Failures), 1)
}
