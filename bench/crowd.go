package main

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// crowd is a drain by several processes at once, and one more that looks when the database is empty. The first failure
// ends all of them.
type crowd struct {
	order
	group   *errgroup.Group
	workers []*process
	shares  []answer // of the workers

	reported atomic.Int64  // handled, by what the workers say
	all      chan struct{} // closed when that is all
	close    func()
}

// runCrowd drains o.Jobs jobs by a number of workers. What counts is the time from the word to begin until none is left
// in the database.
func runCrowd(ctx context.Context, o order, workers int) (a answer, err error) {
	group, ctx := errgroup.WithContext(ctx)
	c := &crowd{order: o, group: group, shares: make([]answer, workers), all: make(chan struct{})}
	c.close = sync.OnceFunc(func() { close(c.all) })
	group.Go(func() error {
		var err error
		a.Metrics, err = c.drain(ctx)
		return err
	})
	if err := group.Wait(); err != nil {
		return a, err
	}
	if a.Metrics["capped"] == 1 {
		a.Notes = append(a.Notes, fmt.Sprintf("given up after %v with %d processes and %.0f jobs left", o.Limit, workers,
			a.Metrics["left"]))
	}
	for _, s := range c.shares {
		a.Notes = append(a.Notes, s.Notes...)
	}
	return a, c.settle(a.Metrics)
}

// drain returns when the workers have been told to stop.
func (c *crowd) drain(ctx context.Context) (Metrics, error) {
	for i := range c.shares {
		p, err := c.start(ctx, stepShare, func(a answer) { c.shares[i] = a })
		if err != nil {
			return nil, err
		}
		c.workers = append(c.workers, p)
	}
	found := make(chan answer, 1)
	watcher, err := c.start(ctx, stepAwait, func(a answer) { found <- a })
	if err != nil {
		return nil, err
	}
	before, start := use(c.Place.PID), time.Now()
	for _, p := range c.workers {
		if err := p.begin(); err != nil {
			return nil, err
		}
	}
	limit := time.NewTimer(c.Limit)
	defer limit.Stop()
	select {
	case <-c.all:
	case <-limit.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	handled := time.Since(start)
	if err := watcher.begin(); err != nil {
		return nil, err
	}
	if err := watcher.say(strconv.FormatInt((c.Limit - handled).Milliseconds(), 10)); err != nil {
		return nil, err
	}
	m := Metrics{"capped": 0}
	select {
	case a := <-found:
		m["left"], m["seconds"] = a.Metrics["left"], handled.Seconds()+a.Metrics["seconds"]
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	m["server_us"] = microseconds(use(c.Place.PID).since(before).server) / float64(c.Jobs)
	word := lineStop
	if m["left"] > 0 {
		m["capped"], word = 1, lineGiveUp
	}
	for _, p := range c.workers {
		if err := p.say(word); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// start starts one process and listens to it until its answer.
func (c *crowd) start(ctx context.Context, step string, take func(answer)) (*process, error) {
	o := c.order
	o.Step = step
	p, err := startProcess(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := p.ready(); err != nil {
		return nil, err
	}
	c.group.Go(func() error {
		told := int64(0)
		a, err := p.answerAfter(func(n int64) {
			if c.reported.Add(n-told) >= int64(c.Jobs) {
				c.close()
			}
			told = n
		})
		if err == nil {
			take(a)
		}
		return err
	})
	return p, nil
}

// settle adds up what the workers have handled. A job that two of them have handled was run twice.
func (c *crowd) settle(m Metrics) error {
	seen := make([]uint32, (c.Jobs+31)/32)
	runs, strangers := 0.0, 0.0
	for _, s := range c.shares {
		runs += s.Metrics["handled"] + s.Metrics["duplicates"]
		strangers += s.Metrics["strangers"]
		m["cpu_us"] += 1000 * s.Metrics["cpu_ms"] / float64(c.Jobs)
		for i, word := range s.Seen {
			seen[i] |= word
		}
	}
	handled := 0
	for _, word := range seen {
		handled += bits.OnesCount32(word)
	}
	m["jobs"], m["handled"], m["duplicates"] = float64(c.Jobs), float64(handled), runs-float64(handled)
	m["rate"] = float64(handled) / m["seconds"]
	var problems []error
	if handled != c.Jobs && m["capped"] == 0 {
		problems = append(problems, fmt.Errorf("%d different jobs were handled, want %d", handled, c.Jobs))
	}
	if strangers > 0 {
		problems = append(problems, fmt.Errorf("%.0f jobs were handled that nobody enqueued", strangers))
	}
	return errors.Join(problems...)
}

// answerAfter is answer for a child that says before how many jobs it has handled.
func (p *process) answerAfter(handled func(n int64)) (answer, error) {
	for {
		line, err := p.stdout.ReadString('\n')
		text, ok := strings.CutPrefix(line, lineHandled)
		if !ok {
			return p.last(line, err)
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil {
			handled(n)
		}
	}
}
