package sqlite

import (
	"context"
	"database/sql"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// held is a claim that holds: what the operations on it need to know.
type held struct {
	id, fence, attempts, maxAttempts int64
	spilled                          bool
}

// hold asks which claims hold (H1). The write lock keeps the answer true until the transaction ends.
//
// The one predicate of every operation on a claim is held.sql and the comparison of the fences here: taking pairs apart
// costs SQLite more than all else it has to do for an ack.
func (t *tx) hold(ctx context.Context, handles []sqlstore.Handle) (map[sqlstore.Handle]held, error) {
	asked := make(map[sqlstore.Handle]bool, len(handles))
	ids := make([]int64, len(handles))
	for i, h := range handles {
		asked[h] = true
		ids[i] = h.ID
	}
	holding := make(map[sqlstore.Handle]held, len(handles))
	err := t.query(ctx, "held", func(rows *sql.Rows) error {
		var h held
		var fence integer
		if err := rows.Scan(&h.id, &fence, &h.attempts, &h.maxAttempts, &h.spilled); err != nil {
			return err
		}
		h.fence = fence.value
		if handle := (sqlstore.Handle{ID: h.id, Fence: h.fence}); asked[handle] {
			holding[handle] = h
		}
		return nil
	}, sql.Named("ids", jsonOf(ids)), sql.Named("now", t.now))
	return holding, err
}

// ending is hold for operations that end the claim: a handle given twice holds only the first time.
func (t *tx) ending(ctx context.Context, handles []sqlstore.Handle, each func(i int, h held)) error {
	holding, err := t.hold(ctx, handles)
	if err != nil {
		return err
	}
	for i, handle := range handles {
		if h, ok := holding[handle]; ok {
			delete(holding, handle)
			each(i, h)
		}
	}
	return nil
}

// AckBatch implements [sqlstore.Claims].
func (s *Store) AckBatch(ctx context.Context, handles []sqlstore.Handle) (acked []bool, err error) {
	if len(handles) == 0 {
		return nil, nil
	}
	err = s.writing(ctx, ordinary, len(handles), func(ctx context.Context, t *tx) error {
		acked, err = t.ack(ctx, handles)
		return err
	})
	return unlessFailed(acked, fail("ack", "", single(handles), err))
}

// AckBatchTx implements [sqlstore.Claims].
func (s *Store) AckBatchTx(ctx context.Context, callers sqlstore.Tx, handles []sqlstore.Handle) (acked []bool, err error) {
	if len(handles) == 0 {
		return nil, nil
	}
	err = s.inside(ctx, callers, func(ctx context.Context, t *tx) error {
		acked, err = t.ack(ctx, handles)
		return err
	})
	return unlessFailed(acked, fail("ack", "", single(handles), err))
}

func (t *tx) ack(ctx context.Context, handles []sqlstore.Handle) ([]bool, error) {
	acked := make([]bool, len(handles))
	var gone removal
	err := t.ending(ctx, handles, func(i int, h held) {
		acked[i] = true
		gone.add(h.id, h.spilled, h.fence > 1)
	})
	if err != nil {
		return nil, err
	}
	return acked, t.remove(ctx, "delete_live", gone)
}

// Heartbeat implements [sqlstore.Claims].
func (s *Store) Heartbeat(ctx context.Context, extensions []sqlstore.Extension) (extended []bool, err error) {
	if len(extensions) == 0 {
		return nil, nil
	}
	handles := make([]sqlstore.Handle, len(extensions))
	for i, e := range extensions {
		handles[i] = e.Handle
	}
	err = s.writing(ctx, urgent, len(extensions), func(ctx context.Context, t *tx) error {
		holding, err := t.hold(ctx, handles)
		if err != nil {
			return err
		}
		extended = make([]bool, len(extensions))
		var moves [][2]*int64
		for i, e := range extensions {
			if _, ok := holding[e.Handle]; ok {
				extended[i] = true
				moves = append(moves, [2]*int64{&e.ID, e.S})
			}
		}
		if len(moves) == 0 {
			return nil
		}
		_, err = t.exec(ctx, "heartbeat", sql.Named("extensions", jsonOf(moves)), sql.Named("now", t.now))
		return err
	})
	return unlessFailed(extended, fail("heartbeat", "", single(handles), err))
}

// Retry implements [sqlstore.Claims].
func (s *Store) Retry(ctx context.Context, retries []sqlstore.Retrial) (verdicts []sqlstore.Verdict, err error) {
	if len(retries) == 0 {
		return nil, nil
	}
	handles := make([]sqlstore.Handle, len(retries))
	for i, r := range retries {
		handles[i] = r.Handle
	}
	err = s.writing(ctx, ordinary, len(retries), func(ctx context.Context, t *tx) error {
		verdicts = make([]sqlstore.Verdict, len(retries))
		var again [][3]any
		var deaths []death
		var failures []failure
		err := t.ending(ctx, handles, func(i int, h held) {
			r := retries[i]
			failures = append(failures, failure{id: h.id, fence: h.fence, attempt: h.attempts, text: r.Error, stack: r.Stack})
			if h.attempts < h.maxAttempts {
				verdicts[i] = sqlstore.Retrying
				again = append(again, [3]any{h.id, r.DelayS, r.Error})
			} else {
				verdicts[i] = sqlstore.Buried
				deaths = append(deaths, death{id: h.id, text: r.DeadText})
			}
		})
		if err != nil {
			return err
		}
		if err := t.recordFailures(ctx, failures); err != nil {
			return err
		}
		if len(again) > 0 {
			if _, err := t.exec(ctx, "retry", sql.Named("retries", jsonOf(again)), sql.Named("now", t.now)); err != nil {
				return err
			}
			t.wake("")
		}
		return t.bury(ctx, deaths)
	})
	return unlessFailed(verdicts, fail("retry", "", single(handles), err))
}

// Fail implements [sqlstore.Claims].
func (s *Store) Fail(ctx context.Context, failing []sqlstore.Failing) (failed []bool, err error) {
	if len(failing) == 0 {
		return nil, nil
	}
	handles := make([]sqlstore.Handle, len(failing))
	for i, f := range failing {
		handles[i] = f.Handle
	}
	err = s.writing(ctx, ordinary, len(failing), func(ctx context.Context, t *tx) error {
		failed = make([]bool, len(failing))
		var deaths []death
		var failures []failure
		err := t.ending(ctx, handles, func(i int, h held) {
			f := failing[i]
			failed[i] = true
			failures = append(failures, failure{id: h.id, fence: h.fence, attempt: h.attempts, text: f.Error, stack: f.Stack})
			deaths = append(deaths, death{id: h.id, text: f.Error})
		})
		if err != nil {
			return err
		}
		if err := t.recordFailures(ctx, failures); err != nil {
			return err
		}
		return t.bury(ctx, deaths)
	})
	return unlessFailed(failed, fail("fail", "", single(handles), err))
}

// Release implements [sqlstore.Claims].
func (s *Store) Release(ctx context.Context, releases []sqlstore.Releasing) (released []bool, err error) {
	if len(releases) == 0 {
		return nil, nil
	}
	handles := make([]sqlstore.Handle, len(releases))
	for i, r := range releases {
		handles[i] = r.Handle
	}
	err = s.writing(ctx, ordinary, len(releases), func(ctx context.Context, t *tx) error {
		released = make([]bool, len(releases))
		var back [][2]int64
		err := t.ending(ctx, handles, func(i int, h held) {
			released[i] = true
			back = append(back, [2]int64{h.id, releases[i].DelayS})
		})
		if err != nil || len(back) == 0 {
			return err
		}
		t.wake("")
		_, err = t.exec(ctx, "release", sql.Named("releases", jsonOf(back)), sql.Named("now", t.now))
		return err
	})
	return unlessFailed(released, fail("release", "", single(handles), err))
}

// single is the job of handles if they are about one.
func single(handles []sqlstore.Handle) int64 {
	if len(handles) == 1 {
		return handles[0].ID
	}
	return 0
}
