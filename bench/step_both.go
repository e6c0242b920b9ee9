package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// consume is the worker's side of W6: it is there when the producers of the other process begin. What counts are all jobs
// over the time until the last is done, so that neither producers that keep the worker waiting nor a worker that keeps the
// producers waiting look fast. How much is handled while the producers go on is told beside it, without the first fifth
// of that time, in which a worker that looks once a second may be asleep.
func consume(ctx context.Context, c *child, s Subject) (Metrics, error) {
	book := newOpenLedger(c.Jobs)
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
	m, err := c.watchBoth(ctx, s, book, first)
	return m, errors.Join(err, c.stopAfter(m, stop))
}

func (c *child) watchBoth(ctx context.Context, s Subject, book *ledger, first <-chan time.Time) (Metrics, error) {
	if err := c.ready(); err != nil {
		return nil, err
	}
	begun := time.Now()
	before := use(c.Place.PID)
	if err := pause(ctx, c.Duration/5); err != nil {
		return nil, err
	}
	start, already := time.Now(), book.handled.Load()
	if err := pause(ctx, c.Duration-c.Duration/5); err != nil {
		return nil, err
	}
	done := book.handled.Load() - already
	m := Metrics{"during_rate": float64(done) / time.Since(start).Seconds()}

	jobs, err := c.number()
	if err != nil {
		return nil, err
	}
	m["jobs"], m["backlog"] = float64(jobs), float64(jobs-already-done)
	book.expect(jobs)
	err = c.awaitDone(ctx, s, book, time.Now(), m)
	m["seconds"] = time.Since(begun).Seconds()
	m["rate"] = float64(book.handled.Load()) / m["seconds"]
	use(c.Place.PID).since(before).perJob(m, book.handled.Load())
	select {
	case at := <-first:
		m["first_ms"] = milliseconds(at.Sub(begun))
	default:
	}
	return m, err
}

// number reads one from the parent: in W6, how many jobs the producers have stored.
func (c *child) number() (int64, error) {
	line, err := c.in.ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("wait for a number: %w", err)
	}
	return strconv.ParseInt(strings.TrimSpace(line), 10, 64)
}

// produce is the other side of W6.
func produce(ctx context.Context, c *child, s Subject) (Metrics, error) {
	if err := c.ready(); err != nil {
		return nil, err
	}
	start := time.Now()
	stored, err := enqueueEach(ctx, s, c.Jobs, c.Routines, start.Add(c.Duration))
	return Metrics{
		"enqueued": float64(stored), "producer_rate": float64(stored) / time.Since(start).Seconds(),
	}, err
}
