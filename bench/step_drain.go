package main

import (
	"context"
	"errors"
	"fmt"
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
	m := Metrics{"jobs": float64(c.Jobs)}
	if err := c.awaitDone(ctx, s, book, start, m); err != nil {
		return nil, err
	}
	elapsed := time.Since(start)
	m["seconds"] = elapsed.Seconds()
	m["rate"] = m["handled"] / elapsed.Seconds()
	use(c.Place.PID).since(before).perJob(m, book.handled.Load())
	return m, nil
}

// awaitDone waits until all jobs are handled and none is left in the database, or c.Limit is over since start.
func (c *child) awaitDone(ctx context.Context, s Subject, book *ledger, start time.Time, m Metrics) error {
	limit := time.NewTimer(time.Until(start.Add(c.Limit)))
	defer limit.Stop()
	capped := false
	select {
	case <-book.done:
	case <-limit.C:
		capped = true
	case <-ctx.Done():
		return ctx.Err()
	}
	left := int(book.total.Load() - book.handled.Load())
	for first := true; !capped && (first || left > 0); first = false {
		var err error
		if left, err = s.Left(ctx); err != nil {
			return err
		}
		switch {
		case time.Since(start) > c.Limit:
			capped = true
		case left > 0:
			if err := pause(ctx, pollLeft); err != nil {
				return err
			}
		}
	}
	book.report(m)
	m["left"], m["capped"] = float64(left), 0
	if capped {
		m["capped"] = 1
		c.notes = append(c.notes,
			fmt.Sprintf("given up after %v with %d of %d handled", c.Limit, book.handled.Load(), book.total.Load()))
	}
	return book.check(capped)
}

// check says what is wrong with the books once a worker has nothing more to do.
func (l *ledger) check(capped bool) error {
	var problems []error
	if n, total := l.handled.Load(), l.total.Load(); n != total && !capped {
		problems = append(problems, fmt.Errorf("%d different jobs were handled, want %d", n, total))
	}
	if n := l.strangers.Load(); n > 0 {
		problems = append(problems, fmt.Errorf("%d jobs were handled that nobody enqueued", n))
	}
	return errors.Join(problems...)
}
