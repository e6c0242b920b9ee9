package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// Register implements [sqlstore.Schedules].
func (s *Store) Register(
	ctx context.Context, name string, change func(now int64, have *sqlstore.Schedule) (*sqlstore.Schedule, error),
) error {
	err := s.writing(ctx, ordinary, alone, func(ctx context.Context, t *tx) error {
		have, err := t.schedule(ctx, name)
		if err != nil {
			return err
		}
		want, err := change(t.now, have)
		if err != nil || want == nil {
			return err
		}
		want.Name = name
		t.wake(want.Queue)
		return t.putSchedule(ctx, want)
	})
	return failSchedule("register", name, err)
}

// Unregister implements [sqlstore.Schedules].
func (s *Store) Unregister(ctx context.Context, name string) (there bool, err error) {
	err = s.writing(ctx, ordinary, alone, func(ctx context.Context, t *tx) error {
		n, err := t.affected(ctx, "schedule_delete", sql.Named("name", name))
		there = n > 0
		return err
	})
	return there && err == nil, failSchedule("unregister", name, err)
}

// ListSchedules implements [sqlstore.Schedules].
func (s *Store) ListSchedules(ctx context.Context) (all []sqlstore.Schedule, err error) {
	err = s.reading(ctx, func(int64) error {
		return s.read.query(ctx, "schedule_list", func(rows *sql.Rows) error {
			schedule, err := scanSchedule(rows)
			all = append(all, schedule)
			return err
		})
	})
	return unlessFailed(all, fail("list schedules", "", 0, err))
}

// Soonest implements [sqlstore.Schedules].
func (s *Store) Soonest(ctx context.Context) (now int64, next *int64, err error) {
	done, err := s.call()
	if err != nil {
		return 0, nil, fail("look for due schedules", "", 0, err)
	}
	defer done()
	var moved sql.NullInt64
	if clock := s.options.Clock; clock != nil {
		moved = sql.NullInt64{Int64: clock(), Valid: true}
	}
	var at integer
	if err = ctx.Err(); err == nil {
		// An idle worker asks this each second and little else. A context that may end would cost two goroutines.
		_, err = s.read.one(context.WithoutCancel(ctx), "schedule_soonest", []any{&now, &at}, sql.Named("now", moved))
	}
	if err != nil {
		return 0, nil, fail("look for due schedules", "", 0, err)
	}
	return now, at.pointer(), nil
}

// Tick implements [sqlstore.Schedules].
func (s *Store) Tick(
	ctx context.Context, plan func(now int64, due sqlstore.Schedule) (sqlstore.Plan, error),
) ([]sqlstore.Ticked, error) {
	var due []string
	err := s.reading(ctx, func(now int64) error {
		return s.read.query(ctx, "schedule_due", func(rows *sql.Rows) error {
			var name string
			err := rows.Scan(&name)
			due = append(due, name)
			return err
		}, sql.Named("now", now))
	})
	if err != nil {
		return nil, fail("tick", "", 0, err)
	}
	var ticked []sqlstore.Ticked
	for _, name := range due {
		one, err := s.tickOne(ctx, name, plan)
		if err != nil {
			return ticked, failSchedule("tick", name, err)
		}
		if one != nil {
			ticked = append(ticked, *one)
		}
	}
	return ticked, nil
}

// tickOne is S5 for one schedule. It is read again under the write lock: another process may have fired it, paused it
// or changed it since. Nil if so.
func (s *Store) tickOne(
	ctx context.Context, name string, plan func(now int64, due sqlstore.Schedule) (sqlstore.Plan, error),
) (ticked *sqlstore.Ticked, err error) {
	err = s.writing(ctx, ordinary, alone, func(ctx context.Context, t *tx) error {
		due, err := t.schedule(ctx, name)
		if err != nil || due == nil || due.Paused || due.NextFireAt > t.now {
			return err
		}
		ticked = &sqlstore.Ticked{Name: name, Queue: due.Queue}
		p, err := plan(t.now, *due)
		if err == nil && len(p.Boundaries) > sqlstore.MaxCatchUpFires {
			err = fmt.Errorf("plan of %d jobs, at most %d are allowed", len(p.Boundaries), sqlstore.MaxCatchUpFires)
		}
		if err != nil {
			ticked.Err = failSchedule("fire", name, err)
			return nil
		}
		for _, boundary := range p.Boundaries {
			id, err := t.fire(ctx, due, boundary)
			if err != nil {
				return err
			}
			ticked.IDs = append(ticked.IDs, id)
		}
		_, err = t.exec(ctx, "schedule_advance", sql.Named("name", name), sql.Named("next_fire_at", p.NextFireAt))
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
	err = s.writing(ctx, ordinary, alone, func(ctx context.Context, t *tx) error {
		schedule, err := t.schedule(ctx, name)
		if err != nil || schedule == nil {
			return err
		}
		if err := check(*schedule); err != nil {
			return err
		}
		ok = true
		id, err = t.fire(ctx, schedule, t.now)
		return err
	})
	if err != nil {
		return 0, false, failSchedule("fire", name, err)
	}
	return id, ok, nil
}

// fire enqueues one job of a schedule (S7).
func (t *tx) fire(ctx context.Context, by *sqlstore.Schedule, boundary int64) (int64, error) {
	if err := t.giveBack(ctx); err != nil {
		return 0, err
	}
	job := sqlstore.NewJob{
		Queue: by.Queue, Payload: by.Payload, Priority: by.Fire.Priority, ExpiresS: by.Fire.ExpiresS, Stamps: by.Fire.Stamps,
	}
	m, err := t.mold(&job)
	if err != nil {
		return 0, err
	}
	m.fired = fired{schedule: by.Name, boundary: boundary}
	t.wake(by.Queue)
	return t.cast(ctx, m, []sqlstore.NewJob{job})
}

func (t *tx) schedule(ctx context.Context, name string) (found *sqlstore.Schedule, err error) {
	err = t.query(ctx, "schedule_get", func(rows *sql.Rows) error {
		schedule, err := scanSchedule(rows)
		found = &schedule
		return err
	}, sql.Named("name", name))
	return found, err
}

func (t *tx) putSchedule(ctx context.Context, w *sqlstore.Schedule) error {
	payload := w.Payload
	if payload == nil {
		payload = []byte{}
	}
	_, err := t.exec(ctx, "schedule_put",
		sql.Named("name", w.Name), sql.Named("queue", w.Queue), sql.Named("spec", w.Spec), sql.Named("payload", payload),
		sql.Named("priority", w.Fire.Priority), sql.Named("expires_s", optional(w.Fire.ExpiresS)),
		sql.Named("visibility_timeout_s", w.Fire.Stamps.VisibilityTimeoutS),
		sql.Named("max_attempts", w.Fire.Stamps.MaxAttempts),
		sql.Named("backoff_base_s", w.Fire.Stamps.BackoffBaseS),
		sql.Named("dead_letter_retention_s", optional(w.Fire.Stamps.DeadLetterRetentionS)),
		sql.Named("anchor", optional(w.Anchor)), sql.Named("catch_up", w.CatchUp),
		sql.Named("next_fire_at", w.NextFireAt), sql.Named("paused", w.Paused), sql.Named("now", t.now),
	)
	return err
}

func scanSchedule(rows *sql.Rows) (s sqlstore.Schedule, err error) {
	var expires, retention, anchor, priority, visibility, attempts, backoff, catchUp, next, paused, created integer
	err = rows.Scan(&s.Name, &s.Queue, &s.Spec, &s.Payload, &priority, &expires, &visibility, &attempts, &backoff,
		&retention, &anchor, &catchUp, &next, &paused, &created)
	if s.Payload == nil {
		s.Payload = []byte{}
	}
	s.Fire = sqlstore.FireOptions{Priority: priority.value, ExpiresS: expires.pointer(), Stamps: sqlstore.Stamps{
		VisibilityTimeoutS: visibility.value, MaxAttempts: attempts.value, BackoffBaseS: backoff.value,
		DeadLetterRetentionS: retention.pointer(),
	}}
	s.Anchor, s.CatchUp, s.NextFireAt = anchor.pointer(), catchUp.value, next.value
	s.Paused, s.CreatedAt = paused.value != 0, created.value
	return s, err
}

// failSchedule is fail with the name of a schedule as the object.
func failSchedule(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return fail(fmt.Sprintf("%s schedule %q", op, name), "", 0, err)
}
