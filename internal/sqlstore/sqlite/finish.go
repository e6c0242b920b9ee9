package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// held is a claim that holds: what the operations on it need to know.
type held struct {
	id, fence, attempts, maxAttempts int64
	spilled                          bool
}

// hold hands each of the claims that holds to found, with its place in handles (H1). The write lock keeps the answer true
// until the transaction ends.
//
// The one predicate of every operation on a claim is held.sql, with the comparison of the fences here: taking pairs apart
// costs SQLite more than all else it has to do for an ack.
func (t *tx) hold(ctx context.Context, handles []sqlstore.Handle, found func(i int, h held)) error {
	ids := make([]int64, len(handles))
	for i, h := range handles {
		ids[i] = h.ID
	}
	return t.query(ctx, "held", func(rows *sql.Rows) error {
		var i int
		var fence integer
		var h held
		if err := rows.Scan(&i, &fence, &h.attempts, &h.maxAttempts, &h.spilled); err != nil {
			return err
		}
		if fence.known && fence.value == handles[i].Fence {
			h.id, h.fence = handles[i].ID, fence.value
			found(i, h)
		}
		return nil
	}, sql.Named("ids", jsonOf(ids)), sql.Named("now", t.now))
}

// ending is hold for operations that end the claim: a handle given twice holds only the first time.
func (t *tx) ending(ctx context.Context, handles []sqlstore.Handle, each func(i int, h held)) error {
	ended := make(map[int64]bool, len(handles))
	return t.hold(ctx, handles, func(i int, h held) {
		if !ended[h.id] {
			ended[h.id] = true
			each(i, h)
		}
	})
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
	all, err := t.ackAll(ctx, handles)
	if err != nil {
		return nil, err
	}
	if all {
		for i := range acked {
			acked[i] = true
		}
		return acked, nil
	}
	var gone removal
	err = t.ending(ctx, handles, func(i int, h held) {
		acked[i] = true
		gone.add(h.id, h.spilled, h.fence > 1)
	})
	if err != nil {
		return nil, err
	}
	return acked, t.remove(ctx, "delete_live", gone)
}

// ackAll acks claims of one fence, as most are, without a look at each. That does not say which of them hold: if not all do,
// nothing has happened.
func (t *tx) ackAll(ctx context.Context, handles []sqlstore.Handle) (done bool, err error) {
	ids := make([]int64, len(handles))
	fence := handles[0].Fence
	for i, h := range handles {
		if h.Fence != fence {
			return false, nil
		}
		ids[i] = h.ID
	}
	if len(handles) > 1 { // else it is all or none anyway
		if _, err := t.session.exec(ctx, "savepoint"); err != nil {
			return false, err
		}
		defer func() {
			if !done || err != nil {
				_, uerr := t.session.exec(ctx, "savepoint_rollback")
				err = errors.Join(err, uerr)
			}
			_, rerr := t.session.exec(ctx, "savepoint_release")
			err = errors.Join(err, rerr)
		}()
	}
	acked, err := t.each(ctx, "ack", "ack_span", ids, sql.Named("fence", fence), sql.Named("now", t.now))
	if err != nil || acked < int64(len(handles)) {
		return false, err
	}
	if fence > 1 {
		_, err = t.exec(ctx, "delete_failures", sql.Named("ids", jsonOf(ids)))
	}
	return true, err
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
		extended = make([]bool, len(extensions))
		var moves [][2]*int64
		err := t.hold(ctx, handles, func(i int, h held) {
			extended[i] = true
			moves = append(moves, [2]*int64{&h.id, extensions[i].S})
		})
		if err != nil || len(moves) == 0 {
			return err
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
