package torture

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/faultdriver"
	"github.com/alkstore/alkworker/internal/sqlstore/memory"
	"github.com/alkstore/alkworker/internal/sqlstore/storetest"
)

// faults are the ways in which one call can fail, and the kind that the caller is told. The codes are those of SQLite.
var faults = []struct {
	name string
	kind error
	faultdriver.Fault
	fresh bool // on a store that was just opened, which has to connect and prepare first
}{
	{name: "refused", kind: sqlstore.ErrUnavailable, Fault: faultdriver.Fault{Err: faultdriver.Error{Number: 10}}},
	{
		name: "refused_at_first_use", kind: sqlstore.ErrUnavailable, fresh: true,
		Fault: faultdriver.Fault{Err: faultdriver.Error{Number: 10}},
	},
	{name: "busy", kind: sqlstore.ErrBusy, Fault: faultdriver.Fault{Err: faultdriver.Error{Number: 5}}},
	{name: "done_and_the_answer_lost", kind: sqlstore.ErrUnavailable, Fault: faultdriver.Fault{Err: faultdriver.Error{Number: 10}, After: true}},
	{name: "rolled_back_by_the_database", kind: sqlstore.ErrFull, Fault: faultdriver.Fault{Err: faultdriver.Error{Number: 13}, Rollback: true}},
	{name: "broken_connection", kind: sqlstore.ErrUnavailable, Fault: faultdriver.Fault{Err: driver.ErrBadConn, Broken: true}},
}

// TestFaults fails each call that each operation makes, in each way: the caller is told, nothing is half done, nothing
// stays in use, and the same call once more ends right. // T6
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, s := range stores {
		if !s.wraps {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			var d *faultdriver.Driver
			db, _ := s.create(t, func(under driver.Driver) driver.Driver {
				d = faultdriver.New(under)
				return d
			})
			db.spare = d.Spare
			f := faulty{T: t, database: db, driver: d, store: db.handle(t)}
			var err error
			if f.scene, err = paint(t.Context(), f.store, f.clock); err != nil {
				t.Fatal(err)
			}
			f.do(f.keep)
			for _, op := range operations(t, db) {
				t.Run(op.name, func(t *testing.T) {
					f := f
					f.T = t
					f.every(op)
				})
			}
			f.alive()
			t.Logf("%d faults injected", d.Injected())
			if d.Injected() == 0 {
				t.Error("no fault was injected")
			}
		})
	}
}

// faulty is a store whose driver fails.
type faulty struct {
	*testing.T
	*database
	driver *faultdriver.Driver
	store  sqlstore.Store
	scene  scene
}

// run is what an operation answers and makes of the database.
type run struct {
	answer any
	dump   string
}

func (f faulty) do(what func(context.Context) error) {
	f.Helper()
	if err := what(f.Context()); err != nil {
		f.Fatal(err)
	}
}

func (f faulty) dumped() string {
	f.Helper()
	text, err := f.dump(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	return text
}

// once runs an operation that has to succeed.
func (f faulty) once(op operation) run {
	f.Helper()
	v, err := f.call(op)
	if err != nil {
		f.Fatalf("without a fault: %v", err)
	}
	return run{answer: v, dump: f.dumped()}
}

// opened is one more store, to be closed by closed.
func (f faulty) opened() sqlstore.Store {
	f.Helper()
	s, err := f.open(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	return s
}

func (f faulty) closed(fresh bool) {
	f.Helper()
	if !fresh {
		return
	}
	if err := f.store.Close(); err != nil {
		f.Fatalf("close: %v", err)
	}
}

// call runs an operation that must not hang.
func (f faulty) call(op operation) (any, error) {
	ctx, cancel := context.WithTimeout(f.Context(), 20*time.Second)
	defer cancel()
	return op.do(ctx, f.store, f.scene)
}

// every injects every fault at every call of an operation.
func (f faulty) every(op operation) {
	f.do(f.back)
	before := f.dumped()
	first := f.once(op)
	f.agrees(op, first.answer)
	second := f.once(op)
	injected := 0
	for i, kind := range faults {
		if i > 0 && !thorough {
			break
		}
		for n := 1; ; n++ {
			f := f
			if kind.fresh {
				f.store = f.opened()
			}
			f.do(f.back)
			kind.At = n
			f.driver.Arm(kind.Fault)
			v, err := f.call(op)
			where := f.driver.Disarm()
			if where == "" {
				if err != nil {
					f.Fatalf("%s at %d, without a fault: %v", kind.name, n, err)
				}
				f.closed(kind.fresh)
				break
			}
			injected++
			f.judge(kind.Fault, kind.kind, before, first, second, v, err, func(format string, args ...any) {
				f.Helper()
				f.Fatalf("%s at call %d, %s: "+format, append([]any{kind.name, n, where}, args...)...)
			}, where, op)
			f.closed(kind.fresh)
		}
	}
	if injected == 0 && op.name != "Now" { // with a clock of its own it asks nobody
		f.Error("no fault was injected")
	}
}

// judge looks at what one fault has led to.
func (f faulty) judge(
	kind faultdriver.Fault, told error, before string, first, second run, v any, err error, wrong func(format string, args ...any),
	where string, op operation,
) {
	f.Helper()
	f.settled(wrong)
	after := f.dumped()
	mayHaveHappened := kind.After && (strings.Contains(where, "COMMIT") || strings.Contains(where, "RELEASE"))
	var typed *sqlstore.Error
	switch {
	case err == nil && (after != first.dump || diff(first.answer, v) != ""): // it was made good on the way
		wrong("no error, and not what it should be: %v\n%s", v, diff(first.dump, after))
	case err == nil:
	case !errors.Is(err, told) || !kind.Broken && !errors.Is(err, kind.Err) || !errors.As(err, &typed) || typed.Op == "":
		wrong("the error is not the one that was injected, with an operation: %v", err)
	case after != before && (after != first.dump || !mayHaveHappened):
		wrong("failed, and changed something: %v\n%s", err, diff(before, after))
	}
	if err == nil {
		return
	}
	want := first
	if after == first.dump && after != before {
		want = second // it had happened
	}
	v, err = f.call(op)
	if again := f.dumped(); err != nil || again != want.dump || diff(want.answer, v) != "" {
		wrong("once more: answer %v, want %v; error %v; (-want +got)\n%s", v, want.answer, err, diff(want.dump, again))
	}
}

// settled fails the test if something is still in use, or anything is inconsistent.
func (f faulty) settled(wrong func(format string, args ...any)) {
	f.Helper()
	if open := f.driver.Settled(); open.Rows != 0 || open.Txs != 0 || open.Conns > 10 { // of two stores
		wrong("left in use: %+v", open)
	}
	if err := f.quiet(f.Context()); err != nil {
		wrong("%v", err)
	}
	if problems, err := f.store.Check(f.Context()); err != nil || len(problems) > 0 {
		wrong("Check: %+v, %v", problems, err)
	}
}

// agrees compares what an operation has made of the scene with what the model makes of it. D5
func (f faulty) agrees(op operation, got any) {
	f.Helper()
	clock := storetest.NewClock()
	m := memory.New(memory.Options{Clock: clock.Now})
	sc, err := paint(f.Context(), m, clock)
	if err != nil {
		f.Fatal(err)
	}
	do := op.do
	if op.model != nil {
		do = op.model
	}
	want, err := do(f.Context(), m, sc)
	if err != nil {
		f.Fatalf("the model: %v", err)
	}
	if d := diff(want, got); d != "" {
		f.Fatalf("answer (-model +store):\n%s", d)
	}
	modelled, err1 := see(f.Context(), m)
	seen, err2 := see(f.Context(), f.store)
	if err := errors.Join(err1, err2); err != nil {
		f.Fatal(err)
	}
	if d := diff(modelled, seen); d != "" {
		f.Fatalf("state (-model +store):\n%s", d)
	}
}

// alive uses all connections at once. K39
func (f faulty) alive() {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), 20*time.Second)
	defer cancel()
	var group errgroup.Group
	for range 16 {
		group.Go(func() error {
			_, err1 := f.store.GetJob(ctx, f.scene.plain.ID)
			_, err2 := f.store.Lead(ctx, "scheduler", "me", 10)
			_, err3 := f.store.Stats(ctx)
			return errors.Join(err1, err2, err3)
		})
	}
	if err := group.Wait(); err != nil {
		f.Errorf("after all faults: %v", err)
	}
}

// TestFaultsAtOpen fails each call of opening a database that is there, and one that is not.
func TestFaultsAtOpen(t *testing.T) {
	t.Parallel()
	for _, s := range stores {
		if !s.wraps {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			var d *faultdriver.Driver
			db, _ := s.create(t, func(under driver.Driver) driver.Driver {
				d = faultdriver.New(under)
				return d
			})
			for name, open := range map[string]func(context.Context) (sqlstore.Store, error){"old": db.open, "new": db.anew} {
				for i, kind := range faults {
					if kind.Err == (faultdriver.Error{Number: 5}) || i > 0 && !thorough {
						continue // opening waits for whoever is busy
					}
					for n, there := 1, true; there; n++ {
						kind.At = n
						d.Arm(kind.Fault)
						store, err := open(t.Context())
						where := d.Disarm()
						there = where != ""
						var typed *sqlstore.Error
						switch {
						case err == nil:
							_, err := store.Enqueue(t.Context(), []sqlstore.NewJob{{Queue: "q", Stamps: sqlstore.Stamps{MaxAttempts: 1}}})
							if err := errors.Join(err, store.Close()); err != nil {
								t.Errorf("%s database, %s at call %d, %s: use: %v", name, kind.name, n, where, err)
							}
						case !there, !errors.As(err, &typed):
							t.Errorf("%s database, %s at call %d, %s: %v", name, kind.name, n, where, err)
						}
						if open := d.InUse(); open != (faultdriver.Open{}) {
							t.Fatalf("%s database, %s at call %d, %s: left in use: %+v", name, kind.name, n, where, open)
						}
					}
				}
			}
			t.Logf("%d faults injected", d.Injected())
			if d.Injected() == 0 {
				t.Error("no fault was injected")
			}
		})
	}
}
