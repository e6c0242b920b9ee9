package scheduler

import (
	"errors"
	"fmt"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/queue"
)

// plan decides what a due schedule does at now: which missed boundaries become jobs, how many more are skipped, and
// which boundary is the next. It reads nothing but its arguments, so that any two processes come to the same answer,
// and the store calls it under the row's lock (S5). The error names the schedule.
func plan(now int64, s *sqlstore.Schedule) (p sqlstore.Plan, skipped int64, err error) {
	g, err := gridOf(s)
	if err != nil {
		return sqlstore.Plan{}, 0, err
	}
	if err := fireable(s); err != nil {
		return sqlstore.Plan{}, 0, err
	}
	next, ok := g.after(now)
	if !ok {
		return sqlstore.Plan{}, 0, endOfTime(s)
	}
	boundaries, skipped := g.missed(s.NextFireAt, now, catchUp(s.CatchUp))
	return sqlstore.Plan{Boundaries: boundaries, NextFireAt: next}, skipped, nil
}

// nextBoundary is the first boundary of a schedule strictly after now. The error is a *SpecError that names the
// schedule.
func nextBoundary(now int64, s *sqlstore.Schedule) (int64, error) {
	g, err := gridOf(s)
	if err != nil {
		return 0, err
	}
	next, ok := g.after(now)
	if !ok {
		return 0, endOfTime(s)
	}
	return next, nil
}

// gridOf is the grid of a stored schedule: through its anchor, or else through the time of its first registration (S3).
func gridOf(s *sqlstore.Schedule) (grid, error) {
	base := s.CreatedAt
	if s.Anchor != nil {
		base = *s.Anchor
	}
	g, err := newGrid(s.Spec, base)
	var bad *SpecError
	if errors.As(err, &bad) {
		bad.Schedule = s.Name // S2
	}
	return g, err
}

// endOfTime is the error of a schedule that has no further boundary (K84).
func endOfTime(s *sqlstore.Schedule) error {
	return &SpecError{Schedule: s.Name, Spec: s.Spec, Reason: "the next boundary is after the year 9999"}
}

// fireable refuses a row that makes no job, which Set never stores but a database shell can. Found here, it is the
// trouble of this schedule alone; found by the database, it would look like a failure of the store and stop the other
// schedules too.
func fireable(s *sqlstore.Schedule) error {
	const most = maxEveryS + 1 // the longest duration, rounded up
	problem := queue.ValidateName(s.Queue)
	within := func(what string, v *int64, least int64) {
		if v != nil && (*v < least || *v > most) {
			problem = errors.Join(problem, invalidf("%s %d is not between %d and %d", what, *v, least, most))
		}
	}
	within("expiry", s.Fire.ExpiresS, 1)
	within("visibility timeout", &s.Fire.Stamps.VisibilityTimeoutS, 1)
	within("max attempts", &s.Fire.Stamps.MaxAttempts, 1)
	within("backoff base", &s.Fire.Stamps.BackoffBaseS, 0)
	within("dead letter retention", s.Fire.Stamps.DeadLetterRetentionS, 0)
	if problem != nil {
		return fmt.Errorf("schedule %q: %w", s.Name, problem)
	}
	return nil
}

// catchUp is the cap on the jobs of one tick. A row may hold anything; what Set would refuse counts as unset.
func catchUp(stored int64) int64 {
	if stored < 1 || stored > sqlstore.MaxCatchUpFires {
		return sqlstore.MaxCatchUpFires
	}
	return stored
}
