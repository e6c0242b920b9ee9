package runtime_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/memory"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Main(m)) }

// world is one database and the processes around it, inside a synctest bubble. The database's clock is far from that of
// the processes: whoever compares the two fails (T1).
type world struct {
	*testing.T
	store  *memory.Store
	client *queue.Client // of nobody in particular
	log    *logbook      // of all workers
	ledger *ledger
	jumped atomic.Int64 // seconds by which the database's clock was set forward since the beginning
}

// bubble runs a test of one world in a bubble of its own.
func bubble(t *testing.T, name string, test func(*world)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { test(newWorld(t)) })
	})
}

func newWorld(t *testing.T) *world {
	const offset = 500_000_000 // seconds
	w := &world{T: t, log: new(logbook), ledger: new(ledger)}
	w.store = memory.New(memory.Options{Clock: func() int64 { return time.Now().Unix() + offset + w.jumped.Load() }})
	w.client = queue.NewClient(w.store, nil)
	return w
}

// pass lets time go by, and then all that is due happen.
func (w *world) pass(d time.Duration) {
	sleep(d)
	synctest.Wait()
}

// jump sets the clock of the database forward, or back.
func (w *world) jump(d time.Duration) { w.jumped.Add(int64(d / time.Second)) }

// sleep is for use inside a bubble. It makes no timer that has expired already: several goroutines that receive from
// such timers at the same moment crash the race detector, which has one context for all timers of a bubble (Go 1.26).
func sleep(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

// enqueue stores n equal jobs.
func (w *world) enqueue(name string, n int, o queue.EnqueueOptions) []int64 {
	w.Helper()
	return enqueue(w.T, w.client, name, n, o)
}

func enqueue(t *testing.T, c *queue.Client, name string, n int, o queue.EnqueueOptions) []int64 {
	t.Helper()
	jobs := make([]queue.NewJob, n)
	for i := range jobs {
		jobs[i] = queue.NewJob{Queue: name, Payload: []byte("p"), EnqueueOptions: o}
	}
	ids, err := c.Enqueue(t.Context(), jobs...)
	must(t, err)
	return ids
}

// claim takes n jobs as a process would that is never heard of again.
func (w *world) claim(name string, n int) []*queue.Job {
	w.Helper()
	jobs, err := w.client.Claim(w.Context(), name, "vanished", n)
	must(w.T, err)
	if len(jobs) != n {
		w.Fatalf("claimed %d jobs of %q, want %d", len(jobs), name, n)
	}
	return jobs
}

// endLease makes a claim end with the current second, as if its holder had been silent for long.
func (w *world) endLease(id, fence int64) {
	w.Helper()
	h := sqlstore.Handle{ID: id, Fence: fence}
	held, err := w.store.Heartbeat(w.Context(), []sqlstore.Extension{{Handle: h, S: new(int64)}})
	if err != nil || !held[0] {
		w.Fatalf("end of a lease: got %v, %v", held, err)
	}
}

func (w *world) get(id int64) *queue.Job {
	w.Helper()
	j, err := w.client.Get(w.Context(), id)
	must(w.T, err)
	return j
}

// gone is the state of a job that is no more.
const gone queue.State = "gone"

func (w *world) state(id int64) queue.State {
	w.Helper()
	if j := w.get(id); j != nil {
		return j.State
	}
	return gone
}

// wantState fails unless all the jobs are in that state.
func (w *world) wantState(want queue.State, ids ...int64) {
	w.Helper()
	for _, id := range ids {
		if got := w.state(id); got != want {
			w.Errorf("job %d is %s, want %s", id, got, want)
		}
	}
}

// process is a running worker with a database connection of its own.
type process struct {
	*runtime.Worker
	store  *faulty
	cancel context.CancelFunc // of Run's context
	ended  chan struct{}      // closed when Run has returned
	err    error              // what it returned
}

// start runs a worker without the scheduler, which has tests of its own.
func (w *world) start(config runtime.Config, r *handlers.Registry) *process {
	w.Helper()
	config.NoScheduler = true
	p := w.prepare(config, r)
	w.run(p)
	return p
}

func (w *world) prepare(config runtime.Config, r *handlers.Registry) *process {
	w.Helper()
	p := &process{store: newFaulty(w.store), ended: make(chan struct{})}
	if config.Logger == nil {
		config.Logger = w.log.logger()
	}
	var err error
	p.Worker, err = runtime.New(queue.NewClient(p.store, nil), r, config)
	must(w.T, err)
	return p
}

// run begins Run, and sees to it that it ends with the test at the latest.
func (w *world) run(p *process) {
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.WithoutCancel(w.Context()))
	go func() {
		defer close(p.ended)
		p.err = p.Run(ctx)
	}()
	w.Cleanup(p.bury)
}

// kill is kill -9 as others see it: nothing reaches the database any more. What still runs in the process is up to the
// test; bury ends it.
func (p *process) kill() { p.store.inject(failing(queue.ErrUnavailable)) }

// bury ends what is left of a process.
func (p *process) bury() {
	p.cancel()
	<-p.ended
}

// wait waits for Run to return.
func (p *process) wait() error {
	<-p.ended
	return p.err
}

// stop is a TERM. Run has to answer nil.
func (w *world) stop(processes ...*process) {
	w.Helper()
	for _, p := range processes {
		p.Stop()
	}
	for _, p := range processes {
		if err := p.wait(); err != nil {
			w.Errorf("Run returned %v, want nil after a stop", err)
		}
	}
}

// serve makes a registry of one queue.
func serve(name string, fn handlers.HandlerFunc, o handlers.Options) *handlers.Registry {
	r := handlers.NewRegistry()
	r.Register(name, fn, o)
	return r
}

// run is one run of a handler.
type run struct {
	id         int64
	attempt    int
	start, end time.Duration // since the ledger's first run; end is zero while it runs
	cause      error         // of its context's end
}

// ledger is what handlers have done, outside the database: the judge of what ran how often.
type ledger struct {
	mu      sync.Mutex
	began   time.Time
	runs    []*run
	running int
	most    int // at the same time
}

// handler makes a handler that keeps the ledger.
func (l *ledger) handler(fn handlers.HandlerFunc) handlers.HandlerFunc {
	return func(ctx context.Context, job *queue.Job) error {
		end := l.enter(job)
		err := fn(ctx, job)
		end(context.Cause(ctx))
		return err
	}
}

// taking is a handler that takes a while unless its context ends.
func (l *ledger) taking(d time.Duration) handlers.HandlerFunc {
	return l.handler(func(ctx context.Context, _ *queue.Job) error { return within(ctx, d) })
}

// within waits for d, or returns why ctx ended.
func within(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *ledger) enter(job *queue.Job) (end func(cause error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.began.IsZero() {
		l.began = time.Now()
	}
	r := &run{id: job.ID, attempt: job.Attempt, start: time.Since(l.began)}
	l.runs = append(l.runs, r)
	l.running++
	l.most = max(l.most, l.running)
	return func(cause error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		r.end, r.cause = max(time.Since(l.began), 1), cause
		l.running--
	}
}

// all returns the runs in the order in which they began.
func (l *ledger) all() []run {
	l.mu.Lock()
	defer l.mu.Unlock()
	runs := make([]run, len(l.runs))
	for i, r := range l.runs {
		runs[i] = *r
	}
	return runs
}

// of returns the runs of one job.
func (l *ledger) of(id int64) []run {
	return slices.DeleteFunc(l.all(), func(r run) bool { return r.id != id })
}

// count says how many handlers run now, and how many did at most.
func (l *ledger) count() (running, most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running, l.most
}

// wantOnce fails unless each of the jobs ran exactly once, on its first attempt, and no other job did.
func (l *ledger) wantOnce(t *testing.T, ids ...int64) {
	t.Helper()
	times := make(map[int64]int)
	for _, r := range l.all() {
		times[r.id]++
		if r.attempt != 1 {
			t.Errorf("job %d ran as attempt %d, want 1", r.id, r.attempt)
		}
	}
	for _, id := range ids {
		if times[id] != 1 {
			t.Errorf("job %d ran %d times, want once", id, times[id])
		}
		delete(times, id)
	}
	if len(times) > 0 {
		t.Errorf("jobs %v ran and should not have", slices.Sorted(maps.Keys(times)))
	}
}

// wantCause fails unless the job ran once and its context ended because of that; nil: it did not end.
func (l *ledger) wantCause(t *testing.T, id int64, want error) {
	t.Helper()
	runs := l.of(id)
	if len(runs) != 1 || !errors.Is(runs[0].cause, want) {
		t.Errorf("job %d: got %+v, want one run with the cause %v", id, runs, want)
	}
}

// logbook keeps log lines.
type logbook struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logbook) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Write makes it an io.Writer.
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

// want fails unless n lines contain all the words.
func (l *logbook) want(t *testing.T, n int, words ...string) {
	t.Helper()
	if got := l.lines(words...); len(got) != n {
		t.Errorf("got %d lines with %q, want %d:\n%s", len(got), words, n, strings.Join(got, "\n"))
	}
}

// quiet fails if there is a warning or an error.
func (l *logbook) quiet(t *testing.T) {
	t.Helper()
	l.want(t, 0, "level=WARN")
	l.want(t, 0, "level=ERROR")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open opens a database file that is gone after the test.
func open(t *testing.T) (c *queue.Client, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "jobs.db")
	return reopen(t, path), path
}

// reopen opens the database once more, as another process would.
func reopen(t *testing.T, dsn string) *queue.Client {
	t.Helper()
	c, err := queue.Open(t.Context(), dsn, &queue.Config{Synchronous: queue.Normal})
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	return c
}

// background runs a worker on a client outside a bubble, and stops it when the test ends.
func background(t *testing.T, c *queue.Client, r *handlers.Registry, config runtime.Config) *runtime.Worker {
	t.Helper()
	if config.Logger == nil {
		config.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	w, err := runtime.New(c, r, config)
	must(t, err)
	done := make(chan error, 1)
	go func() { done <- w.Run(context.WithoutCancel(t.Context())) }()
	t.Cleanup(func() {
		w.Stop()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v, want nil after a stop", err)
		}
	})
	return w
}

// receive waits for an event. The test binary's own timeout is the limit.
func receive[T any](t *testing.T, events <-chan T) T {
	t.Helper()
	select {
	case v := <-events:
		return v
	case <-t.Context().Done():
		t.Fatal(fmt.Errorf("no event: %w", context.Cause(t.Context())))
		panic("unreachable")
	}
}
