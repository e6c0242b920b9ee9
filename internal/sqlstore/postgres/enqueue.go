package postgres

import (
	"context"
	"slices"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// The most that one statement inserts, in jobs and in bytes of payload: the server builds each array as a whole, and may
// not make one of a gigabyte.
const (
	statementJobs  = 10_000
	statementBytes = 64 << 20
)

// Enqueue implements [sqlstore.Jobs].
func (s *Store) Enqueue(ctx context.Context, jobs []sqlstore.NewJob) (ids []int64, err error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	switch parts := partsOf(jobs); {
	case hopeless(jobs) != nil:
		err = s.using(ctx, ordinary, func(context.Context) error { return hopeless(jobs) })
	case len(parts) > 1:
		err = s.transaction(ctx, slow, func(ctx context.Context, t *tx) error {
			ids, err = t.enqueue(ctx, parts, s.listener.token)
			return err
		})
	case small(jobs):
		ids, err = s.enqueues.do(ctx, s, jobs)
	default:
		err = s.writing(ctx, slow, func(ctx context.Context, t *tx) error {
			ids, err = t.enqueue(ctx, parts, s.listener.token)
			return err
		})
	}
	return unlessFailed(ids, fail("enqueue to", only(jobs), 0, err))
}

// EnqueueTx implements [sqlstore.Jobs].
func (s *Store) EnqueueTx(ctx context.Context, outer sqlstore.Tx, jobs []sqlstore.NewJob) (ids []int64, err error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	err = s.inside(ctx, outer, func(ctx context.Context, t *tx) error {
		if err := hopeless(jobs); err != nil {
			return err
		}
		parts := partsOf(jobs)
		if len(parts) > 1 && slices.ContainsFunc(jobs, unsure) {
			// Before anything is stored, and by one clock: the caller may commit what an earlier part has stored (T6).
			if err := t.foresee(ctx, jobs); err != nil {
				return err
			}
		}
		// Not in our name: whether and when it is committed is not known here, so it is our own listener that tells us.
		ids, err = t.enqueue(ctx, parts, "")
		return err
	})
	return unlessFailed(ids, fail("enqueue to", only(jobs), 0, err))
}

// enqueue inserts jobs in parts. Several parts need a transaction around them.
func (t *tx) enqueue(ctx context.Context, parts [][]sqlstore.NewJob, sender string) ([]int64, error) {
	var ids []int64
	for _, jobs := range parts {
		queues, at := queuesOf(jobs), ahead
		if sender == "" || slices.ContainsFunc(jobs, func(j sqlstore.NewJob) bool { return j.RunAt != nil }) {
			at = behind
		}
		if sender != "" {
			t.rouse(at, queues...)
		}
		before := len(ids)
		if err := t.run(ctx, insertion(jobs, &ids), t.store.notification(sender, at, queues...)); err != nil {
			return nil, err
		}
		if len(ids)-before < len(jobs) {
			return nil, t.late(ctx, jobs)
		}
	}
	return ids, nil
}

// partsOf cuts jobs into what one statement can take.
func partsOf(jobs []sqlstore.NewJob) (parts [][]sqlstore.NewJob) {
	start, size := 0, 0
	for i := range jobs {
		if i > start && (i-start == statementJobs || size+len(jobs[i].Payload) > statementBytes) {
			parts = append(parts, jobs[start:i])
			start, size = i, 0
		}
		size += len(jobs[i].Payload)
	}
	return append(parts, jobs[start:])
}

// hopeless is the error of a job that would expire before it is ready, as far as that can be told without the clock.
func hopeless(jobs []sqlstore.NewJob) error {
	for _, j := range jobs {
		if j.RunAt == nil && j.ExpiresS != nil && j.DelayS > *j.ExpiresS {
			return expiresFirst(j.Queue)
		}
	}
	return nil
}

// foresee is hopeless with the clock, which is then that of the transaction.
func (t *tx) foresee(ctx context.Context, jobs []sqlstore.NewJob) error {
	var now int64
	if err := t.run(ctx, step{"now", nil, func(row scanner) error { return row.Scan(&now) }}); err != nil {
		return err
	}
	t.clock = &now
	for _, j := range jobs {
		if unsure(j) && *j.RunAt > now+*j.ExpiresS {
			return expiresFirst(j.Queue)
		}
	}
	return nil
}

// late is the error of jobs among which the server has found such a one, which it does not name.
func (t *tx) late(ctx context.Context, jobs []sqlstore.NewJob) error {
	if err := t.foresee(ctx, jobs); err != nil {
		return err
	}
	return expiresFirst(only(jobs))
}

func expiresFirst(queue string) error {
	return &sqlstore.Error{Op: "enqueue to", Queue: queue, Err: sqlstore.ErrExpiresFirst}
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

// queuesOf names each queue of jobs once.
func queuesOf(jobs []sqlstore.NewJob) (queues []string) {
	for i := range jobs {
		if i > 0 && jobs[i].Queue == jobs[i-1].Queue {
			continue
		}
		if !slices.Contains(queues, jobs[i].Queue) {
			queues = append(queues, jobs[i].Queue)
		}
	}
	return queues
}

func unlessFailed[T any](v []T, err error) ([]T, error) {
	if err != nil {
		return nil, err
	}
	return v, nil
}

// insertion is the step that stores jobs and appends their ids.
func insertion(jobs []sqlstore.NewJob, ids *[]int64) step {
	if alike(jobs) {
		j := jobs[0]
		payloads := make([][]byte, len(jobs))
		for i := range jobs {
			payloads[i] = bytesOf(jobs[i].Payload)
		}
		return step{"enqueue_alike", args{
			"queue": j.Queue, "payloads": payloads, "priority": j.Priority, "run_at": j.RunAt, "delay_s": j.DelayS,
			"expires_s": j.ExpiresS, "visibility_timeout_s": j.Stamps.VisibilityTimeoutS, "max_attempts": j.Stamps.MaxAttempts,
			"backoff_base_s": j.Stamps.BackoffBaseS, "dead_letter_retention_s": j.Stamps.DeadLetterRetentionS,
		}, appendID(ids)}
	}
	var all columns
	for i := range jobs {
		all.add(&jobs[i], nil, nil)
	}
	return all.insert(ids)
}

// alike says whether jobs differ in nothing but their payloads, and none of them may turn out to expire before it is ready.
func alike(jobs []sqlstore.NewJob) bool {
	a := &jobs[0]
	if unsure(*a) {
		return false
	}
	for i := range jobs[1:] {
		b := &jobs[i+1]
		if a.Queue != b.Queue || a.Priority != b.Priority || a.DelayS != b.DelayS || !sameOrNull(a.RunAt, b.RunAt) ||
			!sameOrNull(a.ExpiresS, b.ExpiresS) || a.Stamps.VisibilityTimeoutS != b.Stamps.VisibilityTimeoutS ||
			a.Stamps.MaxAttempts != b.Stamps.MaxAttempts || a.Stamps.BackoffBaseS != b.Stamps.BackoffBaseS ||
			!sameOrNull(a.Stamps.DeadLetterRetentionS, b.Stamps.DeadLetterRetentionS) {
			return false
		}
	}
	return true
}

func sameOrNull(a, b *int64) bool { return a == b || a != nil && b != nil && *a == *b }

// columns are the arrays of enqueue.sql.
type columns struct {
	queues     []string
	payloads   [][]byte
	priorities []int64
	runAts     []*int64
	delays     []int64
	expires    []*int64
	visibility []int64
	attempts   []int64
	backoff    []int64
	retention  []*int64
	schedules  []*string
	boundaries []*int64
	// unsure says that one of the jobs may expire before it is ready, which only the server's clock can tell.
	unsure bool
}

// add appends one job; schedule and boundary are nil unless a schedule fires it.
func (c *columns) add(j *sqlstore.NewJob, schedule *string, boundary *int64) {
	c.queues = append(c.queues, j.Queue)
	c.payloads = append(c.payloads, bytesOf(j.Payload))
	c.priorities = append(c.priorities, j.Priority)
	c.runAts = append(c.runAts, j.RunAt)
	c.delays = append(c.delays, j.DelayS)
	c.expires = append(c.expires, j.ExpiresS)
	c.visibility = append(c.visibility, j.Stamps.VisibilityTimeoutS)
	c.attempts = append(c.attempts, j.Stamps.MaxAttempts)
	c.backoff = append(c.backoff, j.Stamps.BackoffBaseS)
	c.retention = append(c.retention, j.Stamps.DeadLetterRetentionS)
	c.schedules = append(c.schedules, schedule)
	c.boundaries = append(c.boundaries, boundary)
	c.unsure = c.unsure || unsure(*j)
}

func unsure(j sqlstore.NewJob) bool { return j.RunAt != nil && j.ExpiresS != nil }

// bytesOf is a payload that is never NULL.
func bytesOf(payload []byte) []byte {
	if payload == nil {
		return []byte{}
	}
	return payload
}

// insert is the step that stores the jobs and appends their ids.
func (c *columns) insert(ids *[]int64) step {
	name := "enqueue"
	if c.unsure {
		name = "enqueue_checked"
	}
	return step{name, args{
		"queues": c.queues, "payloads": c.payloads, "priorities": c.priorities, "run_ats": c.runAts, "delays_s": c.delays,
		"expires_s": c.expires, "visibility_timeouts_s": c.visibility, "max_attempts": c.attempts,
		"backoff_bases_s": c.backoff, "dead_letter_retentions_s": c.retention, "schedules": c.schedules,
		"scheduled_fors": c.boundaries,
	}, appendID(ids)}
}

// appendID appends the id in each row.
func appendID(ids *[]int64) func(row scanner) error {
	var id int64
	return func(row scanner) error {
		err := row.Scan(&id)
		*ids = append(*ids, id)
		return err
	}
}
