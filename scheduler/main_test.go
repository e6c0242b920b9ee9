package scheduler

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/memory"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
	"github.com/alkstore/alkworker/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Main(m)) }

// world is one database and the processes around it. Its clock is far from that of the processes: whoever compares the
// two fails (T1).
type world struct {
	*testing.T
	store  *memory.Store
	client *queue.Client
	offset int64 // seconds that the store's clock is ahead
	log    *logbook
}

// newWorld is for use inside a synctest bubble.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, offset: 500_000_000, log: new(logbook)}
	w.store = memory.New(memory.Options{Clock: func() int64 { return time.Now().Unix() + w.offset }})
	w.client = queue.NewClient(w.store, nil)
	return w
}

func (w *world) now() int64 { return time.Now().Unix() + w.offset }

// sleepUntil waits until the store's clock shows t, plus d.
func (w *world) sleepUntil(t int64, d time.Duration) {
	time.Sleep(time.Until(time.Unix(t-w.offset, 0).Add(d)))
}

// set registers a schedule and returns its next boundary.
func (w *world) set(s Schedule) int64 {
	w.Helper()
	if s.Queue == "" {
		s.Queue = "q"
	}
	if err := Set(w.Context(), w.client, s); err != nil {
		w.Fatal(err)
	}
	return w.get(s.Name).NextFireAt.Unix()
}

func (w *world) get(name string) Schedule {
	w.Helper()
	all, err := List(w.Context(), w.client)
	if err != nil {
		w.Fatal(err)
	}
	i := slices.IndexFunc(all, func(s Schedule) bool { return s.Name == name })
	if i < 0 {
		w.Fatalf("no schedule %q in %v", name, all)
	}
	return all[i]
}

// edit changes a stored schedule as somebody with a database shell would.
func (w *world) edit(name string, change func(*sqlstore.Schedule)) {
	w.Helper()
	err := w.store.Register(w.Context(), name, func(_ int64, have *sqlstore.Schedule) (*sqlstore.Schedule, error) {
		change(have)
		return have, nil
	})
	if err != nil {
		w.Fatal(err)
	}
}

// fired returns the boundaries that the jobs of a schedule were fired for, in the order of firing.
func (w *world) fired(schedule string) []int64 {
	w.Helper()
	jobs, err := w.client.List(w.Context(), queue.Filter{Limit: 1_000_000})
	if err != nil {
		w.Fatal(err)
	}
	slices.Reverse(jobs)
	var boundaries []int64
	for _, j := range jobs {
		if j.Schedule == schedule {
			boundaries = append(boundaries, j.ScheduledFor.Unix())
		}
	}
	return boundaries
}

// wantFired fails unless exactly the given boundaries were fired, each once, in order.
func (w *world) wantFired(schedule string, want []int64) {
	w.Helper()
	if got := w.fired(schedule); !slices.Equal(got, want) {
		w.Errorf("schedule %q fired for %v, want %v", schedule, got, want)
	}
}

// every lists n boundaries.
func every(first, interval, n int64) []int64 {
	all := make([]int64, n)
	for i := range all {
		all[i] = first + int64(i)*interval
	}
	return all
}

// process is a running scheduler.
type process struct {
	cancel context.CancelFunc
	done   chan error
}

// start runs a scheduler over the store, or over a faulty one.
func (w *world) start(config Config, store sqlstore.Store) *process {
	if store == nil {
		store = w.store
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.NewTextHandler(w.log, nil))
	}
	ctx, cancel := context.WithCancel(w.Context())
	p := &process{cancel: cancel, done: make(chan error, 1)}
	s := New(queue.NewClient(store, nil), config)
	go func() { p.done <- s.Run(ctx) }()
	return p
}

// stop is a TERM.
func (w *world) stop(processes ...*process) {
	w.Helper()
	for _, p := range processes {
		p.cancel()
	}
	for _, p := range processes {
		if err := <-p.done; err != nil {
			w.Errorf("Run returned %v, want nil after a stop", err)
		}
	}
}

// bubble runs a test of one world in a bubble of its own.
func bubble(t *testing.T, name string, test func(*world)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { test(newWorld(t)) })
	})
}

// logbook keeps log lines.
type logbook struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// lines returns those that contain every one of the words.
func (l *logbook) lines(words ...string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for line := range strings.Lines(l.buf.String()) {
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// faulty is a store whose calls by the scheduler fail when asked to, before or after they have done their work.
type faulty struct {
	sqlstore.Store
	delay func() time.Duration // before each call; nil: none

	mu     sync.Mutex
	before func(op string) error // nil: no fault
	after  func(op string) error
	calls  map[string]int
	faults map[string]int // injected errors that were handed to the caller
}

func newFaulty(store sqlstore.Store) *faulty {
	return &faulty{Store: store, calls: make(map[string]int), faults: make(map[string]int)}
}

func (f *faulty) inject(before, after func(op string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before, f.after = before, after
}

func (f *faulty) count(op string) (calls, faults int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[op], f.faults[op]
}

func (f *faulty) do(op string, call func() error) error {
	fault := func(decide func(string) error) error {
		if decide == nil {
			return nil
		}
		err := decide(op)
		if err == nil {
			return nil
		}
		f.faults[op]++
		return &sqlstore.Error{Op: op, Err: err}
	}
	if f.delay != nil {
		time.Sleep(f.delay()) // not under the mutex, which does not count as blocked inside a bubble
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[op]++
	if err := fault(f.before); err != nil {
		return err
	}
	if err := call(); err != nil {
		return err
	}
	return fault(f.after)
}

func (f *faulty) Soonest(ctx context.Context) (now int64, next *int64, err error) {
	err = f.do("soonest", func() (err error) { now, next, err = f.Store.Soonest(ctx); return err })
	return now, next, err
}

func (f *faulty) ListSchedules(ctx context.Context) (all []sqlstore.Schedule, err error) {
	err = f.do("list", func() (err error) { all, err = f.Store.ListSchedules(ctx); return err })
	return all, err
}

func (f *faulty) Lead(ctx context.Context, lock, owner string, ttlS int64) (led bool, err error) {
	err = f.do("lead", func() (err error) { led, err = f.Store.Lead(ctx, lock, owner, ttlS); return err })
	return led && err == nil, err
}

func (f *faulty) Resign(ctx context.Context, lock, owner string) error {
	return f.do("resign", func() error { return f.Store.Resign(ctx, lock, owner) })
}

func (f *faulty) Tick(
	ctx context.Context, plan func(int64, sqlstore.Schedule) (sqlstore.Plan, error),
) (ticked []sqlstore.Ticked, err error) {
	err = f.do("tick", func() (err error) { ticked, err = f.Store.Tick(ctx, plan); return err })
	if err != nil {
		ticked = nil
	}
	return ticked, err
}

// allOf fails every call of the named operations.
func allOf(cause error, ops ...string) func(string) error {
	return func(op string) error {
		if slices.Contains(ops, op) {
			return cause
		}
		return nil
	}
}

// firstOf fails the first n calls of the named operations.
func firstOf(n int, cause error, ops ...string) func(string) error {
	return func(op string) error {
		if n == 0 || !slices.Contains(ops, op) {
			return nil
		}
		n--
		return cause
	}
}
