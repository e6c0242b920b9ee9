package memory

import (
	"context"
	"maps"
	"math"
	"slices"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// GetJob returns the job with its payload and failures, and nil if there is none.
func (s *Store) GetJob(ctx context.Context, id int64) (*sqlstore.Row, error) {
	if _, err := s.begin(ctx); err != nil {
		return nil, failed("get", "", id, err)
	}
	defer s.mu.Unlock()
	r := s.jobs[id]
	if r == nil {
		return nil, nil
	}
	c := shown(r, math.MaxInt64)
	c.Failures = slices.Clone(r.Failures)
	return &c, nil
}

// ListJobs returns jobs newest first.
func (s *Store) ListJobs(ctx context.Context, f sqlstore.Filter) ([]sqlstore.Row, error) {
	if _, err := s.begin(ctx); err != nil {
		return nil, failed("list", f.Queue, 0, err)
	}
	defer s.mu.Unlock()
	selected := func(r *sqlstore.Row) bool {
		return (f.Queue == "" || r.Queue == f.Queue) && (f.State == "" || r.State == f.State) &&
			(f.Before == 0 || r.ID < f.Before)
	}
	var page []sqlstore.Row
	for _, r := range s.ordered(selected, newestFirst) {
		if int64(len(page)) >= f.Limit {
			break
		}
		page = append(page, shown(r, f.PayloadLimit))
	}
	return page, nil
}

// Stats counts each queue that has jobs, a worker or a pause, ordered by name.
func (s *Store) Stats(ctx context.Context) ([]sqlstore.QueueStats, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return nil, failed("stats", "", 0, err)
	}
	defer s.mu.Unlock()
	counts := make(map[string]*sqlstore.QueueStats)
	of := func(queue string) *sqlstore.QueueStats {
		if counts[queue] == nil {
			counts[queue] = &sqlstore.QueueStats{Queue: queue}
		}
		return counts[queue]
	}
	for _, r := range s.jobs {
		count(of(r.Queue), r, now)
	}
	for _, w := range s.workers {
		if now > w.expiresAt {
			continue
		}
		for _, q := range w.queues {
			of(q).Workers++
		}
	}
	for q := range s.paused {
		of(q).Paused = true
	}
	var stats []sqlstore.QueueStats
	for _, q := range slices.Sorted(maps.Keys(counts)) {
		stats = append(stats, *counts[q])
	}
	return stats, nil
}

// count adds one job to the counts of its queue.
func count(to *sqlstore.QueueStats, r *sqlstore.Row, now int64) {
	switch {
	case r.State == sqlstore.Dead:
		to.Dead++
	case r.State == sqlstore.Processing:
		to.Processing++
	case r.RunAt > now:
		to.Delayed++
	default:
		to.Ready++
		if age := now - r.RunAt; to.OldestReadyS == nil || age > *to.OldestReadyS {
			to.OldestReadyS = &age
		}
	}
}

// Queues names every queue that has live or dead jobs, ordered by name.
func (s *Store) Queues(ctx context.Context) ([]string, error) {
	if _, err := s.begin(ctx); err != nil {
		return nil, failed("queues", "", 0, err)
	}
	defer s.mu.Unlock()
	names := make(map[string]bool)
	for _, r := range s.jobs {
		names[r.Queue] = true
	}
	return slices.Sorted(maps.Keys(names)), nil
}

// farAway is a deadline that no visibility timeout or extension of a year reaches: whoever wrote it was not a claim.
const farAway = 2 * 366 * 24 * 60 * 60

// Check names the rows that no operation of this store leaves behind and none would repair.
func (s *Store) Check(ctx context.Context) ([]sqlstore.Problem, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return nil, failed("check", "", 0, err)
	}
	defer s.mu.Unlock()
	return s.problems(now), nil
}

// Repair makes stuck claims end: one without a deadline at once, one that would end in years after a visibility timeout.
func (s *Store) Repair(ctx context.Context) ([]sqlstore.Problem, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return nil, failed("repair", "", 0, err)
	}
	defer s.mu.Unlock()
	problems := s.problems(now)
	for _, p := range problems {
		r := s.jobs[p.JobID]
		deadline := now - 1
		if r.ClaimExpiresAt != nil {
			deadline = after(now, r.Stamps.VisibilityTimeoutS)
		}
		r.ClaimExpiresAt = &deadline
		s.woke(r.Queue)
	}
	return problems, nil
}

func (s *Store) problems(now int64) []sqlstore.Problem {
	var problems []sqlstore.Problem
	processing := func(r *sqlstore.Row) bool { return r.State == sqlstore.Processing }
	for _, r := range s.ordered(processing, byID) {
		var detail string
		switch {
		case r.ClaimExpiresAt == nil:
			detail = "processing without a deadline; a sweep of its queue makes it reclaimable"
		case *r.ClaimExpiresAt > after(now, farAway):
			detail = "the claim's deadline is years away; cancel the job, or set claim_expires_at to a time in the past"
		default:
			continue
		}
		problems = append(problems, sqlstore.Problem{Kind: "stuck", JobID: r.ID, Queue: r.Queue, Detail: detail})
	}
	return problems
}
