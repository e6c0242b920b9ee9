package storetest

import (
	"context"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// The texts that the engine would hand in.
const (
	exhaustedText = "max attempts exceeded"
	lapsedText    = "lease lapsed"
	expiredText   = "expired"
	deadText      = "out of attempts"
)

// visibility is the visibility timeout of newJob, in seconds.
const visibility = 30

// env is one test: a store with its books, and short names for calls that must not fail.
type env struct {
	*testing.T
	h     Harness
	books *books
	store sqlstore.Store
	// others are the further handles that handles has opened.
	others []sqlstore.Store
	// closed is set when the store is closed, or is about to be: there is nothing to audit then.
	closed bool
}

func newEnv(t *testing.T, h Harness) *env {
	e := &env{T: t, h: h, books: newBooks()}
	e.use(h.Store)
	return e
}

// use makes a store that was just opened the one of the test.
func (e *env) use(s sqlstore.Store) {
	e.store = booked{s, e.books}
	e.Cleanup(func() { // before the harness closes the store, since that was registered earlier
		if !e.closed && !e.Failed() {
			e.books.audit(e.T, present(e.T, e.store))
		}
		e.closed = true
	})
}

// handles returns n handles on the one database: independent ones where there can be, else n times the same.
func (e *env) handles(n int) []sqlstore.Store {
	if e.h.Second == nil {
		return slices.Repeat([]sqlstore.Store{e.store}, n)
	}
	for len(e.others) < n-1 {
		e.others = append(e.others, booked{e.h.Second(e.T), e.books})
	}
	return append([]sqlstore.Store{e.store}, e.others[:n-1]...)
}

// reopen closes the store and goes on with a new handle on its database.
func (e *env) reopen() {
	e.Helper()
	next := e.h.Second(e.T)
	e.ok(e.store.Close())
	e.use(next)
}

func (e *env) ok(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

func (e *env) now() int64 { return e.h.Clock.Now() }

func (e *env) advance(seconds int64) { e.h.Clock.Set(e.now() + seconds) }

// same fails the test unless got is want.
func same[T any](e *env, what string, got, want T) {
	e.Helper()
	if d := diff(want, got); d != "" {
		e.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

// diff is cmp.Diff, which walks through payloads byte by byte, for values that differ.
func diff(want, got any) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	return cmp.Diff(want, got)
}

// newJob is a job that is ready at once, never expires, and has four stamps that cannot be mistaken for one another.
func newJob(queue string) sqlstore.NewJob {
	return sqlstore.NewJob{
		Queue:   queue,
		Payload: []byte("payload of " + queue),
		Stamps: sqlstore.Stamps{
			VisibilityTimeoutS:   visibility,
			MaxAttempts:          4,
			BackoffBaseS:         7,
			DeadLetterRetentionS: new(int64(1000)),
		},
	}
}

// oneShot is a job with a single attempt.
func oneShot(queue string) sqlstore.NewJob {
	j := newJob(queue)
	j.Stamps.MaxAttempts = 1
	return j
}

// jobs is n times the same job.
func jobs(n int, j sqlstore.NewJob) []sqlstore.NewJob { return slices.Repeat([]sqlstore.NewJob{j}, n) }

func (e *env) enqueue(jobs ...sqlstore.NewJob) []int64 {
	e.Helper()
	ids, err := e.store.Enqueue(e.Context(), jobs)
	e.ok(err)
	if len(ids) != len(jobs) {
		e.Fatalf("Enqueue of %d jobs: got %d ids", len(jobs), len(ids))
	}
	return ids
}

func (e *env) enqueueOne(j sqlstore.NewJob) int64 {
	e.Helper()
	return e.enqueue(j)[0]
}

func claimOf(queue string, limit int64) sqlstore.Claim {
	return sqlstore.Claim{
		Queue: queue, Claimant: "worker", Limit: limit, ExhaustedText: exhaustedText, LapsedText: lapsedText,
	}
}

func (e *env) claim(queue string, limit int64) []sqlstore.Row {
	e.Helper()
	rows, err := e.store.ClaimBatch(e.Context(), claimOf(queue, limit))
	e.ok(err)
	return rows
}

// claimOne claims the one job that is there to claim.
func (e *env) claimOne(queue string) sqlstore.Row {
	e.Helper()
	rows := e.claim(queue, 2)
	if len(rows) != 1 {
		e.Fatalf("claim from %q: got %d jobs, want 1: %+v", queue, len(rows), rows)
	}
	return rows[0]
}

// hold enqueues a job and claims it.
func (e *env) hold(j sqlstore.NewJob) (sqlstore.Row, sqlstore.Handle) {
	e.Helper()
	e.enqueue(j)
	r := e.claimOne(j.Queue)
	return r, handle(r)
}

// buryOne makes a job that is dead since now.
func (e *env) buryOne(j sqlstore.NewJob) int64 {
	e.Helper()
	_, h := e.hold(j)
	same(e, "fail", e.fail(h), []bool{true})
	return h.ID
}

func handle(r sqlstore.Row) sqlstore.Handle { return sqlstore.Handle{ID: r.ID, Fence: r.Fence} }

func rowIDs(rows []sqlstore.Row) []int64 {
	ids := []int64{}
	for _, r := range rows {
		ids = append(ids, r.ID)
	}
	return ids
}

func (e *env) ack(handles ...sqlstore.Handle) []bool {
	e.Helper()
	answers, err := e.store.AckBatch(e.Context(), handles)
	e.ok(err)
	return answers
}

func (e *env) heartbeat(handles ...sqlstore.Handle) []bool {
	e.Helper()
	var extensions []sqlstore.Extension
	for _, h := range handles {
		extensions = append(extensions, sqlstore.Extension{Handle: h})
	}
	answers, err := e.store.Heartbeat(e.Context(), extensions)
	e.ok(err)
	return answers
}

func (e *env) retry(retries ...sqlstore.Retrial) []sqlstore.Verdict {
	e.Helper()
	verdicts, err := e.store.Retry(e.Context(), retries)
	e.ok(err)
	return verdicts
}

func (e *env) fail(handles ...sqlstore.Handle) []bool {
	e.Helper()
	var failures []sqlstore.Failing
	for _, h := range handles {
		failures = append(failures, sqlstore.Failing{Handle: h, Error: "boom"})
	}
	answers, err := e.store.Fail(e.Context(), failures)
	e.ok(err)
	return answers
}

func (e *env) release(handles ...sqlstore.Handle) []bool {
	e.Helper()
	var releases []sqlstore.Releasing
	for _, h := range handles {
		releases = append(releases, sqlstore.Releasing{Handle: h})
	}
	answers, err := e.store.Release(e.Context(), releases)
	e.ok(err)
	return answers
}

func (e *env) cancel(ids ...int64) []bool {
	e.Helper()
	answers, err := e.store.Cancel(e.Context(), ids)
	e.ok(err)
	return answers
}

func (e *env) requeue(ids ...int64) []bool {
	e.Helper()
	answers, err := e.store.Requeue(e.Context(), ids)
	e.ok(err)
	return answers
}

func (e *env) purge(ids ...int64) []bool {
	e.Helper()
	answers, err := e.store.Purge(e.Context(), ids)
	e.ok(err)
	return answers
}

func (e *env) sweep(queue string) sqlstore.Swept {
	e.Helper()
	swept, err := e.store.SweepExpired(e.Context(), queue, expiredText)
	e.ok(err)
	return swept
}

// get returns a job that must be there.
func (e *env) get(id int64) sqlstore.Row {
	e.Helper()
	r, err := e.store.GetJob(e.Context(), id)
	e.ok(err)
	if r == nil {
		e.Fatalf("job %d is not there", id)
	}
	return *r
}

// gone fails the test if one of the jobs is there.
func (e *env) gone(ids ...int64) {
	e.Helper()
	for _, id := range ids {
		if r, err := e.store.GetJob(e.Context(), id); err != nil || r != nil {
			e.Fatalf("job %d: got %+v, %v, want none", id, r, err)
		}
	}
}

// states fails the test unless each of the jobs is in the state.
func (e *env) states(want sqlstore.State, ids ...int64) {
	e.Helper()
	for _, id := range ids {
		if got := e.get(id).State; got != want {
			e.Fatalf("state of job %d: got %s, want %s", id, got, want)
		}
	}
}

// everything is all jobs as GetJob shows them, by id.
func (e *env) everything() map[int64]sqlstore.Row {
	e.Helper()
	rows := make(map[int64]sqlstore.Row)
	for _, r := range listAll(e.T, e.store) {
		rows[r.ID] = e.get(r.ID)
	}
	return rows
}

// unchanged fails the test if do leaves any job different from before.
func (e *env) unchanged(what string, do func()) {
	e.Helper()
	before := e.everything()
	do()
	same(e, "jobs after "+what, e.everything(), before)
}

// begin starts a transaction of the caller whose end goes into the books.
func (e *env) begin() Tx {
	tx := e.h.Begin(e.T)
	commit, rollback := tx.Commit, tx.Rollback
	ended := false
	tx.Commit = func() error {
		err := commit()
		ended = true
		e.books.settle(tx.Tx, err == nil)
		return err
	}
	tx.Rollback = func() error {
		if !ended {
			e.books.settle(tx.Tx, false)
		}
		ended = true
		return rollback()
	}
	e.Cleanup(func() {
		if !ended {
			_ = rollback()
		}
	})
	return tx
}

// cancelled is a context that has ended already.
func (e *env) cancelled() context.Context {
	ctx, cancel := context.WithCancel(e.Context())
	cancel()
	return ctx
}
