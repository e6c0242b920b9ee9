package memory

import (
	"context"
	"math"
	"slices"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// ClaimBatch hands out up to c.Limit jobs in claim order. What is claimable but has spent its attempts is buried, all
// of it. A paused queue, or a limit below one, changes nothing.
func (s *Store) ClaimBatch(ctx context.Context, c sqlstore.Claim) ([]sqlstore.Row, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return nil, failed("claim", c.Queue, 0, err)
	}
	defer s.mu.Unlock()
	if s.paused[c.Queue] || c.Limit < 1 {
		return nil, nil
	}
	var claimed []sqlstore.Row
	candidate := func(r *sqlstore.Row) bool {
		return r.Queue == c.Queue && claimable(r, now) && wanted(r, c.Kind)
	}
	for _, r := range s.ordered(candidate, claimOrder) {
		exhausted := r.Attempts >= r.Stamps.MaxAttempts
		if !exhausted && int64(len(claimed)) == c.Limit {
			continue // those behind it may still be exhausted
		}
		if r.State == sqlstore.Processing {
			remember(r, now, c.LapsedText, "")
		}
		if exhausted {
			bury(r, now, c.ExhaustedText) // C6
			continue
		}
		take(r, c.Claimant, now)
		claimed = append(claimed, shown(r, math.MaxInt64))
	}
	return claimed, nil
}

// wanted says whether a claim of that kind hands r out, or buries it: exhausted jobs are buried by each kind.
func wanted(r *sqlstore.Row, kind sqlstore.ClaimKind) bool {
	suspect := r.State == sqlstore.Processing || r.LapsedFence > 0
	switch {
	case r.Attempts >= r.Stamps.MaxAttempts, kind == sqlstore.AnyJob:
		return true
	default:
		return suspect == (kind == sqlstore.OnlySuspects)
	}
}

// take makes the claimant the holder. C4, C5
func take(r *sqlstore.Row, claimant string, now int64) {
	deadline := after(now, r.Stamps.VisibilityTimeoutS)
	if r.State == sqlstore.Processing {
		r.LapsedFence = r.Fence
	}
	r.State = sqlstore.Processing
	r.Claimant = claimant
	r.ClaimedAt = &now
	r.ClaimExpiresAt = &deadline
	r.Attempts++
	r.Fence++
}

// NextReady says when each of the queues next has something to claim.
func (s *Store) NextReady(ctx context.Context, queues []string) (now int64, next map[string]int64, err error) {
	now, err = s.begin(ctx)
	if err != nil {
		return 0, nil, failed("next ready", onlyQueue(queues), 0, err)
	}
	defer s.mu.Unlock()
	next = make(map[string]int64)
	for _, q := range queues {
		if s.paused[q] {
			continue
		}
		for _, r := range s.jobs {
			if r.Queue != q || r.State == sqlstore.Dead || expired(r, now) {
				continue
			}
			at := readyAt(r, now)
			if soonest, ok := next[q]; !ok || at < soonest {
				next[q] = at
			}
		}
	}
	return now, next, nil
}

// Idle says whether none of the queues has a job that is processing, or that is pending and either ready or tried before.
func (s *Store) Idle(ctx context.Context, queues []string) (bool, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return false, failed("idle", onlyQueue(queues), 0, err)
	}
	defer s.mu.Unlock()
	for _, r := range s.jobs {
		if !slices.Contains(queues, r.Queue) {
			continue
		}
		if r.State == sqlstore.Processing && (!s.paused[r.Queue] || r.ClaimExpiresAt != nil && *r.ClaimExpiresAt >= now) {
			return false, nil
		}
		if r.State == sqlstore.Pending && !s.paused[r.Queue] && (r.RunAt <= now || r.Attempts > 0) {
			return false, nil
		}
	}
	return true, nil
}

// readyAt is when a live job is claimable if nobody touches it before.
func readyAt(r *sqlstore.Row, now int64) int64 {
	switch {
	case r.State == sqlstore.Pending:
		return r.RunAt
	case r.ClaimExpiresAt == nil:
		return now
	default:
		return after(*r.ClaimExpiresAt, 1) // C7: the deadline itself still belongs to the holder
	}
}

func onlyQueue(queues []string) string {
	if len(queues) == 1 {
		return queues[0]
	}
	return ""
}
