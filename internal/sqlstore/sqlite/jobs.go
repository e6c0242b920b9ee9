package sqlite

import (
	"context"
	"database/sql"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// Cancel implements [sqlstore.Jobs].
func (s *Store) Cancel(ctx context.Context, ids []int64) ([]bool, error) {
	return s.each(ctx, "cancel", "live", ids, func(ctx context.Context, t *tx, r removal) error {
		return t.remove(ctx, "delete_live", r)
	})
}

// Requeue implements [sqlstore.Jobs].
func (s *Store) Requeue(ctx context.Context, ids []int64) ([]bool, error) {
	return s.each(ctx, "requeue", "dead", ids, func(ctx context.Context, t *tx, r removal) error {
		return t.requeue(ctx, r.ids)
	})
}

// Purge implements [sqlstore.Jobs].
func (s *Store) Purge(ctx context.Context, ids []int64) ([]bool, error) {
	return s.each(ctx, "purge", "dead", ids, func(ctx context.Context, t *tx, r removal) error {
		return t.remove(ctx, "delete_dead", r)
	})
}

// each looks up which of ids there are and applies work to them in the same transaction.
func (s *Store) each(
	ctx context.Context, op, lookup string, ids []int64, work func(context.Context, *tx, removal) error,
) (there []bool, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	err = s.writing(ctx, ordinary, alone, func(ctx context.Context, t *tx) error {
		found, err := t.removals(ctx, lookup, sql.Named("ids", jsonOf(ids)))
		if err != nil {
			return err
		}
		left := make(map[int64]bool, len(found.ids))
		for _, id := range found.ids {
			left[id] = true
		}
		there = make([]bool, len(ids))
		for i, id := range ids {
			there[i] = left[id]
			delete(left, id) // a job given twice is there once
		}
		return work(ctx, t, found)
	})
	var id int64
	if len(ids) == 1 {
		id = ids[0]
	}
	return unlessFailed(there, fail(op, "", id, err))
}

// removals reads ids and whether their payloads are spilled. That a job has failures is not worth a look.
func (t *tx) removals(ctx context.Context, lookup string, args ...any) (found removal, err error) {
	seen := make(map[int64]bool)
	err = t.query(ctx, lookup, func(rows *sql.Rows) error {
		var id int64
		var spilled bool
		if err := rows.Scan(&id, &spilled); err != nil {
			return err
		}
		if !seen[id] {
			seen[id] = true
			found.add(id, spilled, true)
		}
		return nil
	}, args...)
	return found, err
}

func (t *tx) requeue(ctx context.Context, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	list := sql.Named("ids", jsonOf(ids))
	if _, err := t.exec(ctx, "requeue_insert", list, sql.Named("now", t.now)); err != nil {
		return err
	}
	t.wake("")
	_, err := t.exec(ctx, "delete_dead", list)
	return err
}

// RequeueMatching implements [sqlstore.Jobs].
func (s *Store) RequeueMatching(ctx context.Context, f sqlstore.DeadFilter, limit int64) (int64, error) {
	return s.matching(ctx, "requeue", f, limit, func(ctx context.Context, t *tx, r removal) error {
		return t.requeue(ctx, r.ids)
	})
}

// PurgeMatching implements [sqlstore.Jobs].
func (s *Store) PurgeMatching(ctx context.Context, f sqlstore.DeadFilter, limit int64) (int64, error) {
	return s.matching(ctx, "purge", f, limit, func(ctx context.Context, t *tx, r removal) error {
		return t.remove(ctx, "delete_dead", r)
	})
}

func (s *Store) matching(
	ctx context.Context, op string, f sqlstore.DeadFilter, limit int64, work func(context.Context, *tx, removal) error,
) (n int64, err error) {
	if limit < 1 {
		return 0, nil // SQLite takes a negative LIMIT for none at all
	}
	err = s.writing(ctx, ordinary, alone, func(ctx context.Context, t *tx) error {
		lookup := "dead_matching"
		args := []any{
			sql.Named("older_than_s", optional(f.OlderThanS)), sql.Named("now", t.now), sql.Named("limit", limit),
		}
		if f.Queue != "" {
			lookup = "dead_matching_queue"
			args = append(args, sql.Named("queue", f.Queue))
		}
		found, err := t.removals(ctx, lookup, args...)
		if err != nil {
			return err
		}
		n = int64(len(found.ids))
		return work(ctx, t, found)
	})
	if err != nil {
		return 0, fail(op, f.Queue, 0, err)
	}
	return n, nil
}

// SetPaused implements [sqlstore.Jobs].
func (s *Store) SetPaused(ctx context.Context, queue string, paused bool) error {
	op, statement := "resume", "set_resumed"
	if paused {
		op, statement = "pause", "set_paused"
	}
	err := s.writing(ctx, ordinary, alone, func(ctx context.Context, t *tx) error {
		if !paused {
			t.wake(queue)
		}
		_, err := t.exec(ctx, statement, sql.Named("queue", queue))
		return err
	})
	return fail(op, queue, 0, err)
}

// SweepExpired implements [sqlstore.Jobs].
func (s *Store) SweepExpired(ctx context.Context, queue, text string) (swept sqlstore.Swept, err error) {
	for more := true; more; {
		var part sqlstore.Swept
		err = s.writing(ctx, ordinary, alone, func(ctx context.Context, t *tx) error {
			part, err = t.sweep(ctx, queue, text)
			return err
		})
		if err != nil {
			return swept, fail("sweep", queue, 0, err)
		}
		swept.Expired += part.Expired
		swept.Dropped += part.Dropped
		swept.Repaired += part.Repaired
		more = part.Expired == bite || part.Dropped == bite
	}
	return swept, nil
}

// bite is how many jobs one transaction moves or deletes without having been asked for them by id: heartbeats and claims
// get their turns in between.
const bite = 500

func (t *tx) sweep(ctx context.Context, queue, text string) (swept sqlstore.Swept, err error) {
	q, now, limit := sql.Named("queue", queue), sql.Named("now", t.now), sql.Named("limit", bite)
	var deaths []death
	err = t.query(ctx, "sweep_expired", func(rows *sql.Rows) error {
		deaths = append(deaths, death{text: text})
		return rows.Scan(&deaths[len(deaths)-1].id)
	}, q, now, limit)
	if err != nil {
		return swept, err
	}
	if err := t.bury(ctx, deaths); err != nil {
		return swept, err
	}
	old, err := t.removals(ctx, "sweep_retention", q, now, limit)
	if err != nil {
		return swept, err
	}
	if err := t.remove(ctx, "delete_dead", old); err != nil {
		return swept, err
	}
	swept.Expired, swept.Dropped = int64(len(deaths)), int64(len(old.ids))
	swept.Repaired, err = t.affected(ctx, "sweep_repair", q, now)
	if swept.Repaired > 0 {
		t.wake(queue)
	}
	return swept, err
}
