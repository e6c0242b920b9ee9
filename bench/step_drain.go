package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// pollLeft is how often to ask whether jobs are left, once all have been handled.
const pollLeft = time.Millisecond

// drain is W4, W5 and W9: a worker starts on c.Jobs jobs that wait, and the clock stops when none is left in the
// database; that the handlers have run is not enough.
func drain(ctx context.Context, c *child, s Subject) (Metrics, error) {
	if err := c.ready(); err != nil {
		return nil, err
	}
	book := newLedger(c.Jobs)
	memory := residentMemory()
	before := use(c.Place.PID)
	start := time.Now()
	stop, err := s.Work(ctx, Workload{Queues: 1, Slots: c.Slots, Busy: true, Handle: func(p Payload) { book.mark(p.N) }})
	if err != nil {
		return nil, err
	}
	m, err := c.watchDrain(ctx, s, book, start, before)
	if err == nil {
		m["start_mb"] = float64(memory) / 1e6 // much of it is this program, the same for all
	}
	return m, errors.Join(err, c.stopAfter(m, stop))
}

// stopAfter ends a worker after a drain. One that is stopped in the middle of its work need not manage it in good order.
func (c *child) stopAfter(m Metrics, stop func() error) error {
	err := stop()
	if err != nil && m["capped"] == 1 {
		c.notes = append(c.notes, "could not be stopped in good order with jobs left: "+err.Error())
		return nil
	}
	return err
}

// watchDrain waits until all jobs are done, or c.Limit is over.
func (c *child) watchDrain(ctx context.Context, s Subject, book *ledger, start time.Time, before usage) (Metrics, error) {
	limit := time.NewTimer(time.Until(start.Add(c.Limit)))
	defer limit.Stop()
	capped := false
	select {
	case <-book.done:
	case <-limit.C:
		capped = true
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	left := c.Jobs
	for !capped && left > 0 {
		var err error
		if left, err = s.Left(ctx); err != nil {
			return nil, err
		}
		switch {
		case time.Since(start) > c.Limit:
			capped = true
		case left > 0:
			if err := pause(ctx, pollLeft); err != nil {
				return nil, err
			}
		}
	}
	elapsed := time.Since(start)
	m := Metrics{"jobs": float64(c.Jobs), "left": float64(left), "capped": 0, "seconds": elapsed.Seconds()}
	book.report(m)
	m["rate"] = m["handled"] / elapsed.Seconds()
	use(c.Place.PID).since(before).perJob(m, book.handled.Load())
	if capped {
		m["capped"] = 1
		c.notes = append(c.notes, fmt.Sprintf("given up after %v with %d of %d handled", c.Limit, book.handled.Load(), c.Jobs))
	}
	return m, book.check(capped)
}

// check says what is wrong with the books once a worker has nothing more to do.
func (l *ledger) check(capped bool) error {
	var problems []error
	if n := l.handled.Load(); n != l.total && !capped {
		problems = append(problems, fmt.Errorf("%d different jobs were handled, want %d", n, l.total))
	}
	if n := l.strangers.Load(); n > 0 {
		problems = append(problems, fmt.Errorf("%d jobs were handled that nobody enqueued", n))
	}
	return errors.Join(problems...)
}

// consume is the worker's side of W6: it is there when the producers of the other process begin. The clock starts with
// the first job that is handled, so that a worker that looks once a second is not charged for being asleep.
func consume(ctx context.Context, c *child, s Subject) (Metrics, error) {
	book := newLedger(c.Jobs)
	first := make(chan time.Time, 1)
	announce := sync.OnceFunc(func() { first <- time.Now() })
	handle := func(p Payload) {
		announce()
		book.mark(p.N)
	}
	stop, err := s.Work(ctx, Workload{Queues: 1, Slots: c.Slots, Busy: true, Foreign: true, Handle: handle})
	if err != nil {
		return nil, err
	}
	m, err := func() (Metrics, error) {
		if err := c.ready(); err != nil {
			return nil, err
		}
		before, start := use(c.Place.PID), time.Now()
		begun := start
		limit := time.NewTimer(c.Limit)
		defer limit.Stop()
		select {
		case begun = <-first:
		case <-limit.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		m, err := c.watchDrain(ctx, s, book, begun, before)
		if err == nil {
			m["first_ms"] = milliseconds(begun.Sub(start))
		}
		return m, err
	}()
	return m, errors.Join(err, c.stopAfter(m, stop))
}

// produce is the other side of W6.
func produce(ctx context.Context, c *child, s Subject) (Metrics, error) {
	if err := c.ready(); err != nil {
		return nil, err
	}
	start := time.Now()
	stored, err := enqueueEach(ctx, s, c.Jobs, c.Routines, start.Add(c.Limit))
	return Metrics{"producer_rate": float64(stored) / time.Since(start).Seconds()}, err
}
