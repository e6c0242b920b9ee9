package main

import (
	"context"
	"errors"
	"fmt"
)

// write is W11: what large jobs cost the log over their whole lives.
func write(ctx context.Context, c *child, s Subject) (Metrics, error) {
	log, ok := s.(logger)
	if !ok {
		return nil, errors.New("does not say what it writes")
	}
	live, heartbeats, stop, err := c.liver(ctx, s)
	if err != nil {
		return nil, err
	}
	if err := c.ready(); err != nil {
		return nil, errors.Join(err, stop())
	}
	written, err := func() (int64, error) {
		if err := live(newPayload(0, 0)); err != nil { // what the first job writes besides is not its own
			return 0, err
		}
		before, err := log.LogBytes(ctx)
		if err != nil {
			return 0, err
		}
		for n := range c.Jobs {
			if err := live(largePayload(int64(n+1), c.Size)); err != nil {
				return 0, err
			}
		}
		after, err := log.LogBytes(ctx)
		return after - before, err
	}()
	if err := errors.Join(err, stop()); err != nil {
		return nil, err
	}
	payload := float64(c.Jobs) * float64(c.Size)
	return Metrics{
		"log_mb": float64(written) / 1e6, "payload_mb": payload / 1e6, "log_ratio": float64(written) / payload,
		"heartbeats": float64(heartbeats),
	}, checkLeft(ctx, s, 0)
}

// liver returns how to see a job through its life: by hand with heartbeats where the subject can, else by a worker.
func (c *child) liver(
	ctx context.Context, s Subject,
) (live func(Payload) error, heartbeats int, stop func() error, err error) {
	if l, ok := s.(liver); ok {
		const heartbeats = 10
		live = func(p Payload) error { return l.Live(ctx, p, heartbeats) }
		return live, heartbeats, func() error { return nil }, nil
	}
	c.notes = append(c.notes, "by a worker and without heartbeats: it has no calls for them")
	handled := make(chan int64, 1)
	stop, err = s.Work(ctx, Workload{Queues: 1, Slots: 1, Busy: true, Handle: func(p Payload) { handled <- p.N }})
	live = func(p Payload) error {
		if err := s.Enqueue(ctx, p); err != nil {
			return err
		}
		select {
		case n := <-handled:
			if n != p.N {
				return fmt.Errorf("job %d was handled, want %d", n, p.N)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
		return awaitNone(ctx, s)
	}
	return live, 0, stop, err
}

func awaitNone(ctx context.Context, s Subject) error {
	for {
		left, err := s.Left(ctx)
		if err != nil || left == 0 {
			return err
		}
		if err := pause(ctx, pollLeft); err != nil {
			return err
		}
	}
}
