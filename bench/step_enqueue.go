package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// bulk is how many jobs one call of EnqueueMany takes in W3 and wherever the jobs only have to be there.
const bulk = 1000

// numbers hands out the numbers of jobs.
type numbers struct{ next atomic.Int64 }

func (n *numbers) take(count int) (first int64) { return n.next.Add(int64(count)) - int64(count) }

// enqueue is W1 to W3: for c.Duration, c.Routines goroutines enqueue c.Batch jobs a call.
func enqueue(ctx context.Context, c *child, s Subject) (Metrics, error) {
	var given numbers
	took := make([][]time.Duration, c.Routines)
	if err := c.ready(); err != nil {
		return nil, err
	}
	before := use(c.Place.PID)
	start := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for i := range c.Routines {
		group.Go(func() error {
			payloads := make([]Payload, c.Batch)
			for now := time.Now(); now.Sub(start) < c.Duration; {
				first := given.take(c.Batch)
				for k := range payloads {
					payloads[k] = newPayload(first+int64(k), 0)
				}
				if err := store(ctx, s, payloads); err != nil {
					return err
				}
				then := time.Now()
				took[i] = append(took[i], then.Sub(now))
				now = then
			}
			return nil
		})
	}
	err := group.Wait()
	elapsed := time.Since(start)
	if err != nil {
		return nil, err
	}
	jobs := given.next.Load()
	m := Metrics{"jobs": float64(jobs), "rate": float64(jobs) / elapsed.Seconds()}
	use(c.Place.PID).since(before).perJob(m, jobs)

	var all []time.Duration
	for _, t := range took {
		all = append(all, t...)
	}
	m["p50_ms"], m["p99_ms"] = milliseconds(percentile(all, 50)), milliseconds(percentile(all, 99))
	m["max_ms"] = milliseconds(percentile(all, 100))
	return m, checkLeft(context.WithoutCancel(ctx), s, jobs)
}

// store enqueues by the call that fits the number of jobs.
func store(ctx context.Context, s Subject, payloads []Payload) error {
	if len(payloads) == 1 {
		return s.Enqueue(ctx, payloads[0])
	}
	return s.EnqueueMany(ctx, payloads)
}

// checkLeft is the proof that what was acknowledged is there, no more and no less.
func checkLeft(ctx context.Context, s Subject, want int64) error {
	left, err := s.Left(ctx)
	if err == nil && int64(left) != want {
		err = fmt.Errorf("%d jobs are in the database, want %d", left, want)
	}
	return err
}

// seed fills the database with c.Jobs jobs, as fast as the subject can.
func seed(ctx context.Context, c *child, s Subject) (Metrics, error) {
	if err := c.ready(); err != nil {
		return nil, err
	}
	return Metrics{}, errors.Join(enqueueAll(ctx, s, c.Jobs), checkLeft(ctx, s, int64(c.Jobs)))
}

func enqueueAll(ctx context.Context, s Subject, jobs int) error {
	for done := 0; done < jobs; {
		payloads := make([]Payload, min(jobs-done, bulk))
		for i := range payloads {
			payloads[i] = newPayload(int64(done+i), 0)
		}
		err := s.EnqueueMany(ctx, payloads)
		if errors.Is(err, errors.ErrUnsupported) {
			_, err := enqueueEach(ctx, s, jobs, 64, time.Time{})
			return err
		}
		if err != nil {
			return err
		}
		done += len(payloads)
	}
	return nil
}

// enqueueEach enqueues jobs one a call from several goroutines, until the deadline if there is one, and says how many.
func enqueueEach(ctx context.Context, s Subject, jobs, routines int, deadline time.Time) (stored int64, err error) {
	var given numbers
	var done atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range routines {
		group.Go(func() error {
			for {
				n := given.take(1)
				if n >= int64(jobs) || !deadline.IsZero() && time.Now().After(deadline) {
					return nil
				}
				if err := s.Enqueue(ctx, newPayload(n, 0)); err != nil {
					return err
				}
				done.Add(1)
			}
		})
	}
	err = group.Wait()
	return done.Load(), err
}
