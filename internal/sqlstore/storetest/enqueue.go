package storetest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

func enqueueRules() []rule {
	return []rule{
		{name: "E1_a_new_job_is_pending_with_zero_attempts", test: newJobIsPending},
		{name: "E1_an_id_is_never_used_again", test: idsAreNeverReused},
		{name: "E1_an_id_is_never_used_again_after_reopening", test: idsSurviveReopening, needs: hasSecond},
		{name: "E2_stamps_never_change", test: stampsNeverChange},
		{name: "E3_ready_time", test: readyTime},
		{name: "E4_expiry_counts_from_enqueue_whatever_the_delay", test: expiryFromEnqueue},
		{name: "E4_no_expiry_means_never", test: noExpiry},
		{name: "E4_ready_after_expiry_is_refused", test: readyAfterExpiry},
		{name: "E5_a_job_exists_exactly_if_the_callers_transaction_commits", test: enqueueTx, needs: hasTx},
		{name: "E5_a_refused_call_leaves_the_callers_transaction_usable", test: enqueueTxRefused, needs: hasTx},
		{name: "E5_an_unknown_transaction_is_refused", test: unknownTx},
		{name: "E6_many_jobs_keep_their_order", test: manyJobs},
		{name: "E6_many_jobs_are_all_or_none", test: allOrNone},
		{name: "E8_queue_names_are_kept_apart", test: queueNames},
		{name: "E6_jobs_are_stored_as_given_however_many_at_once", test: enqueuedAlike},
	}
}

func newJobIsPending(e *env) {
	j := newJob("mail")
	j.Priority = -3
	j.DelayS = 20
	j.ExpiresS = new(int64(60))
	id := e.enqueueOne(j)
	same(e, "new job", e.get(id), sqlstore.Row{
		ID: id, Queue: "mail", State: sqlstore.Pending, Payload: j.Payload, PayloadSize: int64(len(j.Payload)),
		Priority: -3, Stamps: j.Stamps, CreatedAt: e.now(), RunAt: e.now() + 20, ExpiresAt: new(e.now() + 60),
	})
	if id < 1 {
		e.Errorf("id: got %d, want at least 1", id)
	}
}

func idsAreNeverReused(e *env) {
	last := int64(0)
	next := func(how string, remove func(id int64)) {
		id := e.enqueueOne(newJob("mail"))
		if id <= last {
			e.Fatalf("id after the newest job went by %s: got %d, want more than %d", how, id, last)
		}
		last = id
		remove(id) // the table is empty again
	}
	claimed := func(int64) sqlstore.Handle { return handle(e.claimOne("mail")) }
	next("nothing", func(id int64) { same(e, "ack", e.ack(claimed(id)), []bool{true}) })
	next("ack", func(id int64) { same(e, "cancel", e.cancel(id), []bool{true}) })
	next("cancel", func(id int64) {
		same(e, "fail", e.fail(claimed(id)), []bool{true})
		same(e, "purge", e.purge(id), []bool{true})
	})
	next("purge", func(id int64) {
		same(e, "fail", e.fail(claimed(id)), []bool{true})
		e.advance(1001)
		same(e, "sweep", e.sweep("mail"), sqlstore.Swept{Dropped: 1})
	})
	next("retention", func(id int64) { same(e, "fail", e.fail(claimed(id)), []bool{true}) })
	next("death", func(id int64) { e.cancel(id) })
}

func idsSurviveReopening(e *env) {
	first := e.enqueueOne(newJob("mail"))
	same(e, "cancel", e.cancel(first), []bool{true})
	e.reopen()
	if id := e.enqueueOne(newJob("mail")); id <= first {
		e.Fatalf("id after reopening: got %d, want more than %d", id, first)
	}
}

func stampsNeverChange(e *env) {
	for i, retention := range []*int64{new(int64(100_000)), nil} {
		queue := fmt.Sprint("q", i)
		j := newJob(queue)
		j.Stamps = sqlstore.Stamps{
			VisibilityTimeoutS: 11, MaxAttempts: 6, BackoffBaseS: 13, DeadLetterRetentionS: retention,
		}
		id := e.enqueueOne(j)
		check := func(after string) {
			e.Helper()
			same(e, "stamps after "+after, e.get(id).Stamps, j.Stamps)
		}
		check("enqueue")
		claim := func() sqlstore.Handle {
			r := e.claimOne(queue)
			same(e, "stamps of the claimed row", r.Stamps, j.Stamps)
			return handle(r)
		}
		h := claim()
		check("claim")
		e.heartbeat(h)
		check("heartbeat")
		e.retry(sqlstore.Retrial{Handle: h})
		check("retry")
		e.release(claim())
		check("release")
		claim()
		e.advance(12)
		h = claim()
		check("reclaim")
		e.fail(h)
		check("death by fail")
		e.requeue(id)
		check("requeue")
		for range 6 {
			e.retry(sqlstore.Retrial{Handle: claim()})
		}
		e.states(sqlstore.Dead, id)
		check("death by retry")
		n, err := e.store.RequeueMatching(e.Context(), sqlstore.DeadFilter{Queue: queue}, 10)
		e.ok(err)
		same(e, "requeued", n, 1)
		check("requeue by filter")
		for range 6 {
			claim()
			e.advance(12)
		}
		same(e, "jobs handed out", len(e.claim(queue, 1)), 0)
		e.states(sqlstore.Dead, id)
		check("death by exhaustion")
	}
}

func readyTime(e *env) {
	now := e.now()
	for _, c := range []struct {
		name  string
		runAt *int64
		delay int64
		want  int64
	}{
		{"neither", nil, 0, now},
		{"delay", nil, 90, now + 90},
		{"run-at", new(now + 45), 0, now + 45},
		{"run-at in the past", new(now - 45), 0, now - 45},
		{"run-at in the year 1", new(int64(-62_135_596_800)), 0, -62_135_596_800},
		{"run-at in the year 9999", new(int64(253_402_300_799)), 0, 253_402_300_799},
		{"run-at zero", new(int64(0)), 0, 0},
	} {
		j := newJob("mail")
		j.RunAt, j.DelayS = c.runAt, c.delay
		same(e, "ready time with "+c.name, e.get(e.enqueueOne(j)).RunAt, c.want)
	}
	same(e, "ready jobs", len(e.claim("mail", 10)), 4)
}

func expiryFromEnqueue(e *env) {
	j := newJob("mail")
	j.DelayS, j.ExpiresS = 50, new(int64(60))
	same(e, "expiry", *e.get(e.enqueueOne(j)).ExpiresAt, e.now()+60)
	j.DelayS, j.RunAt = 0, new(e.now()+55)
	same(e, "expiry with a run-at", *e.get(e.enqueueOne(j)).ExpiresAt, e.now()+60)
}

func noExpiry(e *env) {
	id := e.enqueueOne(newJob("mail"))
	e.h.Clock.Set(253_402_300_000)
	same(e, "sweep", e.sweep("mail"), sqlstore.Swept{})
	same(e, "claimed", e.claimOne("mail").ID, id)
}

func readyAfterExpiry(e *env) {
	late := newJob("mail")
	late.ExpiresS = new(int64(60))
	late.DelayS = 61
	byRunAt := late
	byRunAt.DelayS, byRunAt.RunAt = 0, new(e.now()+61)
	never := newJob("mail")
	never.ExpiresS = new(int64(-1))
	for _, j := range []sqlstore.NewJob{late, byRunAt, never} {
		_, err := e.store.Enqueue(e.Context(), []sqlstore.NewJob{j})
		typed, ok := errors.AsType[*sqlstore.Error](err)
		if !errors.Is(err, sqlstore.ErrExpiresFirst) || !ok || typed.Queue != "mail" {
			e.Errorf("Enqueue of a job that expires first: got %v, want ErrExpiresFirst with its queue", err)
		}
	}
	same(e, "jobs", len(e.everything()), 0)
	last := late
	last.DelayS = 60 // the last second in which it may run
	id := e.enqueueOne(last)
	e.advance(60)
	same(e, "claimed at the second of its expiry", e.claimOne("mail").ID, id)
}

func enqueueTx(e *env) {
	tx := e.begin()
	j := newJob("mail")
	j.Priority, j.DelayS, j.ExpiresS = 7, 3, new(int64(60))
	ids, err := e.store.EnqueueTx(e.Context(), tx.Tx, []sqlstore.NewJob{j, newJob("other")})
	e.ok(err)
	same(e, "ids", len(ids), 2)
	e.gone(ids...) // not before the commit
	e.ok(tx.Commit())
	same(e, "job after the commit", e.get(ids[0]), sqlstore.Row{
		ID: ids[0], Queue: "mail", State: sqlstore.Pending, Payload: j.Payload, PayloadSize: int64(len(j.Payload)),
		Priority: 7, Stamps: j.Stamps, CreatedAt: e.now(), RunAt: e.now() + 3, ExpiresAt: new(e.now() + 60),
	})
	e.states(sqlstore.Pending, ids[1])

	tx = e.begin()
	ids, err = e.store.EnqueueTx(e.Context(), tx.Tx, jobs(2, j))
	e.ok(err)
	e.ok(tx.Rollback())
	e.gone(ids...)
}

func enqueueTxRefused(e *env) {
	tx := e.begin()
	ids, err := e.store.EnqueueTx(e.Context(), tx.Tx, jobs(1, newJob("mail")))
	e.ok(err)
	never := newJob("mail")
	never.ExpiresS = new(int64(-1))
	_, err = e.store.EnqueueTx(e.Context(), tx.Tx, []sqlstore.NewJob{newJob("mail"), never})
	if !errors.Is(err, sqlstore.ErrExpiresFirst) {
		e.Errorf("EnqueueTx: got %v, want ErrExpiresFirst", err)
	}
	e.ok(tx.Commit())
	e.states(sqlstore.Pending, ids...)
	same(e, "jobs", len(e.everything()), 1)
}

func unknownTx(e *env) {
	for _, tx := range []sqlstore.Tx{nil, struct{}{}, 42} {
		_, err := e.store.EnqueueTx(e.Context(), tx, jobs(1, newJob("mail")))
		typed, ok := errors.AsType[*sqlstore.Error](err)
		if !errors.Is(err, sqlstore.ErrUnsupported) || !ok || typed.Queue != "mail" {
			e.Errorf("EnqueueTx in a %T: got %v, want ErrUnsupported with the queue", tx, err)
		}
		_, err = e.store.AckBatchTx(e.Context(), tx, []sqlstore.Handle{{ID: 5, Fence: 1}})
		typed, ok = errors.AsType[*sqlstore.Error](err)
		if !errors.Is(err, sqlstore.ErrUnsupported) || !ok || typed.JobID != 5 {
			e.Errorf("AckBatchTx in a %T: got %v, want ErrUnsupported with the job", tx, err)
		}
	}
}

func manyJobs(e *env) {
	const n = 2_000
	many := make([]sqlstore.NewJob, n)
	for i := range many {
		many[i] = newJob(fmt.Sprint("q", i%3))
		many[i].Payload = fmt.Append(nil, "number ", i)
	}
	ids := e.enqueue(many...)
	for i, id := range ids {
		if i > 0 && id <= ids[i-1] {
			e.Fatalf("ids are not in order: %d after %d", id, ids[i-1])
		}
	}
	byID := make(map[int64]sqlstore.Row)
	for _, r := range listAll(e.T, e.store) {
		byID[r.ID] = r
	}
	same(e, "jobs", len(byID), n)
	for i, id := range ids {
		got := fmt.Sprint(byID[id].Queue, " ", string(byID[id].Payload))
		if want := fmt.Sprint("q", i%3, " number ", i); got != want {
			e.Fatalf("job %d of the call: got %q, want %q", i, got, want)
		}
	}
}

func allOrNone(e *env) {
	before := e.enqueueOne(newJob("mail"))
	never := newJob("late")
	never.ExpiresS = new(int64(-1))
	for _, at := range []int{0, 50, 99} {
		batch := jobs(100, newJob("mail"))
		batch[at] = never
		_, err := e.store.Enqueue(e.Context(), batch)
		if !errors.Is(err, sqlstore.ErrExpiresFirst) {
			e.Errorf("bad job at %d: got %v, want ErrExpiresFirst", at, err)
		}
		if typed, ok := errors.AsType[*sqlstore.Error](err); !ok || typed.Queue != "late" {
			e.Errorf("bad job at %d: got %v, want the queue of that job", at, err)
		}
	}
	same(e, "jobs", len(e.everything()), 1)
	e.states(sqlstore.Pending, before)
}

// oddNames are names and texts that a careless statement would stumble over.
func oddNames() []string {
	return []string{
		"a", "A", " a", "a ", "a b", `it's`, `"quoted"`, "back`tick", `back\slash`, "'; DROP TABLE __alkstore_live; --",
		"%", "_", "a%", "?1", ":queue", "$1", "{}", "[1,2]", "null", "0", "1e3", "line\nbreak", "tab\there", "é", "e\u0301",
		"🦊🐙", "日本語", "\u202eright to left", "\ufeffbom", strings.Repeat("x", 128), strings.Repeat("é", 64),
	}
}

func queueNames(e *env) {
	ids := make(map[string]int64)
	for _, q := range oddNames() {
		ids[q] = e.enqueueOne(newJob(q))
	}
	for q, id := range ids {
		r := e.claimOne(q)
		if r.ID != id || r.Queue != q {
			e.Errorf("claim from %q: got job %d of %q, want job %d", q, r.ID, r.Queue, id)
		}
		same(e, "fail", e.fail(handle(r)), []bool{true})
		page, err := e.store.ListJobs(e.Context(), sqlstore.Filter{Queue: q, Limit: 10})
		e.ok(err)
		same(e, fmt.Sprintf("list of %q", q), rowIDs(page), []int64{id})
		n, err := e.store.RequeueMatching(e.Context(), sqlstore.DeadFilter{Queue: q}, 10)
		e.ok(err)
		same(e, fmt.Sprintf("requeued of %q", q), n, 1)
	}
	queues, err := e.store.Queues(e.Context())
	e.ok(err)
	same(e, "queues", len(queues), len(ids))
	_, next, err := e.store.NextReady(e.Context(), oddNames())
	e.ok(err)
	same(e, "queues with work", len(next), len(ids))
}

// enqueuedAlike: a store may have statements of their own for many jobs in a call, for lone ones, and for one lone job after
// another.
func enqueuedAlike(e *env) {
	for _, expires := range []*int64{nil, new(int64(900))} {
		j := newJob("mail")
		j.Payload, j.Priority, j.DelayS, j.ExpiresS = []byte{0, 255}, 3, 20, expires
		j.Stamps = sqlstore.Stamps{
			VisibilityTimeoutS: 77, MaxAttempts: 9, BackoffBaseS: 8, DeadLetterRetentionS: new(int64(901)),
		}
		want := sqlstore.Row{
			Queue: "mail", State: sqlstore.Pending, Payload: j.Payload, PayloadSize: 2, Priority: 3, Stamps: j.Stamps,
			CreatedAt: e.now(), RunAt: e.now() + 20,
		}
		if expires != nil {
			want.ExpiresAt = new(e.now() + *expires)
		}
		ids := e.enqueue(jobs(30, j)...)
		for range 60 {
			ids = append(ids, e.enqueueOne(j))
		}
		ids = append(ids, e.enqueue(j, j)...)
		for _, id := range ids {
			want.ID = id
			same(e, "stored job", e.get(id), want)
		}
	}
}
