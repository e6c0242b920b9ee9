package memory

import (
	"context"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// Enqueue stores all of jobs or none and returns their ids in order.
func (s *Store) Enqueue(ctx context.Context, jobs []sqlstore.NewJob) ([]int64, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return nil, failed("enqueue", commonQueue(jobs), 0, err)
	}
	defer s.mu.Unlock()
	rows := make([]*sqlstore.Row, len(jobs))
	for i, j := range jobs {
		if rows[i], err = newRow(j, now); err != nil { // before any is stored: all or none. E6
			return nil, failed("enqueue", j.Queue, 0, err)
		}
	}
	ids := make([]int64, len(jobs))
	for i, r := range rows {
		ids[i] = s.add(r)
	}
	return ids, nil
}

// EnqueueTx answers ErrUnsupported: there are no transactions to join.
func (s *Store) EnqueueTx(ctx context.Context, _ sqlstore.Tx, jobs []sqlstore.NewJob) ([]int64, error) {
	return nil, s.unsupported(ctx, "enqueue", commonQueue(jobs), 0)
}

// newRow makes the row of a job that is enqueued now.
func newRow(j sqlstore.NewJob, now int64) (*sqlstore.Row, error) {
	r := &sqlstore.Row{
		Queue:       j.Queue,
		State:       sqlstore.Pending,
		Payload:     append([]byte{}, j.Payload...),
		PayloadSize: int64(len(j.Payload)),
		Priority:    j.Priority,
		Stamps:      copyStamps(j.Stamps), // E2
		CreatedAt:   now,
		RunAt:       after(now, j.DelayS),
	}
	if j.RunAt != nil {
		r.RunAt = *j.RunAt
	}
	if j.ExpiresS != nil {
		at := after(now, *j.ExpiresS) // E4
		if r.RunAt > at {
			return nil, sqlstore.ErrExpiresFirst
		}
		r.ExpiresAt = &at
	}
	return r, nil
}

// add stores a row under an id that was never used before. E1
func (s *Store) add(r *sqlstore.Row) int64 {
	s.lastID++
	r.ID = s.lastID
	s.jobs[r.ID] = r
	s.woke(r.Queue)
	return r.ID
}

// commonQueue is the queue of all the jobs, and empty if they go to several.
func commonQueue(jobs []sqlstore.NewJob) string {
	if len(jobs) == 0 {
		return ""
	}
	for _, j := range jobs {
		if j.Queue != jobs[0].Queue {
			return ""
		}
	}
	return jobs[0].Queue
}
