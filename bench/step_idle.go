package main

import (
	"context"
	"errors"
)

// idle is W8: a worker with c.Queues queues and no jobs.
func idle(ctx context.Context, c *child, s Subject) (Metrics, error) {
	handled := 0
	stop, err := s.Work(ctx, Workload{Queues: c.Queues, Handle: func(Payload) { handled++ }})
	if err != nil {
		return nil, err
	}
	err = errors.Join(c.ready(), pause(ctx, c.Settle))
	before := use(c.Place.PID)
	if err == nil {
		err = pause(ctx, c.Duration)
	}
	u := use(c.Place.PID).since(before)
	m := Metrics{
		"cpu_ms_per_s":    milliseconds(u.cpu) / c.Duration.Seconds(),
		"server_ms_per_s": milliseconds(u.server) / c.Duration.Seconds(),
		"disk_bytes":      float64(u.disk),
	}
	if handled > 0 {
		err = errors.Join(err, errors.New("an idle worker handled jobs"))
	}
	return m, errors.Join(err, stop())
}
