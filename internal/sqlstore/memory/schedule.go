package memory

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// Register stores what change makes of the schedule of that name.
func (s *Store) Register(
	ctx context.Context, name string, change func(now int64, have *sqlstore.Schedule) (*sqlstore.Schedule, error),
) error {
	now, err := s.begin(ctx)
	if err != nil {
		return failed("register", "", 0, err)
	}
	defer s.mu.Unlock()
	var have *sqlstore.Schedule
	old, exists := s.schedules[name]
	if exists {
		have = new(copySchedule(old))
	}
	want, err := change(now, have)
	if err != nil {
		return failed("register", old.Queue, 0, err)
	}
	if want == nil {
		return nil
	}
	stored := copySchedule(*want)
	stored.Name = name
	stored.CreatedAt = now
	if exists {
		stored.CreatedAt = old.CreatedAt // S3: it may be the anchor of the grid
	}
	s.schedules[name] = stored
	s.woke("")
	return nil
}

// Unregister removes a schedule and says whether there was one.
func (s *Store) Unregister(ctx context.Context, name string) (bool, error) {
	if _, err := s.begin(ctx); err != nil {
		return false, failed("unregister", "", 0, err)
	}
	defer s.mu.Unlock()
	_, exists := s.schedules[name]
	delete(s.schedules, name)
	if exists {
		s.woke("")
	}
	return exists, nil
}

// ListSchedules returns all schedules ordered by name.
func (s *Store) ListSchedules(ctx context.Context) ([]sqlstore.Schedule, error) {
	if _, err := s.begin(ctx); err != nil {
		return nil, failed("list schedules", "", 0, err)
	}
	defer s.mu.Unlock()
	var all []sqlstore.Schedule
	for _, name := range slices.Sorted(maps.Keys(s.schedules)) {
		all = append(all, copySchedule(s.schedules[name]))
	}
	return all, nil
}

// Soonest returns the clock and the earliest NextFireAt of all schedules that are not paused; nil if there is none.
func (s *Store) Soonest(ctx context.Context) (now int64, next *int64, err error) {
	now, err = s.begin(ctx)
	if err != nil {
		return 0, nil, failed("soonest", "", 0, err)
	}
	defer s.mu.Unlock()
	for _, c := range s.schedules {
		if !c.Paused && (next == nil || c.NextFireAt < *next) {
			next = &c.NextFireAt
		}
	}
	return now, next, nil
}

// Tick fires each schedule that is due, the longest due first.
func (s *Store) Tick(
	ctx context.Context, plan func(now int64, due sqlstore.Schedule) (sqlstore.Plan, error),
) ([]sqlstore.Ticked, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return nil, failed("tick", "", 0, err)
	}
	defer s.mu.Unlock()
	var due []sqlstore.Schedule
	for _, c := range s.schedules {
		if !c.Paused && c.NextFireAt <= now {
			due = append(due, c)
		}
	}
	slices.SortFunc(due, func(a, b sqlstore.Schedule) int {
		return cmp.Or(cmp.Compare(a.NextFireAt, b.NextFireAt), cmp.Compare(a.Name, b.Name))
	})
	var ticked []sqlstore.Ticked
	for _, c := range due {
		ids, err := s.fireDue(c, now, plan)
		ticked = append(ticked, sqlstore.Ticked{Name: c.Name, Queue: c.Queue, IDs: ids, Err: err})
	}
	return ticked, nil
}

// fireDue enqueues what is planned for one due schedule and moves it on, or does neither. S5
func (s *Store) fireDue(
	c sqlstore.Schedule, now int64, plan func(now int64, due sqlstore.Schedule) (sqlstore.Plan, error),
) ([]int64, error) {
	p, err := plan(now, copySchedule(c))
	if err == nil && len(p.Boundaries) > sqlstore.MaxCatchUpFires {
		err = fmt.Errorf("schedule %q: %d boundaries in one tick, at most %d are allowed",
			c.Name, len(p.Boundaries), sqlstore.MaxCatchUpFires)
	}
	if err != nil {
		return nil, failed("tick", c.Queue, 0, err)
	}
	rows := make([]*sqlstore.Row, len(p.Boundaries))
	for i, at := range p.Boundaries {
		if rows[i], err = fired(c, now, at); err != nil {
			return nil, failed("tick", c.Queue, 0, err)
		}
	}
	ids := make([]int64, len(rows))
	for i, r := range rows {
		ids[i] = s.add(r)
	}
	c.NextFireAt = p.NextFireAt
	s.schedules[c.Name] = c
	s.woke("")
	return ids, nil
}

// FireNow enqueues one job of a schedule, paused or not, for the moment of the call.
func (s *Store) FireNow(
	ctx context.Context, name string, check func(sqlstore.Schedule) error,
) (id int64, ok bool, err error) {
	now, err := s.begin(ctx)
	if err != nil {
		return 0, false, failed("fire", "", 0, err)
	}
	defer s.mu.Unlock()
	c, exists := s.schedules[name]
	if !exists {
		return 0, false, nil
	}
	if err := check(copySchedule(c)); err != nil {
		return 0, false, failed("fire", c.Queue, 0, err)
	}
	r, err := fired(c, now, now)
	if err != nil {
		return 0, false, failed("fire", c.Queue, 0, err)
	}
	return s.add(r), true, nil
}

// fired makes the job of one boundary: ready now, however old the boundary is, and expiring from now. S7
func fired(c sqlstore.Schedule, now, boundary int64) (*sqlstore.Row, error) {
	r, err := newRow(sqlstore.NewJob{
		Queue:    c.Queue,
		Payload:  bytes.Clone(c.Payload),
		Priority: c.Fire.Priority,
		ExpiresS: c.Fire.ExpiresS,
		Stamps:   c.Fire.Stamps,
	}, now)
	if err != nil {
		return nil, err
	}
	r.Schedule = c.Name
	r.ScheduledFor = &boundary
	return r, nil
}
