package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore/memory"
	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/scheduler"
)

// open stands for queue.Open(ctx, "jobs.db", nil): a database whose clock shows noon of the first of June until it is
// moved.
func open() (c *queue.Client, wait func(time.Duration)) {
	var now atomic.Int64
	now.Store(time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC).Unix())
	c = queue.NewClient(memory.New(memory.Options{Clock: now.Load}), nil)
	return c, func(d time.Duration) { now.Add(int64(d / time.Second)) }
}

func ExampleParse() {
	for _, spec := range []string{"@every 90s", "@every 1d", "@every 1h30m", "@every 0s"} {
		every, err := scheduler.Parse(spec)
		fmt.Println(every, err)
	}
	// Output:
	// 1m30s <nil>
	// 24h0m0s <nil>
	// 0s spec "@every 1h30m": needs a whole number of one unit, without sign, blank or fraction
	// 0s spec "@every 0s": the number must be positive and have no leading zero
}

// Every program sets its schedules when it starts. That changes nothing about when they fire.
func ExampleSet() {
	ctx := context.Background()
	c, wait := open()
	defer c.Close()

	start := func() error {
		return errors.Join(
			scheduler.Set(ctx, c, scheduler.Schedule{
				Name: "cleanup", Queue: "cleanup", Spec: "@every 1h", Payload: []byte(`{"older_than":"24h"}`),
			}),
			scheduler.Set(ctx, c, scheduler.Schedule{
				Name: "report", Queue: "reports", Spec: "@every 1d",
				Anchor:  time.Date(2026, 1, 1, 3, 0, 0, 0, time.UTC), // daily at three
				CatchUp: 1,                                           // after a long outage, one report is enough
				Stamps:  queue.Options{MaxAttempts: 3},
			}),
		)
	}
	for range 2 {
		if err := start(); err != nil {
			fmt.Println(err)
			return
		}
		wait(10 * time.Minute) // and then the program is restarted
	}
	schedules, err := scheduler.List(ctx, c)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range schedules {
		fmt.Println(s.Name, s.Spec, s.NextFireAt.Format(time.DateTime))
	}
	// Output:
	// cleanup @every 1h 2026-06-01 13:00:00
	// report @every 1d 2026-06-02 03:00:00
}

func ExampleSet_errors() {
	c, _ := open()
	defer c.Close()

	err := scheduler.Set(context.Background(), c, scheduler.Schedule{
		Name: "cleanup", Queue: "cleanup", Spec: "hourly", CatchUp: 100,
	})
	fmt.Println(errors.Is(err, queue.ErrInvalid))
	fmt.Println(err)
	// Output:
	// true
	// set schedule "cleanup" queue "cleanup": spec "hourly": must read "@every <n><unit>", such as "@every 15m"
	// catch-up 100 is not between 1 and 64
}

// What was missed during a pause is not made up for.
func ExampleResume() {
	ctx := context.Background()
	c, wait := open()
	defer c.Close()

	err := scheduler.Set(ctx, c, scheduler.Schedule{Name: "cleanup", Queue: "cleanup", Spec: "@every 1h"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(scheduler.Pause(ctx, c, "cleanup"))
	wait(5 * time.Hour)
	fmt.Println(scheduler.Resume(ctx, c, "cleanup"))
	fmt.Println(scheduler.Resume(ctx, c, "no such schedule"))
	schedules, err := scheduler.List(ctx, c)
	fmt.Println(schedules[0].NextFireAt.Format(time.DateTime), err)
	// Output:
	// true <nil>
	// true <nil>
	// false <nil>
	// 2026-06-01 18:00:00 <nil>
}

func ExampleFire() {
	ctx := context.Background()
	c, _ := open()
	defer c.Close()

	err := scheduler.Set(ctx, c, scheduler.Schedule{
		Name: "cleanup", Queue: "cleanup", Spec: "@every 1h", Payload: []byte("all"),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	id, ok, err := scheduler.Fire(ctx, c, "cleanup")
	if err != nil || !ok {
		fmt.Println(ok, err)
		return
	}
	job, err := c.Get(ctx, id)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("job %d of queue %s: %s, fired by %s\n", job.ID, job.Queue, job.Payload, job.Schedule)
	// Output:
	// job 1 of queue cleanup: all, fired by cleanup
}

// A scheduler that was away for three hours makes up for them. Run one in each process; one of them fires.
func ExampleScheduler_Run() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c, wait := open()
	defer c.Close()

	err := scheduler.Set(ctx, c, scheduler.Schedule{Name: "cleanup", Queue: "cleanup", Spec: "@every 1h"})
	if err != nil {
		fmt.Println(err)
		return
	}
	wait(3 * time.Hour)

	s := scheduler.New(c, scheduler.Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()

	woken := make(chan struct{}, 1)
	go func() {
		_ = c.Watch(ctx, time.Second, func(string) {
			select {
			case woken <- struct{}{}:
			default:
			}
		})
	}()
	var jobs []*queue.Job
	for len(jobs) == 0 {
		<-woken
		if jobs, err = c.Claim(ctx, "cleanup", "example", 10); err != nil {
			fmt.Println(err)
			return
		}
	}
	for _, job := range jobs {
		fmt.Println(job.Schedule, job.ScheduledFor.Format(time.TimeOnly))
	}
	cancel()
	fmt.Println("stopped:", <-done)
	// Output:
	// cleanup 13:00:00
	// cleanup 14:00:00
	// cleanup 15:00:00
	// stopped: <nil>
}
