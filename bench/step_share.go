package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// shareReport is how often a process of W13 says how many jobs it has handled.
const shareReport = 10 * time.Millisecond

// share is one of the workers of W13: it drains what it gets of c.Jobs jobs until the parent knows that all are done.
func share(ctx context.Context, c *child, s Subject) (Metrics, error) {
	if err := c.ready(); err != nil {
		return nil, err
	}
	book := newLedger(c.Jobs)
	before := use(0)
	stop, err := s.Work(ctx, Workload{Queues: 1, Slots: c.Slots, Busy: true, Handle: func(p Payload) { book.mark(p.N) }})
	if err != nil {
		return nil, err
	}
	word, err := c.tell(ctx, book)
	m := Metrics{"capped": 0}
	if word == lineGiveUp {
		m["capped"] = 1
	}
	err = errors.Join(err, c.stopAfter(m, stop))
	book.report(m)
	m["cpu_ms"] = milliseconds(use(0).since(before).cpu)
	for i := range book.seen {
		c.seen = append(c.seen, book.seen[i].Load())
	}
	return m, err
}

// tell reports how many jobs are handled until the parent has a word to say.
func (c *child) tell(ctx context.Context, book *ledger) (word string, err error) {
	words := make(chan string, 1)
	go func() {
		line, _ := c.in.ReadString('\n') // a parent that is gone ends this process
		words <- strings.TrimSpace(line)
	}()
	ticks := time.NewTicker(shareReport)
	defer ticks.Stop()
	for told := int64(0); ; {
		select {
		case word = <-words:
			return word, nil
		case <-ctx.Done():
			return "", ctx.Err()
		case <-ticks.C:
		}
		if n := book.handled.Load(); n != told {
			told = n
			if _, err := fmt.Fprintf(c.out, "%s%d\n", lineHandled, n); err != nil {
				return "", err
			}
		}
	}
}

// await says when no job is left in the database, in a process that does nothing else. The parent adds how many
// milliseconds it has for that; it looks at least once.
func await(ctx context.Context, c *child, s Subject) (Metrics, error) {
	if err := c.ready(); err != nil {
		return nil, err
	}
	start := time.Now()
	patience, err := c.number()
	if err != nil {
		return nil, err
	}
	for {
		left, err := s.Left(ctx)
		if err != nil {
			return nil, err
		}
		spent := time.Since(start)
		if left == 0 || spent.Milliseconds() >= patience {
			return Metrics{"left": float64(left), "seconds": spent.Seconds()}, nil
		}
		if err := pause(ctx, pollLeft); err != nil {
			return nil, err
		}
	}
}
