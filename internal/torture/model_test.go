package torture

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/memory"
	"github.com/alkstore/alkworker/internal/sqlstore/storetest"
)

// sequences is how many random sequences of operations go test does with each store, and length how many operations one
// has on average.
const (
	sequences = 2_000
	length    = 20
)

// TestModel does the same random things to a store and to the one in memory, and compares each answer, and the whole
// state after each step. What fails is shortened before it is shown. // D5
func TestModel(t *testing.T) {
	t.Parallel()
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			d, ok := s.create(t, nil)
			if !ok {
				return
			}
			handles := []sqlstore.Store{d.exactHandle(t), d.exactHandle(t)}
			steps, each := 0, sequences/20
			setFlag(t, "rapid.checks", strconv.Itoa(each))
			setFlag(t, "rapid.steps", strconv.Itoa(length))
			n := rounds(t, 20/s.part, func(t *testing.T, seed uint64) {
				setFlag(t, "rapid.seed", strconv.FormatUint(seed, 10))
				rapid.Check(t, func(rt *rapid.T) {
					w := newTwins(t, rt, d, handles)
					rt.Repeat(w.moves())
					steps += w.steps
					w.last(rt)
				})
			})
			t.Logf("%d sequences of %d steps in all", n*each, steps)
		})
	}
}

// twins are a store and its model. Jobs go by their ordinals, the order in which they were enqueued, from 1: the ids of
// the two need not agree.
type twins struct {
	clock   storetest.Clock
	d       *database
	subject *world
	handles []sqlstore.Store // on the subject's database; each step uses either
	model   *world
	claims  []sqlstore.Handle      // all that were handed out, with ordinals
	seen    map[int64]sqlstore.Row // as of the last comparison, by ordinal
	steps   int
}

// world is one of the two.
type world struct {
	store    sqlstore.Store
	ids      []int64
	ordinals map[int64]int64
}

func newTwins(t *testing.T, rt *rapid.T, d *database, handles []sqlstore.Store) *twins {
	if err := d.empty(t.Context()); err != nil {
		rt.Fatal(err)
	}
	d.clock.Set(1_700_000_000)
	return &twins{
		clock:   d.clock,
		d:       d,
		subject: &world{store: handles[0], ordinals: make(map[int64]int64)},
		handles: handles,
		model:   &world{store: memory.New(memory.Options{Clock: d.clock.Now}), ordinals: make(map[int64]int64)},
		seen:    make(map[int64]sqlstore.Row),
	}
}

func (w *world) learn(ids []int64) []int64 {
	ordinals := []int64{}
	for _, id := range ids {
		w.ids = append(w.ids, id)
		w.ordinals[id] = int64(len(w.ids))
		ordinals = append(ordinals, w.ordinals[id])
	}
	return ordinals
}

// id is the inverse of an ordinal. Numbers that are none stand for themselves, far away from any job.
func (w *world) id(ordinal int64) int64 {
	if ordinal < 1 || ordinal > int64(len(w.ids)) {
		return ordinal
	}
	return w.ids[ordinal-1]
}

func (w *world) idsOf(ordinals []int64) []int64 {
	ids := []int64{}
	for _, o := range ordinals {
		ids = append(ids, w.id(o))
	}
	return ids
}

func (w *world) handle(h sqlstore.Handle) sqlstore.Handle {
	return sqlstore.Handle{ID: w.id(h.ID), Fence: h.Fence}
}

func (w *world) rows(rows []sqlstore.Row) []sqlstore.Row {
	renamed := []sqlstore.Row{}
	for _, r := range rows {
		r.ID = w.ordinals[r.ID]
		renamed = append(renamed, r)
	}
	return renamed
}

// both does one thing to both and wants the same answer.
func (w *twins) both(rt *rapid.T, what string, do func(s *world) (any, error)) any {
	rt.Helper()
	w.subject.store = w.handles[rapid.IntRange(0, len(w.handles)-1).Draw(rt, "handle")]
	got, gotErr := do(w.subject)
	want, wantErr := do(w.model)
	if g, m := kindOf(gotErr), kindOf(wantErr); g != m {
		rt.Fatalf("%s: got error %v, the model's is %v", what, gotErr, wantErr)
	}
	if d := diff(want, got); d != "" {
		rt.Fatalf("%s: answers (-model +store):\n%s", what, d)
	}
	return want
}

// kinds are the errors that somebody may decide by.
var kinds = []error{
	sqlstore.ErrBusy, sqlstore.ErrFull, sqlstore.ErrNoID, sqlstore.ErrUnavailable, sqlstore.ErrReadOnly, sqlstore.ErrCorrupt, sqlstore.ErrGone,
	sqlstore.ErrNewer, sqlstore.ErrClosed, sqlstore.ErrUnsupported, sqlstore.ErrExpiresFirst, sqlstore.ErrTooLarge, errPlan,
}

// kindOf is what somebody may decide by, and "" for no error. T5
func kindOf(err error) string {
	if err == nil {
		return ""
	}
	var typed *sqlstore.Error
	kind := "error"
	if !errors.As(err, &typed) {
		kind = "untyped error"
	}
	for _, k := range kinds {
		if errors.Is(err, k) {
			kind += ": " + k.Error()
		}
	}
	return kind
}

// diff is cmp.Diff, which walks through payloads byte by byte, for values that differ.
func diff(want, got any) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	return cmp.Diff(want, got)
}

// compare looks at everything: every row, everything else that can be read, and what Check says.
func (w *twins) compare(rt *rapid.T) {
	w.steps++
	ctx := context.Background()
	var rows []sqlstore.Row
	w.both(rt, "state", func(s *world) (any, error) {
		all, err := s.store.ListJobs(ctx, sqlstore.Filter{Limit: 10_000, PayloadLimit: 1 << 20})
		rows = s.rows(all)
		return rows, err
	})
	w.both(rt, "reads", func(s *world) (any, error) {
		stats, err1 := s.store.Stats(ctx)
		names, err2 := s.store.Queues(ctx)
		now, next, err3 := s.store.NextReady(ctx, queues)
		at, due, err4 := s.store.Soonest(ctx)
		schedules, err5 := s.store.ListSchedules(ctx)
		idle, err6 := s.store.Idle(ctx, queues)
		return []any{
			append([]sqlstore.QueueStats{}, stats...), append([]string{}, names...), now, next, at, due,
			append([]sqlstore.Schedule{}, schedules...), idle,
		}, errors.Join(err1, err2, err3, err4, err5, err6)
	})
	now := make(map[int64]sqlstore.Row)
	for _, r := range rows {
		now[r.ID] = r
	}
	var changed []int64 // the rest of a job, its failures, changes only with its row
	for o := range w.model.ids {
		o := int64(o + 1)
		if r, ok := now[o]; ok != (w.seen[o].ID != 0) || ok && !reflect.DeepEqual(r, w.seen[o]) {
			changed = append(changed, o)
		}
	}
	w.whole(rt, changed)
	w.seen = now
	w.sound(rt)
}

// whole compares jobs as GetJob shows them.
func (w *twins) whole(rt *rapid.T, ordinals []int64) {
	w.both(rt, "jobs", func(s *world) (any, error) {
		full := []sqlstore.Row{}
		var errs []error
		for _, o := range ordinals {
			r, err := s.store.GetJob(context.Background(), s.id(o))
			errs = append(errs, err)
			if r != nil {
				full = append(full, s.rows([]sqlstore.Row{*r})...)
			}
		}
		return full, errors.Join(errs...)
	})
}

// sound is what Check says of the subject.
func (w *twins) sound(rt *rapid.T) {
	problems, err := w.subject.store.Check(context.Background())
	if err != nil || len(problems) > 0 {
		rt.Fatalf("Check: %+v, %v", problems, err)
	}
}

// last compares once more, jobs that nobody has touched included.
func (w *twins) last(rt *rapid.T) {
	w.whole(rt, slices.Collect(maps.Keys(w.seen)))
	if len(w.model.ids) != len(w.subject.ids) {
		rt.Fatal(fmt.Sprintf("%d jobs enqueued, the model has %d", len(w.subject.ids), len(w.model.ids)))
	}
}
