package runtime_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// call is one call of a store as the test wants to see it.
type call struct {
	op    string
	at    time.Time
	queue string
	kind  sqlstore.ClaimKind
	n     int // of jobs asked for, handles, or queues
	err   error
}

// fault stands before a call: it may wait, and its error is what the caller gets instead of the call.
type fault func(ctx context.Context, op string) error

// faulty is the database as one process sees it.
type faulty struct {
	sqlstore.Store

	mu     sync.Mutex
	before fault
	after  fault // the call has happened, but its answer is this error
	calls  []call
}

func newFaulty(store sqlstore.Store) *faulty { return &faulty{Store: store} }

// inject sets the fault from now on; nil means none.
func (f *faulty) inject(before fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before, f.after = before, nil
}

// injectAfter sets a fault that hides what the call has done.
func (f *faulty) injectAfter(after fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before, f.after = nil, after
}

// made returns the calls of the named operations, or all.
func (f *faulty) made(ops ...string) []call {
	f.mu.Lock()
	defer f.mu.Unlock()
	var calls []call
	for _, c := range f.calls {
		if len(ops) == 0 || slices.Contains(ops, c.op) {
			calls = append(calls, c)
		}
	}
	return calls
}

// failed says how many errors of the named operations reached the caller.
func (f *faulty) failed(ops ...string) (n int) {
	for _, c := range f.made(ops...) {
		if c.err != nil {
			n++
		}
	}
	return n
}

func (f *faulty) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = nil
}

func (f *faulty) do(ctx context.Context, c call, work func() error) (err error) {
	f.mu.Lock()
	before, after := f.before, f.after
	f.mu.Unlock()
	c.at = time.Now()
	defer func() {
		c.err = err
		f.mu.Lock()
		defer f.mu.Unlock()
		f.calls = append(f.calls, c)
	}()
	if before != nil {
		if err := before(ctx, c.op); err != nil {
			return &sqlstore.Error{Op: c.op, Queue: c.queue, Err: err}
		}
	}
	if err := work(); err != nil {
		return err
	}
	if after != nil {
		if err := after(ctx, c.op); err != nil {
			return &sqlstore.Error{Op: c.op, Queue: c.queue, Err: err}
		}
	}
	return nil
}

// failing fails the named operations, or all.
func failing(cause error, ops ...string) fault {
	return func(_ context.Context, op string) error {
		if len(ops) == 0 || slices.Contains(ops, op) {
			return cause
		}
		return nil
	}
}

// slow delays the named operations, or all.
func slow(d time.Duration, ops ...string) fault {
	return func(ctx context.Context, op string) error {
		if len(ops) == 0 || slices.Contains(ops, op) {
			select {
			case <-time.After(d):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}
}

// first applies a fault to the first n calls of the named operations.
func first(n int, f fault, ops ...string) fault {
	var mu sync.Mutex
	return func(ctx context.Context, op string) error {
		mu.Lock()
		hit := n > 0 && slices.Contains(ops, op)
		if hit {
			n--
		}
		mu.Unlock()
		if hit {
			return f(ctx, op)
		}
		return nil
	}
}

// answering is do for calls that answer with a value, which is not handed out with an error.
func answering[T any](ctx context.Context, f *faulty, c call, work func() (T, error)) (answer T, err error) {
	err = f.do(ctx, c, func() (err error) { answer, err = work(); return err })
	if err != nil {
		var none T
		return none, err
	}
	return answer, nil
}

func (f *faulty) Enqueue(ctx context.Context, jobs []sqlstore.NewJob) ([]int64, error) {
	return answering(ctx, f, call{op: "enqueue", n: len(jobs)}, func() ([]int64, error) { return f.Store.Enqueue(ctx, jobs) })
}

func (f *faulty) GetJob(ctx context.Context, id int64) (*sqlstore.Row, error) {
	return answering(ctx, f, call{op: "get"}, func() (*sqlstore.Row, error) { return f.Store.GetJob(ctx, id) })
}

func (f *faulty) ClaimBatch(ctx context.Context, c sqlstore.Claim) ([]sqlstore.Row, error) {
	made := call{op: "claim", queue: c.Queue, kind: c.Kind, n: int(c.Limit)}
	return answering(ctx, f, made, func() ([]sqlstore.Row, error) { return f.Store.ClaimBatch(ctx, c) })
}

// ClaimUnread makes it a late reader. What fails to be read is released, by a database that does not fail at that.
func (f *faulty) ClaimUnread(ctx context.Context, c sqlstore.Claim) (sqlstore.Unread, error) {
	rows, err := f.ClaimBatch(ctx, c)
	read := func(ctx context.Context) ([]sqlstore.Row, error) {
		held, err := answering(ctx, f, call{op: "read", n: len(rows)}, func() (held []sqlstore.Row, err error) {
			for _, r := range rows {
				now, err := f.Store.GetJob(ctx, r.ID)
				if err != nil {
					return nil, err
				}
				if now != nil && now.State == sqlstore.Processing && now.Fence == r.Fence {
					held = append(held, r)
				}
			}
			return held, nil
		})
		if err != nil {
			released := make([]sqlstore.Releasing, len(rows))
			for i, r := range rows {
				released[i].Handle = sqlstore.Handle{ID: r.ID, Fence: r.Fence}
			}
			_, releaseErr := f.Store.Release(context.WithoutCancel(ctx), released)
			err = errors.Join(err, releaseErr)
		}
		return held, err
	}
	return sqlstore.Unread{N: len(rows), Read: read}, err
}

func (f *faulty) NextReady(ctx context.Context, queues []string) (now int64, next map[string]int64, err error) {
	err = f.do(ctx, call{op: "next", n: len(queues)}, func() (err error) {
		now, next, err = f.Store.NextReady(ctx, queues)
		return err
	})
	return now, next, err
}

func (f *faulty) Idle(ctx context.Context, queues []string) (bool, error) {
	return answering(ctx, f, call{op: "idle", n: len(queues)}, func() (bool, error) { return f.Store.Idle(ctx, queues) })
}

func (f *faulty) AckBatch(ctx context.Context, handles []sqlstore.Handle) ([]bool, error) {
	made := call{op: "ack", n: len(handles)}
	return answering(ctx, f, made, func() ([]bool, error) { return f.Store.AckBatch(ctx, handles) })
}

func (f *faulty) Heartbeat(ctx context.Context, extensions []sqlstore.Extension) ([]bool, error) {
	made := call{op: "heartbeat", n: len(extensions)}
	return answering(ctx, f, made, func() ([]bool, error) { return f.Store.Heartbeat(ctx, extensions) })
}

func (f *faulty) Retry(ctx context.Context, retries []sqlstore.Retrial) ([]sqlstore.Verdict, error) {
	made := call{op: "retry", n: len(retries)}
	return answering(ctx, f, made, func() ([]sqlstore.Verdict, error) { return f.Store.Retry(ctx, retries) })
}

func (f *faulty) Fail(ctx context.Context, failures []sqlstore.Failing) ([]bool, error) {
	made := call{op: "fail", n: len(failures)}
	return answering(ctx, f, made, func() ([]bool, error) { return f.Store.Fail(ctx, failures) })
}

func (f *faulty) Release(ctx context.Context, releases []sqlstore.Releasing) ([]bool, error) {
	made := call{op: "release", n: len(releases)}
	return answering(ctx, f, made, func() ([]bool, error) { return f.Store.Release(ctx, releases) })
}

func (f *faulty) Stats(ctx context.Context) ([]sqlstore.QueueStats, error) {
	return answering(ctx, f, call{op: "stats"}, func() ([]sqlstore.QueueStats, error) { return f.Store.Stats(ctx) })
}

func (f *faulty) Queues(ctx context.Context) ([]string, error) {
	return answering(ctx, f, call{op: "queues"}, func() ([]string, error) { return f.Store.Queues(ctx) })
}

func (f *faulty) SweepExpired(ctx context.Context, queue, text string) (sqlstore.Swept, error) {
	made := call{op: "sweep", queue: queue}
	return answering(ctx, f, made, func() (sqlstore.Swept, error) { return f.Store.SweepExpired(ctx, queue, text) })
}

func (f *faulty) Announce(ctx context.Context, worker string, queues []string, ttlS int64) error {
	return f.do(ctx, call{op: "announce", n: len(queues)}, func() error { return f.Store.Announce(ctx, worker, queues, ttlS) })
}

func (f *faulty) Withdraw(ctx context.Context, worker string) error {
	return f.do(ctx, call{op: "withdraw"}, func() error { return f.Store.Withdraw(ctx, worker) })
}

func (f *faulty) Soonest(ctx context.Context) (now int64, next *int64, err error) {
	err = f.do(ctx, call{op: "soonest"}, func() (err error) { now, next, err = f.Store.Soonest(ctx); return err })
	return now, next, err
}

func (f *faulty) Lead(ctx context.Context, lock, owner string, ttlS int64) (bool, error) {
	return answering(ctx, f, call{op: "lead"}, func() (bool, error) { return f.Store.Lead(ctx, lock, owner, ttlS) })
}

func (f *faulty) Resign(ctx context.Context, lock, owner string) error {
	return f.do(ctx, call{op: "resign"}, func() error { return f.Store.Resign(ctx, lock, owner) })
}

func (f *faulty) Tick(
	ctx context.Context, plan func(now int64, due sqlstore.Schedule) (sqlstore.Plan, error),
) ([]sqlstore.Ticked, error) {
	return answering(ctx, f, call{op: "tick"}, func() ([]sqlstore.Ticked, error) { return f.Store.Tick(ctx, plan) })
}
