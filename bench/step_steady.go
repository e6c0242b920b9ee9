package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// windows is into how many parts W12 is divided.
const windows = 10

// steady is W12: a job is due every c.Every, whether the one before is stored or not, and its latency counts from then.
func steady(ctx context.Context, c *child, s Subject) (Metrics, error) {
	d := newDelays(c.Jobs)
	stop, err := s.Work(ctx, Workload{Queues: 1, Handle: func(p Payload) {
		d.handle(p)
		_ = pause(ctx, c.Work) // ended early, it ends early
	}})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(c.ready(), pause(ctx, c.Settle)); err != nil {
		return nil, errors.Join(err, stop())
	}
	start := time.Now()
	levels := newLevels(c, start)
	watching, ended := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { levels.watch(watching) })
	err = c.sendSteadily(ctx, s, start)
	d.awaitAll(ctx, patience)
	ended()
	watcher.Wait()

	m := Metrics{}
	d.report(m)
	for i := range windows {
		took := d.known(i*c.Jobs/windows, (i+1)*c.Jobs/windows)
		c.series = append(c.series, Metrics{
			"from_s": float64(i) * c.Duration.Seconds() / windows,
			"jobs":   float64(len(took)), "p50_ms": milliseconds(percentile(took, 50)), "p99_ms": milliseconds(percentile(took, 99)),
			"max_ms": milliseconds(percentile(took, 100)), "wal_mb": levels.wal[i], "rss_mb": levels.memory[i],
		})
	}
	first, last := c.series[0], c.series[windows-1]
	for _, name := range []string{"p50_ms", "p99_ms", "wal_mb", "rss_mb"} {
		m["first_"+name], m["last_"+name] = first[name], last[name]
	}
	return m, errors.Join(err, stop(), d.check(false))
}

// sendSteadily hands each job to a goroutine at the time when it is due.
func (c *child) sendSteadily(ctx context.Context, s Subject, start time.Time) error {
	group, ctx := errgroup.WithContext(ctx)
	due := make(chan Payload, min(c.Jobs, 10_000)) // a full one would make the next job late
	for range 64 {
		group.Go(func() error {
			for p := range due {
				if err := s.Enqueue(ctx, p); err != nil {
					return err
				}
			}
			return nil
		})
	}
	var late error
	for n := range c.Jobs {
		at := start.Add(time.Duration(n) * c.Every)
		if late = pause(ctx, time.Until(at)); late != nil {
			break
		}
		due <- newPayload(int64(n), at.UnixNano())
	}
	close(due)
	if err := group.Wait(); err != nil {
		return err
	}
	return late
}

// levels are the most that memory and log took in each window, in megabytes.
type levels struct {
	path   string
	start  time.Time
	window time.Duration
	memory [windows]float64
	wal    [windows]float64
}

func newLevels(c *child, start time.Time) *levels {
	return &levels{path: c.Place.Path, start: start, window: c.Duration / windows}
}

func (l *levels) watch(ctx context.Context) {
	for {
		i := min(int(time.Since(l.start)/max(l.window, 1)), windows-1)
		l.memory[i] = max(l.memory[i], float64(residentMemory())/1e6)
		if l.path != "" {
			if size, err := fileSize(l.path + "-wal"); err == nil {
				l.wal[i] = max(l.wal[i], float64(size)/1e6)
			}
		}
		if pause(ctx, min(l.window/10+1, 100*time.Millisecond)) != nil {
			return
		}
	}
}
