package queue_test

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/memory"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
	"github.com/alkstore/alkworker/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Main(m)) }

// clock is the database's clock, which stands still until it is moved.
type clock struct{ now atomic.Int64 }

// start is where every clock begins.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newClock() *clock {
	c := new(clock)
	c.now.Store(start.Unix())
	return c
}

func (c *clock) unix() int64             { return c.now.Load() }
func (c *clock) advance(d time.Duration) { c.now.Add(int64(d / time.Second)) }

// open returns a client over an empty memory store and the clock of that store.
func open(t *testing.T, cfg *queue.Config) (*queue.Client, *clock) {
	t.Helper()
	clock := newClock()
	c := queue.NewClient(memory.New(memory.Options{Clock: clock.unix}), cfg)
	t.Cleanup(func() { must(t, c.Close()) })
	return c, clock
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// enqueue stores one raw job in queue "q" and returns its id.
func enqueue(t *testing.T, c *queue.Client, o queue.EnqueueOptions) int64 {
	t.Helper()
	ids, err := c.Enqueue(t.Context(), queue.NewJob{Queue: "q", Payload: []byte("p"), EnqueueOptions: o})
	must(t, err)
	return ids[0]
}

// claim takes the one job that is ready in queue "q".
func claim(t *testing.T, c *queue.Client) *queue.Job {
	t.Helper()
	jobs, err := c.Claim(t.Context(), "q", "test", 1)
	must(t, err)
	if len(jobs) != 1 {
		t.Fatalf("claimed %d jobs, want 1", len(jobs))
	}
	return jobs[0]
}

// get reads a job that must be there.
func get(t *testing.T, c *queue.Client, id int64) *queue.Job {
	t.Helper()
	j, err := c.Get(t.Context(), id)
	must(t, err)
	if j == nil {
		t.Fatalf("job %d is not there", id)
	}
	return j
}

// bury enqueues one job and fails it for good.
func bury(t *testing.T, c *queue.Client, text string) int64 {
	t.Helper()
	id := enqueue(t, c, queue.EnqueueOptions{})
	j := claim(t, c)
	held, err := c.Fail(t.Context(), queue.Failed{Handle: j.Handle(), Err: text})
	must(t, err)
	if !held[0] {
		t.Fatal("fail was refused")
	}
	return id
}

func only[T comparable](t *testing.T, what string, got []T, err error, want T) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if len(got) != 1 || got[0] != want {
		t.Fatalf("%s: got %v, want [%v]", what, got, want)
	}
}

// wantError checks that err is an *Error of that operation, queue and job with that cause.
func wantError(t *testing.T, err error, op, name string, id int64, cause error) {
	t.Helper()
	var e *queue.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v (%T), want a *queue.Error", err, err)
	}
	if e.Op != op || e.Queue != name || e.JobID != id {
		t.Errorf("got op %q, queue %q, job %d; want %q, %q, %d (%v)", e.Op, e.Queue, e.JobID, op, name, id, err)
	}
	if !errors.Is(err, cause) {
		t.Errorf("got %v, want a cause of %v", err, cause)
	}
	if n := strings.Count(err.Error(), op+" "); n > 1 {
		t.Errorf("the operation is named %d times: %v", n, err)
	}
}

// noStore panics on every call: it proves that none was made.
func noStore() *queue.Client { return queue.NewClient(nil, nil) }

// faulty is a store whose dead-letter operations fail from one call on.
type faulty struct {
	sqlstore.Store
	failAt int // the call that fails, counted from 1
	calls  int
}

var errInjected = errors.New("injected")

func (f *faulty) next() error {
	f.calls++
	if f.calls >= f.failAt {
		return &sqlstore.Error{Op: "inner", Err: errInjected}
	}
	return nil
}

func (f *faulty) RequeueMatching(ctx context.Context, d sqlstore.DeadFilter, n int64) (int64, error) {
	if err := f.next(); err != nil {
		return 0, err
	}
	return f.Store.RequeueMatching(ctx, d, n)
}

func (f *faulty) SweepExpired(ctx context.Context, queue, text string) (sqlstore.Swept, error) {
	swept, err := f.Store.SweepExpired(ctx, queue, text)
	return swept, cmp.Or(f.next(), err)
}

func (f *faulty) PurgeMatching(ctx context.Context, d sqlstore.DeadFilter, n int64) (int64, error) {
	if err := f.next(); err != nil {
		return 0, err
	}
	return f.Store.PurgeMatching(ctx, d, n)
}
