package memory

import (
	"cmp"
	"slices"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// expired: the job must not run any more. It is still held by whoever has claimed it.
func expired(r *sqlstore.Row, now int64) bool {
	return r.ExpiresAt != nil && now > *r.ExpiresAt
}

// lapsed: the claim has ended without a word. A row without a deadline counts, or it would be stuck.
func lapsed(r *sqlstore.Row, now int64) bool {
	return r.State == sqlstore.Processing && (r.ClaimExpiresAt == nil || now > *r.ClaimExpiresAt) // C7
}

// claimable leaves aside whether attempts are left. C3
func claimable(r *sqlstore.Row, now int64) bool {
	ready := r.State == sqlstore.Pending && r.RunAt <= now
	return (ready || lapsed(r, now)) && !expired(r, now)
}

// held returns the job if the handle's claim is valid, else nil. H1
func (s *Store) held(h sqlstore.Handle, now int64) *sqlstore.Row {
	r := s.jobs[h.ID]
	if r == nil || r.State != sqlstore.Processing || r.Fence != h.Fence || lapsed(r, now) {
		return nil
	}
	return r
}

// unclaim clears what a claim has set.
func unclaim(r *sqlstore.Row) {
	r.Claimant = ""
	r.ClaimedAt = nil
	r.ClaimExpiresAt = nil
}

// bury moves a live job to the dead letters. It keeps when it was last claimed. D1
func bury(r *sqlstore.Row, now int64, text string) {
	r.State = sqlstore.Dead
	r.Claimant = ""
	r.ClaimExpiresAt = nil
	r.LapsedFence = 0
	r.LastError = &text
	r.DiedAt = &now
}

// revive moves a dead job back to pending, with a fresh budget and no expiry. D4
func revive(r *sqlstore.Row, now int64) {
	r.State = sqlstore.Pending
	r.RunAt = now
	r.Attempts = 0
	r.ExpiresAt = nil
	r.DiedAt = nil
	unclaim(r)
}

// remember adds to the history the attempt that is ending. H10
func remember(r *sqlstore.Row, now int64, text, stack string) {
	r.Failures = append(r.Failures, sqlstore.Failure{Attempt: r.Attempts, At: now, Error: text, Stack: stack})
	if extra := len(r.Failures) - sqlstore.MaxFailures; extra > 0 {
		r.Failures = slices.Delete(r.Failures, 0, extra)
	}
}

// ordered returns the jobs that match, sorted.
func (s *Store) ordered(match func(*sqlstore.Row) bool, order func(a, b *sqlstore.Row) int) []*sqlstore.Row {
	var found []*sqlstore.Row
	for _, r := range s.jobs {
		if match(r) {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, order)
	return found
}

func byID(a, b *sqlstore.Row) int { return cmp.Compare(a.ID, b.ID) }

func newestFirst(a, b *sqlstore.Row) int { return cmp.Compare(b.ID, a.ID) }

// claimOrder is the order of C2.
func claimOrder(a, b *sqlstore.Row) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.RunAt, b.RunAt), cmp.Compare(a.ID, b.ID))
}

// shown is the copy of a job that leaves the store, with at most limit bytes of its payload and without failures.
func shown(r *sqlstore.Row, limit int64) sqlstore.Row {
	c := *r
	c.Payload = append([]byte{}, r.Payload[:min(int64(len(r.Payload)), max(limit, 0))]...)
	c.Stamps = copyStamps(r.Stamps)
	c.ClaimedAt = copyOf(r.ClaimedAt)
	c.ClaimExpiresAt = copyOf(r.ClaimExpiresAt)
	c.ExpiresAt = copyOf(r.ExpiresAt)
	c.LastError = copyOf(r.LastError)
	c.DiedAt = copyOf(r.DiedAt)
	c.ScheduledFor = copyOf(r.ScheduledFor)
	c.Failures = nil
	return c
}

func copySchedule(c sqlstore.Schedule) sqlstore.Schedule {
	c.Payload = append([]byte{}, c.Payload...) // never nil
	c.Fire.ExpiresS = copyOf(c.Fire.ExpiresS)
	c.Fire.Stamps = copyStamps(c.Fire.Stamps)
	c.Anchor = copyOf(c.Anchor)
	return c
}

func copyStamps(st sqlstore.Stamps) sqlstore.Stamps {
	st.DeadLetterRetentionS = copyOf(st.DeadLetterRetentionS)
	return st
}

func copyOf[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
