package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"math"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// spillOver is the payload size in bytes above which a payload leaves the row. SQLite writes a row as a whole when any
// part of it changes size, so every claim of a large row would write the payload once more.
const spillOver = 1024

// Enqueue implements [sqlstore.Jobs].
func (s *Store) Enqueue(ctx context.Context, jobs []sqlstore.NewJob) (ids []int64, err error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	c := &call{ctx: ctx, size: len(jobs), jobs: jobs}
	err = s.write.do(c, ordinary)
	ids = c.ids
	return unlessFailed(ids, fail("enqueue to", only(jobs), 0, err))
}

// EnqueueTx implements [sqlstore.Jobs].
func (s *Store) EnqueueTx(ctx context.Context, callers sqlstore.Tx, jobs []sqlstore.NewJob) (ids []int64, err error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	err = s.inside(ctx, callers, func(ctx context.Context, t *tx) error {
		ids, err = t.enqueue(ctx, jobs)
		return err
	})
	return unlessFailed(ids, fail("enqueue to", only(jobs), 0, err))
}

// only is the queue of jobs if all have the same.
func only(jobs []sqlstore.NewJob) string {
	for _, j := range jobs {
		if j.Queue != jobs[0].Queue {
			return ""
		}
	}
	return jobs[0].Queue
}

func unlessFailed[T any](v []T, err error) ([]T, error) {
	if err != nil {
		return nil, err
	}
	return v, nil
}

// fired says which schedule fired a job, for which boundary. The zero value is none.
type fired struct {
	schedule string
	boundary int64
}

// mold is what jobs may have in common, which is all but the payload.
type mold struct {
	queue                        string
	priority, runAt              int64 // the latter from now on if the transaction is timeless
	expiresAt, retention         sql.NullInt64
	visibility, budget, backoffS int64
	spills                       bool // the payload has a row of its own
	fired
}

func (t *tx) mold(j *sqlstore.NewJob) (mold, error) {
	m := mold{
		queue: j.Queue, priority: j.Priority, runAt: t.now + j.DelayS, retention: optional(j.Stamps.DeadLetterRetentionS),
		visibility: j.Stamps.VisibilityTimeoutS, budget: j.Stamps.MaxAttempts, backoffS: j.Stamps.BackoffBaseS,
		spills: len(j.Payload) > spillOver,
	}
	if j.RunAt != nil {
		m.runAt = *j.RunAt
	}
	if j.ExpiresS != nil {
		m.expiresAt = sql.NullInt64{Int64: t.now + *j.ExpiresS, Valid: true}
		if m.runAt > m.expiresAt.Int64 {
			return m, &sqlstore.Error{Op: "enqueue to", Queue: j.Queue, Err: sqlstore.ErrExpiresFirst}
		}
	}
	return m, nil
}

// statementBytes bounds the payloads of one statement, far below what SQLite takes for one value.
const statementBytes = 64 << 20

// enqueue inserts jobs, each run of those that have a mold in common by one statement.
func (t *tx) enqueue(ctx context.Context, jobs []sqlstore.NewJob) ([]int64, error) {
	if err := t.giveBack(ctx); err != nil {
		return nil, err
	}
	ids := make([]int64, 0, len(jobs))
	for len(jobs) > 0 {
		m, n, err := t.together(jobs)
		if err != nil {
			return nil, err
		}
		last, err := t.cast(ctx, m, jobs[:n])
		if err != nil {
			return nil, err
		}
		first := last - int64(n) + 1
		for i := range int64(n) {
			ids = append(ids, first+i)
		}
		t.wake(m.queue)
		jobs = jobs[n:]
	}
	return ids, nil
}

// together is the mold of the first jobs, and how many of them one statement can insert.
func (t *tx) together(jobs []sqlstore.NewJob) (m mold, n int, err error) {
	m, err = t.mold(&jobs[0])
	size := len(jobs[0].Payload)
	for n = 1; err == nil && n < len(jobs) && !m.spills; n++ {
		var next mold
		if next, err = t.mold(&jobs[n]); err != nil || next != m {
			break
		}
		if size += len(jobs[n].Payload); size > statementBytes {
			break
		}
	}
	return m, n, err
}

// cast inserts jobs of one mold, or one that spills or is fired, and returns the last id.
func (t *tx) cast(ctx context.Context, m mold, jobs []sqlstore.NewJob) (last int64, err error) {
	args := t.common(&m)
	statement := "enqueue_many"
	if len(jobs) == 1 { // far cheaper without the table function
		statement = "enqueue"
		args = append(args, forOne(&m, &jobs[0])...)
	} else {
		payloads, places := lineUp(jobs)
		args = append(args, sql.Named("payloads", payloads), sql.Named("places", jsonOf(places)))
	}
	res, err := t.exec(ctx, statement, args...)
	if err != nil {
		return 0, t.usedUp(ctx, err)
	}
	if last, err = res.LastInsertId(); err == nil && m.spills {
		_, err = t.exec(ctx, "enqueue_payload", sql.Named("id", last), sql.Named("payload", jobs[0].Payload))
	}
	return last, err
}

// usedUp is err, or what is meant by it: SQLite calls the disk full when there is no id above the highest one. Jobs do not
// get there, but a row that was inserted by hand can have that id.
func (t *tx) usedUp(ctx context.Context, err error) error {
	if !errors.Is(kind(err), sqlstore.ErrFull) {
		return err
	}
	var last int64
	if _, lerr := t.one(ctx, "last_id", []any{&last}); lerr != nil || last != math.MaxInt64 {
		return err
	}
	return sqlstore.ErrNoID
}

// enqueueAs inserts a plain job with a reserved id. False if it is not to be used any more.
func (t *tx) enqueueAs(ctx context.Context, id, last int64, j *sqlstore.NewJob) (done bool, err error) {
	payload := j.Payload
	if payload == nil {
		payload = []byte{}
	}
	n, err := t.affected(ctx, "enqueue_reserved",
		sql.Named("id", id),
		sql.Named("last", last),
		sql.Named("queue", j.Queue),
		sql.Named("payload", payload),
		sql.Named("priority", j.Priority),
		sql.Named("run_at", t.now+j.DelayS),
		sql.Named("now", sql.NullInt64{Int64: t.now, Valid: !t.timeless}),
		sql.Named("visibility_timeout_s", j.Stamps.VisibilityTimeoutS),
		sql.Named("max_attempts", j.Stamps.MaxAttempts),
		sql.Named("backoff_base_s", j.Stamps.BackoffBaseS),
		sql.Named("dead_letter_retention_s", optional(j.Stamps.DeadLetterRetentionS)),
	)
	t.wake(j.Queue)
	return n > 0, err
}

// common are the arguments that all statements for new jobs have.
func (t *tx) common(m *mold) []any {
	return []any{
		sql.Named("queue", m.queue),
		sql.Named("priority", m.priority),
		sql.Named("run_at", m.runAt),
		sql.Named("now", sql.NullInt64{Int64: t.now, Valid: !t.timeless}),
		sql.Named("expires_at", m.expiresAt),
		sql.Named("visibility_timeout_s", m.visibility),
		sql.Named("max_attempts", m.budget),
		sql.Named("backoff_base_s", m.backoffS),
		sql.Named("dead_letter_retention_s", m.retention),
	}
}

// forOne are those that the statements for one job have besides.
func forOne(m *mold, j *sqlstore.NewJob) []any {
	inline := j.Payload
	if m.spills || inline == nil {
		inline = []byte{}
	}
	return []any{
		sql.Named("payload", inline),
		sql.Named("payload_size", len(j.Payload)),
		sql.Named("spilled", m.spills),
		sql.Named("schedule", sql.NullString{String: m.schedule, Valid: m.schedule != ""}),
		sql.Named("scheduled_for", sql.NullInt64{Int64: m.boundary, Valid: m.schedule != ""}),
	}
}

// lineUp puts payloads end to end and says where each one is, as enqueue_many.sql wants it.
func lineUp(jobs []sqlstore.NewJob) (payloads []byte, places []int64) {
	places = make([]int64, len(jobs))
	size := 0
	for i := range jobs {
		size += len(jobs[i].Payload)
	}
	payloads = make([]byte, 0, size+1)
	for i := range jobs {
		places[i] = int64(len(payloads)+1)*2*spillOver + int64(len(jobs[i].Payload))
		payloads = append(payloads, jobs[i].Payload...)
	}
	return append(payloads, 0), places
}

func optional(v *int64) sql.NullInt64 {
	if v == nil {
		return sql.NullInt64{}
	}
	return sql.NullInt64{Int64: *v, Valid: true}
}
