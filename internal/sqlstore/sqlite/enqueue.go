package sqlite

import (
	"context"
	"database/sql"

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
	err = s.writing(ctx, ordinary, len(jobs), func(ctx context.Context, t *tx) error {
		ids, err = t.enqueue(ctx, jobs)
		return err
	})
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

func (t *tx) enqueue(ctx context.Context, jobs []sqlstore.NewJob) ([]int64, error) {
	ids := make([]int64, len(jobs))
	woken := ""
	for i := range jobs {
		id, err := t.insert(ctx, &jobs[i], fired{})
		if err != nil {
			return nil, err
		}
		ids[i] = id
		if queue := jobs[i].Queue; i == 0 || queue != woken {
			t.wake(queue)
			woken = queue
		}
	}
	return ids, nil
}

func (t *tx) insert(ctx context.Context, j *sqlstore.NewJob, by fired) (int64, error) {
	runAt := t.now + j.DelayS
	if j.RunAt != nil {
		runAt = *j.RunAt
	}
	var expiresAt sql.NullInt64
	if j.ExpiresS != nil {
		expiresAt = sql.NullInt64{Int64: t.now + *j.ExpiresS, Valid: true}
		if runAt > expiresAt.Int64 {
			return 0, &sqlstore.Error{Op: "enqueue to", Queue: j.Queue, Err: sqlstore.ErrExpiresFirst}
		}
	}
	inline, spilled := j.Payload, len(j.Payload) > spillOver
	if spilled || inline == nil {
		inline = []byte{}
	}
	res, err := t.exec(ctx, "enqueue",
		sql.Named("queue", j.Queue),
		sql.Named("payload", inline),
		sql.Named("payload_size", len(j.Payload)),
		sql.Named("spilled", spilled),
		sql.Named("priority", j.Priority),
		sql.Named("run_at", runAt),
		sql.Named("now", t.now),
		sql.Named("expires_at", expiresAt),
		sql.Named("visibility_timeout_s", j.Stamps.VisibilityTimeoutS),
		sql.Named("max_attempts", j.Stamps.MaxAttempts),
		sql.Named("backoff_base_s", j.Stamps.BackoffBaseS),
		sql.Named("dead_letter_retention_s", optional(j.Stamps.DeadLetterRetentionS)),
		sql.Named("schedule", sql.NullString{String: by.schedule, Valid: by.schedule != ""}),
		sql.Named("scheduled_for", sql.NullInt64{Int64: by.boundary, Valid: by.schedule != ""}),
	)
	if err != nil {
		return 0, err
	}
	id, err := res.LastInsertId()
	if err != nil || !spilled {
		return id, err
	}
	_, err = t.exec(ctx, "enqueue_payload", sql.Named("id", id), sql.Named("payload", j.Payload))
	return id, err
}

func optional(v *int64) sql.NullInt64 {
	if v == nil {
		return sql.NullInt64{}
	}
	return sql.NullInt64{Int64: *v, Valid: true}
}
