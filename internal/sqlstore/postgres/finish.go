package postgres

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// batch is a list of claims on its way to the server.
type batch struct {
	handles []sqlstore.Handle
	// order has the places of handles by ascending id: most statements lock rows in this order, so that of two batches
	// with the same rows neither waits for the other while the other waits for it; for the rest see again. Of a handle that
	// is given twice it has the first place: an update takes any one of two rows that it is joined with.
	order []int
}

func batchOf[T any](list []T, handle func(T) sqlstore.Handle) batch {
	b := batch{handles: make([]sqlstore.Handle, len(list)), order: make([]int, len(list))}
	for i, v := range list {
		b.handles[i], b.order[i] = handle(v), i
	}
	slices.SortFunc(b.order, func(i, j int) int {
		x, y := b.handles[i], b.handles[j]
		return cmp.Or(cmp.Compare(x.ID, y.ID), cmp.Compare(x.Fence, y.Fence), cmp.Compare(i, j))
	})
	b.order = slices.CompactFunc(b.order, func(i, j int) bool { return b.handles[i] == b.handles[j] })
	return b
}

func (b batch) ids() []int64 {
	return column(b, func(i int) int64 { return b.handles[i].ID })
}

func (b batch) fences() []int64 {
	return column(b, func(i int) int64 { return b.handles[i].Fence })
}

// fence is that of all claims, or nil if they have not the same.
func (b batch) fence() *int64 {
	first := b.handles[0].Fence
	for _, h := range b.handles {
		if h.Fence != first {
			return nil
		}
	}
	return &first
}

// column is the array of what value says for each place, in the order of the batch.
func column[T any](b batch, value func(place int) T) []T {
	all := make([]T, len(b.order))
	for i, place := range b.order {
		all[i] = value(place)
	}
	return all
}

// held reads the rows of a statement that names the claims which held.
func held(ctx context.Context, t *tx, b batch, name string, more args) (map[sqlstore.Handle]bool, error) {
	all := args{"ids": b.ids(), "fences": b.fences()}
	for name, v := range more {
		all[name] = v
	}
	named := make(map[sqlstore.Handle]bool, len(b.handles))
	return named, t.run(ctx, step{name, all, nameIn(named)})
}

// nameIn adds the claim of each row.
func nameIn(named map[sqlstore.Handle]bool) func(row scanner) error {
	return func(row scanner) error {
		var h sqlstore.Handle
		err := row.Scan(&h.ID, &h.Fence)
		named[h] = true
		return err
	}
}

// once answers for each handle of an operation that ends claims: one that is given twice holds only the first time.
func (b batch) once(named map[sqlstore.Handle]bool) []bool {
	answers := make([]bool, len(b.handles))
	for i, h := range b.handles {
		answers[i] = named[h]
		delete(named, h)
	}
	return answers
}

func self(h sqlstore.Handle) sqlstore.Handle { return h }

// AckBatch implements [sqlstore.Claims].
func (s *Store) AckBatch(ctx context.Context, handles []sqlstore.Handle) (acked []bool, err error) {
	if len(handles) == 0 {
		return nil, nil
	}
	err = s.writing(ctx, ordinary, func(ctx context.Context, t *tx) error {
		acked, err = t.ack(ctx, handles)
		return err
	})
	return unlessFailed(acked, fail("ack", "", single(handles), err))
}

// AckBatchTx implements [sqlstore.Claims].
func (s *Store) AckBatchTx(ctx context.Context, outer sqlstore.Tx, handles []sqlstore.Handle) (acked []bool, err error) {
	if len(handles) == 0 {
		return nil, nil
	}
	err = s.inside(ctx, outer, func(ctx context.Context, t *tx) error {
		acked, err = t.ack(ctx, handles)
		return err
	})
	return unlessFailed(acked, fail("ack", "", single(handles), err))
}

func (t *tx) ack(ctx context.Context, handles []sqlstore.Handle) ([]bool, error) {
	b := batchOf(handles, self)
	named := make(map[sqlstore.Handle]bool, len(handles))
	err := t.run(ctx, step{"ack", args{"ids": b.ids(), "fences": b.fences(), "fence": b.fence()}, func(row scanner) error {
		var id, fence *int64
		if err := row.Scan(&id, &fence); err != nil {
			return err
		}
		if id != nil && fence != nil {
			named[sqlstore.Handle{ID: *id, Fence: *fence}] = true
			return nil
		}
		for _, h := range b.handles {
			named[h] = true
		}
		return nil
	}})
	return b.once(named), err
}

// patienceOfHeartbeats is how long to wait before each further try to move deadlines of jobs that somebody had locked.
// A claim locks a job for a moment that it takes for pending still; what is locked for longer is most likely about to end.
var patienceOfHeartbeats = [...]time.Duration{2 * time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond}

// Heartbeat implements [sqlstore.Claims].
func (s *Store) Heartbeat(ctx context.Context, extensions []sqlstore.Extension) (extended []bool, err error) {
	if len(extensions) == 0 {
		return nil, nil
	}
	last := make(map[sqlstore.Handle]*int64, len(extensions)) // a claim that is given twice holds after each
	all := make([]sqlstore.Handle, len(extensions))
	for i, e := range extensions {
		all[i], last[e.Handle] = e.Handle, e.S
	}
	holds, left, err := s.beat(ctx, all, last)
	for _, pause := range patienceOfHeartbeats {
		if err != nil || len(left) == 0 {
			break
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		again, still, failure := s.beat(ctx, left, last)
		if failure != nil {
			break // these hold as far as anybody knows, and the others do in any case
		}
		for _, h := range left {
			holds[h] = again[h]
		}
		left = still
	}
	extended = make([]bool, len(extensions))
	for i, h := range all {
		extended[i] = holds[h] // also the second time: the claim goes on
	}
	return unlessFailed(extended, fail("heartbeat", "", single(all), err))
}

// beat says which claims hold, and of those, whose deadlines it left as they are because somebody has the job locked.
func (s *Store) beat(
	ctx context.Context, handles []sqlstore.Handle, extensions map[sqlstore.Handle]*int64,
) (holds map[sqlstore.Handle]bool, left []sqlstore.Handle, err error) {
	b := batchOf(handles, self)
	err = s.writing(ctx, urgent, func(ctx context.Context, t *tx) error {
		holds, left = make(map[sqlstore.Handle]bool, len(handles)), nil
		return t.run(ctx, step{"heartbeat", args{
			"ids": b.ids(), "fences": b.fences(),
			"extensions_s": column(b, func(i int) *int64 { return extensions[b.handles[i]] }),
		}, func(row scanner) error {
			var h sqlstore.Handle
			var moved bool
			err := row.Scan(&h.ID, &h.Fence, &moved)
			if holds[h] = true; !moved {
				left = append(left, h)
			}
			return err
		}})
	})
	return holds, left, err
}

// Retry implements [sqlstore.Claims].
func (s *Store) Retry(ctx context.Context, retries []sqlstore.Retrial) (verdicts []sqlstore.Verdict, err error) {
	if len(retries) == 0 {
		return nil, nil
	}
	b := batchOf(retries, func(r sqlstore.Retrial) sqlstore.Handle { return r.Handle })
	err = s.writing(ctx, ordinary, func(ctx context.Context, t *tx) error {
		named := make(map[sqlstore.Handle]sqlstore.Verdict, len(retries))
		err := t.run(ctx, step{"retry", args{
			"ids": b.ids(), "fences": b.fences(), "keep": sqlstore.MaxFailures,
			"delays_s":   column(b, func(i int) int64 { return retries[i].DelayS }),
			"errors":     column(b, func(i int) string { return cleaned(retries[i].Error) }),
			"stacks":     column(b, func(i int) string { return cleaned(retries[i].Stack) }),
			"dead_texts": column(b, func(i int) string { return cleaned(retries[i].DeadText) }),
		}, func(row scanner) error {
			var h sqlstore.Handle
			var retrying bool
			err := row.Scan(&h.ID, &h.Fence, &retrying)
			named[h] = sqlstore.Buried
			if retrying {
				named[h] = sqlstore.Retrying
			}
			return err
		}})
		verdicts = make([]sqlstore.Verdict, len(retries))
		for i, h := range b.handles {
			verdicts[i] = named[h]
			delete(named, h)
		}
		at := ahead
		if slices.ContainsFunc(retries, func(r sqlstore.Retrial) bool { return r.DelayS <= 0 }) {
			at = behind
		}
		t.rouse(at, "") // only here: others look again before long, and a retry is seldom for now
		return err
	})
	return unlessFailed(verdicts, fail("retry", "", single(b.handles), err))
}

// Fail implements [sqlstore.Claims].
func (s *Store) Fail(ctx context.Context, failing []sqlstore.Failing) (failed []bool, err error) {
	if len(failing) == 0 {
		return nil, nil
	}
	b := batchOf(failing, func(f sqlstore.Failing) sqlstore.Handle { return f.Handle })
	err = s.writing(ctx, ordinary, func(ctx context.Context, t *tx) error {
		named, err := held(ctx, t, b, "fail", args{
			"keep":   sqlstore.MaxFailures,
			"errors": column(b, func(i int) string { return cleaned(failing[i].Error) }),
			"stacks": column(b, func(i int) string { return cleaned(failing[i].Stack) }),
		})
		failed = b.once(named)
		return err
	})
	return unlessFailed(failed, fail("fail", "", single(b.handles), err))
}

// Release implements [sqlstore.Claims].
func (s *Store) Release(ctx context.Context, releases []sqlstore.Releasing) (released []bool, err error) {
	if len(releases) == 0 {
		return nil, nil
	}
	b := batchOf(releases, func(r sqlstore.Releasing) sqlstore.Handle { return r.Handle })
	at := ahead
	if slices.ContainsFunc(releases, func(r sqlstore.Releasing) bool { return r.DelayS <= 0 }) {
		at = behind
	}
	err = s.writing(ctx, ordinary, func(ctx context.Context, t *tx) error {
		named := make(map[sqlstore.Handle]bool, len(releases))
		err := t.wake(ctx, at, []string{""}, step{"release", args{
			"ids": b.ids(), "fences": b.fences(), "delays_s": column(b, func(i int) int64 { return releases[i].DelayS }),
		}, nameIn(named)})
		released = b.once(named)
		return err
	})
	return unlessFailed(released, fail("release", "", single(b.handles), err))
}

// Locked implements [sqlstore.RowLocker].
func (s *Store) Locked(ctx context.Context, ids []int64) (locked []int64, err error) {
	err = s.writing(ctx, prompt, func(ctx context.Context, t *tx) error {
		locked = nil
		return t.run(ctx, step{"locked", args{"ids": ids}, appendID(&locked)})
	})
	return unlessFailed(locked, fail("look for locks", "", 0, err))
}

// single is the job of handles if they are about one.
func single(handles []sqlstore.Handle) int64 {
	if len(handles) == 1 {
		return handles[0].ID
	}
	return 0
}
