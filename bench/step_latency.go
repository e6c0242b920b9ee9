package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// patience is how long to wait for jobs that may never come.
const patience = 3 * time.Second

// delays gathers how long jobs took from the call that enqueued them to the start of their handlers.
type delays struct {
	*ledger
	took []atomic.Int64 // nanoseconds, by number
}

func newDelays(jobs int) *delays {
	return &delays{ledger: newLedger(jobs), took: make([]atomic.Int64, jobs)}
}

// handle is the handler. Both processes read the same wall clock.
func (d *delays) handle(p Payload) {
	now := time.Now().UnixNano()
	if p.N >= 0 && p.N < d.limit {
		d.took[p.N].CompareAndSwap(0, max(now-p.At, 1))
	}
	d.mark(p.N)
}

func (d *delays) known(from, to int) []time.Duration {
	var known []time.Duration
	for i := from; i < to; i++ {
		if t := d.took[i].Load(); t > 0 {
			known = append(known, time.Duration(t))
		}
	}
	return known
}

func (d *delays) report(m Metrics) {
	d.ledger.report(m)
	m["jobs"] = float64(d.total.Load())
	if all := d.known(0, len(d.took)); len(all) > 0 {
		m["p50_ms"], m["p99_ms"] = milliseconds(percentile(all, 50)), milliseconds(percentile(all, 99))
		m["max_ms"] = milliseconds(percentile(all, 100))
	}
}

// awaitAll waits for the last job, with patience.
func (d *delays) awaitAll(ctx context.Context, patience time.Duration) {
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-d.done:
	case <-t.C:
	case <-ctx.Done():
	}
}

// send enqueues c.Jobs jobs, one at a time. The times between them are uneven, since even ones would fall into step with
// a subject that polls at an interval.
func (c *child) send(ctx context.Context, s Subject) error {
	for n := range c.Jobs {
		if err := pause(ctx, c.Every/2+rand.N(c.Every)); err != nil {
			return err
		}
		if err := s.Enqueue(ctx, newPayload(int64(n), time.Now().UnixNano())); err != nil {
			return err
		}
	}
	return nil
}

// latency is W7 within one process.
func latency(ctx context.Context, c *child, s Subject) (Metrics, error) {
	d := newDelays(c.Jobs)
	stop, err := s.Work(ctx, Workload{Queues: 1, Handle: d.handle})
	if err != nil {
		return nil, err
	}
	if err = errors.Join(c.ready(), pause(ctx, c.Settle)); err == nil {
		err = c.send(ctx, s)
	}
	d.awaitAll(ctx, patience)
	m := Metrics{}
	d.report(m)
	return m, errors.Join(err, stop())
}

// sender is W7 from a second process: the one that enqueues.
func sender(ctx context.Context, c *child, s Subject) (Metrics, error) {
	if err := errors.Join(c.ready(), pause(ctx, c.Settle)); err != nil {
		return nil, err
	}
	return Metrics{}, c.send(ctx, s)
}

// receive is W7 from a second process: the one that works.
func receive(ctx context.Context, c *child, s Subject) (Metrics, error) {
	d := newDelays(c.Jobs)
	stop, err := s.Work(ctx, Workload{Queues: 1, Foreign: true, Handle: d.handle})
	if err != nil {
		return nil, err
	}
	if err := c.ready(); err != nil {
		return nil, errors.Join(err, stop())
	}
	d.awaitAll(ctx, c.Settle+2*time.Duration(c.Jobs)*c.Every+patience)
	m := Metrics{}
	d.report(m)
	return m, stop()
}
