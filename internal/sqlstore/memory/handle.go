package memory

import (
	"context"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// AckBatch deletes jobs that are done.
func (s *Store) AckBatch(ctx context.Context, handles []sqlstore.Handle) ([]bool, error) {
	return onHeld(ctx, s, "ack", handles, itself, func(r *sqlstore.Row, _ sqlstore.Handle, _ int64) bool {
		delete(s.jobs, r.ID) // H2
		return true
	})
}

// AckBatchTx answers ErrUnsupported: there are no transactions to join.
func (s *Store) AckBatchTx(ctx context.Context, _ sqlstore.Tx, handles []sqlstore.Handle) ([]bool, error) {
	return nil, s.unsupported(ctx, "ack", "", only(handles, handleID))
}

// Heartbeat moves deadlines to now + the extension.
func (s *Store) Heartbeat(ctx context.Context, extensions []sqlstore.Extension) ([]bool, error) {
	handle := func(e sqlstore.Extension) sqlstore.Handle { return e.Handle }
	return onHeld(ctx, s, "heartbeat", extensions, handle, func(r *sqlstore.Row, e sqlstore.Extension, now int64) bool {
		deadline := after(now, r.Stamps.VisibilityTimeoutS) // H3
		if e.S != nil {
			deadline = after(now, *e.S)
		}
		r.ClaimExpiresAt = &deadline
		return true
	})
}

// Retry ends attempts that may be repeated: back to pending, or to the dead letters if none are left.
func (s *Store) Retry(ctx context.Context, retries []sqlstore.Retrial) ([]sqlstore.Verdict, error) {
	handle := func(re sqlstore.Retrial) sqlstore.Handle { return re.Handle }
	return onHeld(ctx, s, "retry", retries, handle, func(r *sqlstore.Row, re sqlstore.Retrial, now int64) sqlstore.Verdict {
		remember(r, now, re.Error, re.Stack)
		if r.Attempts >= r.Stamps.MaxAttempts {
			bury(r, now, re.DeadText) // H4
			return sqlstore.Buried
		}
		s.handBack(r, now, re.DelayS)
		r.LastError = &re.Error
		r.LapsedFence = 0
		return sqlstore.Retrying
	})
}

// Fail ends jobs for good: to the dead letters, whatever attempts are left.
func (s *Store) Fail(ctx context.Context, failures []sqlstore.Failing) ([]bool, error) {
	handle := func(f sqlstore.Failing) sqlstore.Handle { return f.Handle }
	return onHeld(ctx, s, "fail", failures, handle, func(r *sqlstore.Row, f sqlstore.Failing, now int64) bool {
		remember(r, now, f.Error, f.Stack)
		bury(r, now, f.Error) // H5
		return true
	})
}

// Release hands jobs back without spending the attempt.
func (s *Store) Release(ctx context.Context, releases []sqlstore.Releasing) ([]bool, error) {
	handle := func(re sqlstore.Releasing) sqlstore.Handle { return re.Handle }
	return onHeld(ctx, s, "release", releases, handle, func(r *sqlstore.Row, re sqlstore.Releasing, now int64) bool {
		s.handBack(r, now, re.DelayS)
		r.Attempts-- // H6
		return true
	})
}

// handBack makes a claimed job pending again.
func (s *Store) handBack(r *sqlstore.Row, now, delayS int64) {
	unclaim(r)
	r.State = sqlstore.Pending
	r.RunAt = after(now, delayS)
	s.woke(r.Queue)
}

// onHeld calls do for each element of a batch whose claim holds, in order, and answers with a zero A for the others. An
// element sees what those before it have done, so a handle that comes twice holds the second time only if it still does.
func onHeld[E, A any](
	ctx context.Context, s *Store, op string, batch []E,
	handle func(E) sqlstore.Handle, do func(r *sqlstore.Row, e E, now int64) A,
) ([]A, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return nil, failed(op, "", only(batch, func(e E) int64 { return handle(e).ID }), err)
	}
	defer s.mu.Unlock()
	answers := make([]A, len(batch))
	for i, e := range batch {
		if r := s.held(handle(e), now); r != nil {
			answers[i] = do(r, e, now)
		}
	}
	return answers, nil
}

func itself(h sqlstore.Handle) sqlstore.Handle { return h }

func handleID(h sqlstore.Handle) int64 { return h.ID }
