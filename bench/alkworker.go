package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/runtime"
)

func alkworkerSpecs() []*Spec {
	const module, settings = "github.com/alkstore/alkworker", "typed queue; slots of the -slots flag in W4-W6, else the default"
	return []*Spec{
		{Name: "alkworker", Kind: Ours, Sync: "FULL", Modules: []string{module, sqliteModule}, Open: openAlkworker,
			Seeder: "alkworker-normal", Settings: "default (synchronous FULL); " + settings},
		{Name: "alkworker-normal", Kind: Ours, Sync: "NORMAL", Modules: []string{module, sqliteModule}, Open: openAlkworker,
			Settings: "synchronous NORMAL; " + settings},
		{Name: "alkworker-pg", Kind: Ours, Server: Postgres, Modules: []string{module, pgxModule}, Open: openAlkworker,
			Settings: "default server configuration (synchronous_commit on), unix socket, pool of 10 and 2 for heartbeats; " +
				settings},
	}
}

const sqliteModule = "modernc.org/sqlite"

type alkworker struct {
	client *queue.Client
	queue  *queue.Queue[Payload]
	place  Place
	pin    *walPin
}

func openAlkworker(ctx context.Context, s *Spec, p Place) (Subject, error) {
	config := &queue.Config{}
	if s.Sync == "NORMAL" {
		config.Synchronous = queue.Normal
	}
	dsn := p.Path
	if s.Server == Postgres {
		var err error
		if dsn, err = postgresURL(p.Server, postgresPool); err != nil {
			return nil, err
		}
	}
	client, err := queue.Open(ctx, dsn, config)
	if err != nil {
		return nil, err
	}
	return &alkworker{client: client, queue: queue.Define[Payload](queueName(0), queue.Options{}), place: p}, nil
}

func (a *alkworker) Enqueue(ctx context.Context, p Payload) error {
	_, err := a.queue.Enqueue(ctx, a.client, p, nil)
	return err
}

func (a *alkworker) EnqueueMany(ctx context.Context, ps []Payload) error {
	_, err := a.queue.EnqueueMany(ctx, a.client, ps, nil)
	return err
}

func (a *alkworker) Work(ctx context.Context, w Workload) (stop func() error, err error) {
	registry := handlers.NewRegistry()
	for i := range w.Queues {
		handlers.Handle(registry, queue.Define[Payload](queueName(i), queue.Options{}),
			func(_ context.Context, p Payload) error { w.Handle(p); return nil }, handlers.Options{})
	}
	config := runtime.Config{Logger: quietLog()}
	if w.Busy {
		config.Concurrency = w.Slots
	}
	worker, err := runtime.New(a.client, registry, config)
	if err != nil {
		return nil, err
	}
	ran := make(chan error, 1)
	go func() { ran <- worker.Run(ctx) }()
	return func() error { worker.Stop(); return <-ran }, nil
}

// quietLog writes what may explain a bad result to standard error.
func quietLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

func (a *alkworker) Left(ctx context.Context) (int, error) {
	stats, err := a.client.Stats(ctx)
	left := 0
	for _, s := range stats {
		left += s.Ready + s.Delayed + s.Processing
	}
	return left, err
}

func (a *alkworker) Close() error {
	if a.pin != nil {
		a.pin.release()
	}
	return a.client.Close()
}

// Live implements liver.
func (a *alkworker) Live(ctx context.Context, p Payload, heartbeats int) error {
	if err := a.Enqueue(ctx, p); err != nil {
		return err
	}
	jobs, err := a.claim(ctx, 1)
	if err != nil {
		return err
	}
	for range heartbeats {
		held, err := a.client.Heartbeat(ctx, jobs[0].Handle())
		if err := allHeld("heartbeat", held, err); err != nil {
			return err
		}
	}
	acked, err := a.client.Ack(ctx, jobs[0].Handle())
	return allHeld("ack", acked, err)
}

// claim claims exactly n jobs.
func (a *alkworker) claim(ctx context.Context, n int) ([]*queue.Job, error) {
	jobs, err := a.client.Claim(ctx, queueName(0), "bench", n)
	if err == nil && len(jobs) != n {
		err = fmt.Errorf("claimed %d jobs, want %d", len(jobs), n)
	}
	return jobs, err
}

func allHeld(op string, held []bool, err error) error {
	for _, h := range held {
		if !h {
			err = errors.Join(err, fmt.Errorf("%s: claim is gone", op))
		}
	}
	return err
}

// LogBytes implements logger.
func (a *alkworker) LogBytes(ctx context.Context) (int64, error) {
	if a.place.Server != "" {
		return postgresLogBytes(ctx, a.place.Server)
	}
	return pinnedBytes(ctx, &a.pin, a.place.Path)
}

// pinnedBytes pins the log at the first call.
func pinnedBytes(ctx context.Context, pin **walPin, path string) (int64, error) {
	if *pin == nil {
		p, err := pinWAL(ctx, path)
		if err != nil {
			return 0, err
		}
		*pin = p
	}
	return (*pin).bytes()
}

// The states of the database that W10 claims in, beside the jobs that are ready and claimed.
const (
	caseReady      = "ready"
	caseDelayed    = "delayed"
	caseDead       = "dead"
	casePriority   = "higher priority, not ready"
	caseProcessing = "in process"
)

// fill brings the database into one of those states with n jobs.
func (a *alkworker) fill(ctx context.Context, state string, n int) error {
	rest := 0
	if a.place.Server != "" {
		n, rest = min(n, 1), n-1
	}
	o := queue.EnqueueOptions{VisibilityTimeout: 24 * time.Hour} // outlives the run
	switch state {
	case caseDelayed:
		o.Delay = 24 * time.Hour
	case casePriority:
		o.Delay, o.Priority = 24*time.Hour, 10
	}
	for done := 0; done < n; {
		chunk := min(n-done, bulk)
		payloads := make([]Payload, chunk)
		for i := range payloads {
			payloads[i] = newPayload(int64(done+i), 0)
		}
		if _, err := a.queue.EnqueueMany(ctx, a.client, payloads, &o); err != nil {
			return err
		}
		if state == caseDead || state == caseProcessing {
			jobs, err := a.claim(ctx, chunk)
			if err != nil {
				return err
			}
			if state == caseDead {
				failures := make([]queue.Failed, chunk)
				for i, j := range jobs {
					failures[i] = queue.Failed{Handle: j.Handle(), Err: "bench"}
				}
				failed, err := a.client.Fail(ctx, failures...)
				if err := allHeld("fail", failed, err); err != nil {
					return err
				}
			}
		}
		done += chunk
	}
	if rest <= 0 {
		return nil
	}
	return multiply(ctx, a.place.Server, state == caseDead, rest)
}

// timeClaim enqueues a batch, claims as many, and ends them; only the claim is timed. What the database holds besides stays
// as it is.
func (a *alkworker) timeClaim(ctx context.Context, batch int) (took time.Duration, err error) {
	payloads := make([]Payload, batch)
	for i := range payloads {
		payloads[i] = newPayload(int64(i), 0)
	}
	if err := a.EnqueueMany(ctx, payloads); err != nil {
		return 0, err
	}
	start := time.Now()
	jobs, err := a.claim(ctx, batch)
	took = time.Since(start)
	if err != nil {
		return 0, err
	}
	handles := make([]queue.Handle, batch)
	for i, j := range jobs {
		handles[i] = j.Handle()
	}
	acked, err := a.client.Ack(ctx, handles...)
	return took, allHeld("ack", acked, err)
}
