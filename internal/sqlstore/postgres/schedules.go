package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// Register implements [sqlstore.Schedules].
func (s *Store) Register(
	ctx context.Context, name string, change func(now int64, have *sqlstore.Schedule) (*sqlstore.Schedule, error),
) error {
	err := s.transaction(ctx, ordinary, func(ctx context.Context, t *tx) error {
		have, err := t.schedule(ctx, name, nil)
		if err != nil {
			return err
		}
		want, err := change(*t.clock, have)
		if err != nil || want == nil {
			return err
		}
		return t.wake(ctx, ahead, []string{want.Queue}, step{"schedule_put", args{
			"name": name, "queue": want.Queue, "spec": cleaned(want.Spec), "payload": bytesOf(want.Payload),
			"priority": want.Fire.Priority, "expires_s": want.Fire.ExpiresS,
			"visibility_timeout_s": want.Fire.Stamps.VisibilityTimeoutS, "max_attempts": want.Fire.Stamps.MaxAttempts,
			"backoff_base_s": want.Fire.Stamps.BackoffBaseS, "dead_letter_retention_s": want.Fire.Stamps.DeadLetterRetentionS,
			"anchor": want.Anchor, "catch_up": want.CatchUp, "next_fire_at": want.NextFireAt, "paused": want.Paused,
			"now": *t.clock,
		}, nil})
	})
	return failSchedule("register", name, err)
}

// Unregister implements [sqlstore.Schedules].
func (s *Store) Unregister(ctx context.Context, name string) (there bool, err error) {
	err = s.writing(ctx, ordinary, func(ctx context.Context, t *tx) error {
		there = false
		return t.run(ctx, step{"schedule_delete", args{"name": name}, func(scanner) error {
			there = true
			return nil
		}})
	})
	return there && err == nil, failSchedule("unregister", name, err)
}

// ListSchedules implements [sqlstore.Schedules].
func (s *Store) ListSchedules(ctx context.Context) (all []sqlstore.Schedule, err error) {
	err = s.reading(ctx, slow, step{"schedule_list", nil, func(row scanner) error {
		schedule, err := scanSchedule(row)
		all = append(all, schedule)
		return err
	}})
	return unlessFailed(all, fail("list schedules", "", 0, err))
}

// Soonest implements [sqlstore.Schedules].
func (s *Store) Soonest(ctx context.Context) (now int64, next *int64, err error) {
	err = s.reading(ctx, prompt, step{"schedule_soonest", nil, func(row scanner) error { return row.Scan(&now, &next) }})
	if err != nil {
		return 0, nil, fail("look for due schedules", "", 0, err)
	}
	return now, next, nil
}

// Tick implements [sqlstore.Schedules].
//
// A schedule that somebody has locked keeps no other from firing: it comes after them, and all such together are waited
// for no longer than one call waits for a lock.
func (s *Store) Tick(
	ctx context.Context, plan func(now int64, due sqlstore.Schedule) (sqlstore.Plan, error),
) ([]sqlstore.Ticked, error) {
	type schedule struct {
		name    string
		payload int64 // its bytes
	}
	var due []schedule
	err := s.reading(ctx, prompt, step{"schedule_due", nil, func(row scanner) error {
		var d schedule
		err := row.Scan(&d.name, &d.payload)
		due = append(due, d)
		return err
	}})
	if err != nil {
		return nil, fail("tick", "", 0, err)
	}
	var ticked []sqlstore.Ticked
	// pass fires what it can and returns what it would have had to wait for longer than that.
	pass := func(due []schedule, wait func() time.Duration) (locked []schedule, busy, err error) {
		for _, d := range due {
			l := ordinary
			if d.payload*sqlstore.MaxCatchUpFires > statementBytes {
				l = slow // it may be a gigabyte
			}
			one, err := s.tickOne(ctx, l, d.name, wait(), plan)
			if one != nil {
				ticked = append(ticked, *one)
			}
			switch {
			case err == nil:
			case errors.Is(kind(err), sqlstore.ErrBusy):
				locked, busy = append(locked, d), cmp.Or(busy, failSchedule("tick", d.name, err))
			default:
				return nil, nil, failSchedule("tick", d.name, err)
			}
		}
		return locked, busy, nil
	}
	locked, _, err := pass(due, func() time.Duration { return 0 })
	if err != nil || len(locked) == 0 {
		return ticked, err
	}
	end := time.Now().Add(s.options.busyTimeout())
	_, busy, err := pass(locked, func() time.Duration { return time.Until(end) })
	return ticked, cmp.Or(busy, err)
}

// tickOne is S5 for one schedule. It is read again under its lock: another process may have fired it, paused it or
// changed it since. Nil if so. A wait bounds how long it waits for whoever has locked it.
func (s *Store) tickOne(
	ctx context.Context, l lane, name string, wait time.Duration,
	plan func(now int64, due sqlstore.Schedule) (sqlstore.Plan, error),
) (ticked *sqlstore.Ticked, err error) {
	err = s.transaction(ctx, l, func(ctx context.Context, t *tx) error {
		due, err := t.schedule(ctx, name, &wait)
		if err != nil || due == nil || due.Paused || due.NextFireAt > *t.clock {
			return err
		}
		ticked = &sqlstore.Ticked{Name: name, Queue: due.Queue}
		p, err := plan(*t.clock, *due)
		if err == nil && len(p.Boundaries) > sqlstore.MaxCatchUpFires {
			err = fmt.Errorf("plan of %d jobs, at most %d are allowed", len(p.Boundaries), sqlstore.MaxCatchUpFires)
		}
		if err != nil {
			ticked.Err = failSchedule("fire", name, err)
			return nil
		}
		advance := step{"schedule_advance", args{"name": name, "next_fire_at": p.NextFireAt}, nil}
		ticked.IDs, err = t.fire(ctx, due, p.Boundaries, advance)
		return err
	})
	if err != nil {
		return nil, err
	}
	return ticked, nil
}

// FireNow implements [sqlstore.Schedules].
func (s *Store) FireNow(
	ctx context.Context, name string, check func(sqlstore.Schedule) error,
) (id int64, ok bool, err error) {
	err = s.transaction(ctx, ordinary, func(ctx context.Context, t *tx) error {
		schedule, err := t.schedule(ctx, name, nil)
		if err != nil || schedule == nil {
			return err
		}
		if err := check(*schedule); err != nil {
			return err
		}
		ids, err := t.fire(ctx, schedule, []int64{*t.clock})
		if err == nil {
			id, ok = ids[0], true
		}
		return err
	})
	if err != nil {
		return 0, false, failSchedule("fire", name, err)
	}
	return id, ok, nil
}

// fire enqueues one job of a schedule for each boundary, in their order (S7), and takes the steps that go with it.
func (t *tx) fire(ctx context.Context, by *sqlstore.Schedule, boundaries []int64, with ...step) ([]int64, error) {
	if len(boundaries) == 0 {
		return nil, t.run(ctx, with...)
	}
	job := sqlstore.NewJob{
		Queue: by.Queue, Payload: by.Payload, Priority: by.Fire.Priority, ExpiresS: by.Fire.ExpiresS, Stamps: by.Fire.Stamps,
	}
	if err := hopeless([]sqlstore.NewJob{job}); err != nil {
		return nil, err
	}
	var ids []int64
	for part := range slices.Chunk(boundaries, max(1, statementBytes/max(1, len(by.Payload)))) {
		var jobs columns
		for _, boundary := range part {
			jobs.add(&job, &by.Name, &boundary)
		}
		if err := t.run(ctx, jobs.insert(&ids)); err != nil {
			return nil, err
		}
	}
	return unlessFailed(ids, t.wake(ctx, ahead, []string{by.Queue}, with...))
}

// schedule reads a schedule, nil if there is none, and keeps others from changing it or making it until the transaction
// ends. A wait that is not nil bounds how long it waits for them, and nothing that comes after it.
func (t *tx) schedule(ctx context.Context, name string, wait *time.Duration) (found *sqlstore.Schedule, err error) {
	lock := []step{{"schedule_lock", args{"schema": t.store.schema, "name": name}, nil}}
	get := []step{{"schedule_get", args{"name": name}, func(row scanner) error {
		schedule, err := scanSchedule(row)
		found = &schedule
		return err
	}}}
	if wait != nil {
		lock = append([]step{waitFor(milliseconds(*wait))}, lock...)
		get = append(get, waitFor(t.store.lockTimeout))
	}
	if err := t.run(ctx, lock...); err != nil {
		return nil, err
	}
	// Only now, so that it sees what was committed while this waited for the lock.
	err = t.run(ctx, get...)
	return found, err
}

// scanSchedule reads the columns that schedule_get.sql lists.
func scanSchedule(row scanner) (s sqlstore.Schedule, err error) {
	err = row.Scan(&s.Name, &s.Queue, &s.Spec, &s.Payload, &s.Fire.Priority, &s.Fire.ExpiresS,
		&s.Fire.Stamps.VisibilityTimeoutS, &s.Fire.Stamps.MaxAttempts, &s.Fire.Stamps.BackoffBaseS,
		&s.Fire.Stamps.DeadLetterRetentionS, &s.Anchor, &s.CatchUp, &s.NextFireAt, &s.Paused, &s.CreatedAt)
	return s, err
}

// failSchedule is fail with the name of a schedule as the object.
func failSchedule(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return fail(fmt.Sprintf("%s schedule %q", op, name), "", 0, err)
}
