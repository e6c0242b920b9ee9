package scheduler

import (
	"context"
	"reflect"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/queue"
)

// tick fires what is due. Even a tick that fails may have fired some schedules, so what it answers is always reported.
func (s *Scheduler) tick(ctx context.Context) error {
	type attempt struct {
		row     sqlstore.Schedule
		skipped int64
	}
	attempts := make(map[string]attempt)
	ticked, err := s.store.Tick(ctx, func(now int64, due sqlstore.Schedule) (sqlstore.Plan, error) {
		p, skipped, err := plan(now, &due)
		attempts[due.Name] = attempt{row: due, skipped: skipped}
		return p, err
	})
	for _, t := range ticked {
		a := attempts[t.Name]
		switch {
		case t.Err == nil:
			s.fired(ctx, t, a.skipped)
		case !queue.Transient(t.Err):
			s.cannotFire(ctx, t, a.row)
		}
	}
	return err
}

func (s *Scheduler) fired(ctx context.Context, t sqlstore.Ticked, skipped int64) {
	s.log.DebugContext(ctx, "scheduler: fired", "schedule", t.Name, "queue", t.Queue, "jobs", len(t.IDs))
	if skipped > 0 { // S5, K82
		s.log.InfoContext(ctx, "scheduler: too many boundaries were missed, the latest are skipped",
			"schedule", t.Name, "queue", t.Queue, "fired", len(t.IDs), "skipped", skipped)
	}
}

// cannotFire logs a schedule that did not fire, once for as long as its row stays as it is (S2).
func (s *Scheduler) cannotFire(ctx context.Context, t sqlstore.Ticked, row sqlstore.Schedule) {
	if same(s.broken[t.Name], row) {
		return
	}
	row.Payload = nil // it may be large
	s.broken[t.Name] = row
	s.log.WarnContext(ctx, "scheduler: schedule cannot fire until it is set anew",
		"schedule", t.Name, "queue", t.Queue, "error", t.Err)
}

// wholeDue says whether a schedule is due that is not known to be unable to fire. It forgets those that have been
// changed or removed since.
func (s *Scheduler) wholeDue(ctx context.Context, now int64) (due bool, err error) {
	all, err := s.store.ListSchedules(ctx)
	if err != nil {
		return false, err
	}
	still := make(map[string]sqlstore.Schedule)
	for _, row := range all {
		if was, ok := s.broken[row.Name]; ok && same(was, row) {
			still[row.Name] = was
			continue
		}
		due = due || !row.Paused && row.NextFireAt <= now
	}
	s.broken = still
	return due, nil
}

// same compares all but the payload, which has no part in whether a schedule can fire.
func same(a, b sqlstore.Schedule) bool {
	a.Payload, b.Payload = nil, nil
	return reflect.DeepEqual(a, b)
}
