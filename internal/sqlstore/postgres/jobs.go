package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// Cancel implements [sqlstore.Jobs].
func (s *Store) Cancel(ctx context.Context, ids []int64) ([]bool, error) {
	return s.each(ctx, "cancel", ids)
}

// after is what has to be seen by a statement of its own: a claim that the first one has waited for may have written
// failures that it could not see.
var after = map[string]string{"cancel": "cancel_failures"}

// Requeue implements [sqlstore.Jobs].
func (s *Store) Requeue(ctx context.Context, ids []int64) ([]bool, error) {
	return s.each(ctx, "requeue", ids, "")
}

// Purge implements [sqlstore.Jobs].
func (s *Store) Purge(ctx context.Context, ids []int64) ([]bool, error) {
	return s.each(ctx, "purge", ids)
}

// each runs a statement that names those of ids which there were.
func (s *Store) each(ctx context.Context, name string, ids []int64, wakes ...string) (there []bool, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	inOrder := slices.Sorted(slices.Values(ids)) // see batch
	err = s.writing(ctx, slow, func(ctx context.Context, t *tx) error {
		named := make(map[int64]bool, len(ids))
		of := step{name, args{"ids": inOrder}, func(row scanner) error {
			var id int64
			err := row.Scan(&id)
			named[id] = true
			return err
		}}
		var err error
		steps := []step{of}
		if then, ok := after[name]; ok {
			steps = append(steps, step{then, args{"ids": inOrder}, nil})
		}
		if len(wakes) > 0 {
			err = t.wake(ctx, behind, wakes, steps...)
		} else {
			err = t.run(ctx, steps...)
		}
		there = make([]bool, len(ids))
		for i, id := range ids {
			there[i] = named[id]
			delete(named, id) // a job given twice is there once
		}
		return err
	})
	var id int64
	if len(ids) == 1 {
		id = ids[0]
	}
	return unlessFailed(there, fail(name, "", id, err))
}

// RequeueMatching implements [sqlstore.Jobs].
func (s *Store) RequeueMatching(ctx context.Context, f sqlstore.DeadFilter, limit int64) (int64, error) {
	return s.matching(ctx, "requeue", "requeue_matching", f, limit, "")
}

// PurgeMatching implements [sqlstore.Jobs].
func (s *Store) PurgeMatching(ctx context.Context, f sqlstore.DeadFilter, limit int64) (int64, error) {
	return s.matching(ctx, "purge", "purge_matching", f, limit)
}

// matching leaves what somebody has locked to the end, and then says that it is there: whoever asked for all that match
// must not be told that this was all. What was done by then counts.
func (s *Store) matching(
	ctx context.Context, op, name string, f sqlstore.DeadFilter, limit int64, wakes ...string,
) (done int64, err error) {
	left, err := s.comeBack(ctx, func() (left bool, err error) {
		var n int64
		err = s.writing(ctx, slow, func(ctx context.Context, t *tx) error {
			of := step{name, args{"queue": f.Queue, "older_than_s": f.OlderThanS, "limit": max(limit-done, 0)},
				func(row scanner) error { return row.Scan(&n, &left) }}
			if len(wakes) > 0 {
				return t.wake(ctx, behind, wakes, of)
			}
			return t.run(ctx, of)
		})
		if err == nil {
			done += n
		}
		return left, err
	})
	if err == nil && left {
		err = fmt.Errorf("%w: some jobs that match are left", sqlstore.ErrBusy)
	}
	return done, fail(op, f.Queue, 0, err)
}

// SetPaused implements [sqlstore.Jobs].
func (s *Store) SetPaused(ctx context.Context, queue string, paused bool) error {
	op := "pause"
	if !paused {
		op = "resume"
	}
	err := s.writing(ctx, ordinary, func(ctx context.Context, t *tx) error {
		if paused {
			return t.run(ctx, step{"set_paused", args{"queue": queue}, nil})
		}
		return t.wake(ctx, ahead, []string{queue}, step{"set_resumed", args{"queue": queue}, nil})
	})
	return fail(op, queue, 0, err)
}

// SweepExpired implements [sqlstore.Jobs]. What somebody has locked, as a claim does for a moment, is waited for as long as
// any call waits for a lock, after all else is swept; then it is left for the next sweep.
func (s *Store) SweepExpired(ctx context.Context, queue, text string) (all sqlstore.Swept, err error) {
	_, err = s.comeBack(ctx, func() (bool, error) {
		swept, left, err := s.sweep(ctx, queue, text)
		if err == nil {
			all.Expired += swept.Expired
			all.Dropped += swept.Dropped
			all.Repaired += swept.Repaired
		}
		return left, err
	})
	return all, fail("sweep", queue, 0, err)
}

// longestPause bounds the pauses between two looks for rows that were locked.
const longestPause = 100 * time.Millisecond

// comeBack repeats a pass over all rows but those that somebody has locked until none is left, or until it has waited for
// them as long as any call waits for a lock.
func (s *Store) comeBack(ctx context.Context, pass func() (left bool, err error)) (left bool, err error) {
	left, err = pass()
	end := time.Now().Add(s.options.busyTimeout())
	for pause := time.Millisecond; err == nil && left && time.Now().Before(end); pause = min(2*pause, longestPause) {
		select {
		case <-time.After(min(pause, time.Until(end))):
		case <-ctx.Done(): // the next pass says so
		}
		left, err = pass()
	}
	return left, err
}

// sweep does what nobody keeps it from, and says whether anything is left.
func (s *Store) sweep(ctx context.Context, queue, text string) (swept sqlstore.Swept, left bool, err error) {
	err = s.writing(ctx, slow, func(ctx context.Context, t *tx) error {
		err := t.run(ctx, step{"sweep", args{"queue": queue, "text": cleaned(text)}, func(row scanner) error {
			return row.Scan(&swept.Expired, &swept.Dropped, &swept.Repaired, &left)
		}})
		if swept.Repaired > 0 {
			t.rouse(ahead, queue)
		}
		return err
	})
	return swept, left, err
}
