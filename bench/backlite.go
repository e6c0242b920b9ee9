package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/mikestefanello/backlite"
)

func backliteSpecs() []*Spec {
	return []*Spec{{
		Name: "backlite", Kind: SQLitePeer, Sync: "NORMAL", Open: openBacklite,
		Modules: []string{"github.com/mikestefanello/backlite", sqliteModule},
		Settings: "WAL, NORMAL, one connection and NumWorkers 1000 (fastest; README: no limit and 10); a worker never sees " +
			"jobs of another process by itself, so in W6 and the second process of W7 its Notify is called every ms",
		Cannot: map[string]string{"W10": noBatchClaim},
	}}
}

type backliteSubject struct {
	db     *sql.DB
	client *backlite.Client
	path   string
	pin    *walPin
}

func openBacklite(_ context.Context, s *Spec, p Place) (Subject, error) {
	db, err := peerPool(s, p.Path)
	if err != nil {
		return nil, err
	}
	client, err := backlite.NewClient(backlite.ClientConfig{
		DB: db, NumWorkers: 1000, ReleaseAfter: time.Hour, Logger: backliteLog{},
	})
	if err == nil {
		err = client.Install()
	}
	if err != nil {
		return nil, err
	}
	return &backliteSubject{db: db, client: client, path: p.Path}, nil
}

// backliteLog passes on errors only.
type backliteLog struct{}

func (backliteLog) Info(string, ...any)               {}
func (backliteLog) Error(message string, args ...any) { quietLog().Error(message, args...) }

// backliteTask is one job.
type backliteTask struct{ Payload }

func backliteConfig(i int) backlite.QueueConfig {
	return backlite.QueueConfig{Name: queueName(i), MaxAttempts: 3, Backoff: 5 * time.Second, Timeout: time.Minute}
}

// Config implements backlite.Task.
func (backliteTask) Config() backlite.QueueConfig { return backliteConfig(0) }

// backliteIdle is a queue that gets no jobs: NewQueue takes one type for each.
type backliteIdle struct{ config backlite.QueueConfig }

// Config implements backlite.Queue.
func (q backliteIdle) Config() *backlite.QueueConfig { return &q.config }

// Process implements backlite.Queue.
func (q backliteIdle) Process(context.Context, []byte) error {
	return fmt.Errorf("a job in %q", q.config.Name)
}

func (b *backliteSubject) Enqueue(ctx context.Context, p Payload) error {
	_, err := b.client.Add(backliteTask{p}).Ctx(ctx).Save()
	return err
}

func (b *backliteSubject) EnqueueMany(ctx context.Context, ps []Payload) error {
	tasks := make([]backlite.Task, len(ps))
	for i, p := range ps {
		tasks[i] = backliteTask{p}
	}
	_, err := b.client.Add(tasks...).Ctx(ctx).Save()
	return err
}

func (b *backliteSubject) Work(ctx context.Context, w Workload) (stop func() error, err error) {
	b.client.Register(backlite.NewQueue(func(_ context.Context, t backliteTask) error {
		w.Handle(t.Payload)
		return nil
	}))
	for i := 1; i < w.Queues; i++ {
		b.client.Register(backliteIdle{backliteConfig(i)})
	}
	b.client.Start(ctx)
	ended := make(chan struct{})
	if w.Foreign {
		go func() {
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					b.client.Notify()
				case <-ended:
					return
				}
			}
		}()
	}
	return func() error {
		close(ended)
		// Tasks that were claimed but not begun keep it from ever stopping.
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if !b.client.Stop(ctx) {
			return errors.New("did not stop in time")
		}
		return nil
	}, nil
}

func (b *backliteSubject) Left(ctx context.Context) (int, error) {
	return countRows(ctx, b.db, "SELECT count(*) FROM backlite_tasks")
}

func (b *backliteSubject) Close() error {
	if b.pin != nil {
		b.pin.release()
	}
	return b.db.Close()
}

// LogBytes implements logger.
func (b *backliteSubject) LogBytes(ctx context.Context) (int64, error) {
	return pinnedBytes(ctx, &b.pin, b.path)
}
