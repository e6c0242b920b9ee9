package memory

import (
	"context"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// Cancel deletes pending and processing jobs and says which there were.
func (s *Store) Cancel(ctx context.Context, ids []int64) ([]bool, error) {
	live := func(r *sqlstore.Row) bool { return r.State != sqlstore.Dead }
	return s.each(ctx, "cancel", ids, live, func(r *sqlstore.Row, _ int64) { delete(s.jobs, r.ID) }) // H8
}

// Requeue moves dead jobs back to pending and says which there were.
func (s *Store) Requeue(ctx context.Context, ids []int64) ([]bool, error) {
	return s.each(ctx, "requeue", ids, isDead, s.requeue)
}

// RequeueMatching moves up to limit dead jobs back to pending, oldest id first, and says how many.
func (s *Store) RequeueMatching(ctx context.Context, f sqlstore.DeadFilter, limit int64) (int64, error) {
	return s.matching(ctx, "requeue", f, limit, s.requeue)
}

// Purge deletes dead jobs and says which there were.
func (s *Store) Purge(ctx context.Context, ids []int64) ([]bool, error) {
	return s.each(ctx, "purge", ids, isDead, func(r *sqlstore.Row, _ int64) { delete(s.jobs, r.ID) })
}

// PurgeMatching deletes up to limit dead jobs, oldest id first, and says how many.
func (s *Store) PurgeMatching(ctx context.Context, f sqlstore.DeadFilter, limit int64) (int64, error) {
	return s.matching(ctx, "purge", f, limit, func(r *sqlstore.Row, _ int64) { delete(s.jobs, r.ID) })
}

// SweepExpired moves what has expired in one queue to the dead letters with the given text, drops dead jobs past their
// retention, and makes processing rows without a deadline reclaimable.
func (s *Store) SweepExpired(ctx context.Context, queue, text string) (sqlstore.Swept, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return sqlstore.Swept{}, failed("sweep", queue, 0, err)
	}
	defer s.mu.Unlock()
	var swept sqlstore.Swept
	for _, r := range s.jobs {
		if r.Queue != queue {
			continue
		}
		switch {
		case r.State == sqlstore.Dead:
			if keep := r.Stamps.DeadLetterRetentionS; keep != nil && after(*r.DiedAt, *keep) < now {
				delete(s.jobs, r.ID)
				swept.Dropped++
			}
		case expired(r, now):
			bury(r, now, text)
			swept.Expired++
		case r.State == sqlstore.Processing && r.ClaimExpiresAt == nil:
			past := now - 1
			r.ClaimExpiresAt = &past
			swept.Repaired++
			s.woke(r.Queue)
		}
	}
	return swept, nil
}

func isDead(r *sqlstore.Row) bool { return r.State == sqlstore.Dead }

func (s *Store) requeue(r *sqlstore.Row, now int64) {
	revive(r, now)
	s.woke(r.Queue)
}

// each calls do for each id whose job matches, in order, and says for which it did.
func (s *Store) each(
	ctx context.Context, op string, ids []int64, match func(*sqlstore.Row) bool, do func(r *sqlstore.Row, now int64),
) ([]bool, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return nil, failed(op, "", only(ids, func(id int64) int64 { return id }), err)
	}
	defer s.mu.Unlock()
	answers := make([]bool, len(ids))
	for i, id := range ids {
		if r := s.jobs[id]; r != nil && match(r) {
			do(r, now)
			answers[i] = true
		}
	}
	return answers, nil
}

// matching calls do for up to limit dead jobs that the filter selects, oldest id first, and says for how many.
func (s *Store) matching(
	ctx context.Context, op string, f sqlstore.DeadFilter, limit int64, do func(r *sqlstore.Row, now int64),
) (int64, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return 0, failed(op, f.Queue, 0, err)
	}
	defer s.mu.Unlock()
	selected := func(r *sqlstore.Row) bool {
		return isDead(r) && (f.Queue == "" || r.Queue == f.Queue) &&
			(f.OlderThanS == nil || after(*r.DiedAt, *f.OlderThanS) <= now)
	}
	var done int64
	for _, r := range s.ordered(selected, byID) {
		if done >= limit {
			break
		}
		do(r, now)
		done++
	}
	return done, nil
}
