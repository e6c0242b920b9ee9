package handlers_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
)

// deliver does what a worker does with a job it has claimed, without a database.
func deliver(r *handlers.Registry, job *queue.Job) handlers.Answer {
	reg, ok := r.Lookup(job.Queue)
	if !ok {
		panic("no handler for " + job.Queue)
	}
	ctx := handlers.NewDelivery(nil, job).Context(context.Background())
	return handlers.Resolve(handlers.Invoke(ctx, reg.Handler, job))
}

// A typed handler gets the value that the producer enqueued, and the job from its context.
func ExampleHandle() {
	type Email struct{ To string }
	emails := queue.Define[Email]("emails", queue.Options{MaxAttempts: 5})

	r := handlers.NewRegistry()
	handlers.Handle(r, emails, func(ctx context.Context, e Email) error {
		fmt.Printf("job %d: to %s\n", handlers.JobFromContext(ctx).ID, e.To)
		return nil
	}, handlers.Options{Timeout: time.Minute})

	fmt.Println(deliver(r, &queue.Job{ID: 1, Queue: "emails", Payload: []byte(`{"To":"ada@example.org"}`)}).Kind)
	// Output:
	// job 1: to ada@example.org
	// ack
}

// A raw handler gets the job with its payload as bytes.
func ExampleRegistry_Register() {
	r := handlers.NewRegistry()
	r.Register("files", handlers.HandlerFunc(func(_ context.Context, job *queue.Job) error {
		fmt.Printf("%d bytes\n", len(job.Payload))
		return nil
	}), handlers.Options{Concurrency: 2})

	fmt.Println(r.Queues())
	fmt.Println(deliver(r, &queue.Job{Queue: "files", Payload: []byte{0, 1, 2}}).Kind)
	// Output:
	// [files]
	// 3 bytes
	// ack
}

// What a handler returns says what becomes of its job.
func ExampleResolve() {
	down := errors.New("server is down")
	for _, err := range []error{
		nil,
		down,
		handlers.RetryAfter(time.Minute, down),
		handlers.Snooze(time.Hour),
		fmt.Errorf("charge card: %w", handlers.Fail(errors.New("card expired"))),
		handlers.Cancel(errors.New("order withdrawn")),
	} {
		a := handlers.Resolve(err)
		fmt.Printf("%s %v %q\n", a.Kind, a.Delay, a.Text)
	}
	// Output:
	// ack 0s ""
	// retry 0s "server is down"
	// retry_after 1m0s "server is down"
	// snooze 1h0m0s ""
	// fail 0s "charge card: card expired"
	// cancel 0s "order withdrawn"
}

// A server that says when to come back decides the delay instead of the backoff.
func ExampleRetryAfter() {
	call := func() error { return handlers.RetryAfter(30*time.Second, errors.New("429 Too Many Requests")) }
	fmt.Println(handlers.Resolve(call()).Delay)
	// Output: 30s
}

// A job that waits for something looks again later, without spending attempts.
func ExampleSnooze() {
	ready := false
	poll := func() error {
		if !ready {
			return handlers.Snooze(10 * time.Second)
		}
		return nil
	}
	fmt.Println(handlers.Resolve(poll()).Kind)
	ready = true
	fmt.Println(handlers.Resolve(poll()).Kind)
	// Output:
	// snooze
	// ack
}

// What can never work is not tried again.
func ExampleFail() {
	err := handlers.Fail(errors.New("no such user"))
	fmt.Println(handlers.Resolve(err).Kind, err)
	// Output: fail no such user
}

// What is no longer wanted is deleted without a trace in the dead letters.
func ExampleCancel() {
	err := handlers.Cancel(errors.New("order withdrawn"))
	fmt.Println(handlers.Resolve(err).Kind, err)
	// Output: cancel order withdrawn
}

// Middleware sees every attempt of every queue, and a panic as an error.
func ExampleMiddleware() {
	logging := func(next handlers.Handler) handlers.Handler {
		return handlers.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
			err := next.Handle(ctx, job)
			fmt.Printf("%s job %d: %v\n", job.Queue, job.ID, err)
			return err
		})
	}
	r := handlers.NewRegistry()
	r.Use(logging)
	r.Register("good", handlers.HandlerFunc(func(context.Context, *queue.Job) error { return nil }), handlers.Options{})
	r.Register("bad", handlers.HandlerFunc(func(context.Context, *queue.Job) error { panic("boom") }), handlers.Options{})

	deliver(r, &queue.Job{ID: 1, Queue: "good"})
	deliver(r, &queue.Job{ID: 2, Queue: "bad"})
	// Output:
	// good job 1: <nil>
	// bad job 2: panic: boom
}

// A panic is one failed attempt.
func ExampleInvoke() {
	h := handlers.HandlerFunc(func(context.Context, *queue.Job) error { panic("boom") })
	err := handlers.Invoke(context.Background(), h, &queue.Job{})
	p, ok := errors.AsType[*handlers.PanicError](err)
	fmt.Println(ok, p.Value, p.Stack != "", err)
	// Output: true boom true panic: boom
}

// What the handler writes and the end of its job are committed together.
func ExampleAckTx() {
	err := func() error {
		ctx := context.Background()
		dir, err := os.MkdirTemp("", "ack")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		db, err := sql.Open("sqlite", queue.SQLiteDSN(filepath.Join(dir, "shop.db")))
		if err != nil {
			return err
		}
		defer func() { _ = db.Close() }()
		client, err := queue.OpenDB(ctx, db, nil)
		if err != nil {
			return err
		}
		defer func() { _ = client.Close() }()
		if _, err := db.ExecContext(ctx, `CREATE TABLE invoices (customer TEXT)`); err != nil {
			return err
		}

		bills := queue.Define[string]("bills", queue.Options{})
		r := handlers.NewRegistry()
		handlers.Handle(r, bills, func(ctx context.Context, customer string) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }() // does nothing after Commit
			if _, err := tx.ExecContext(ctx, `INSERT INTO invoices (customer) VALUES (?)`, customer); err != nil {
				return err
			}
			if err := handlers.AckTx(ctx, tx); err != nil {
				return err
			}
			return tx.Commit()
		}, handlers.Options{})

		// A worker does this.
		id, err := bills.Enqueue(ctx, client, "Ada", nil)
		if err != nil {
			return err
		}
		jobs, err := client.Claim(ctx, "bills", "example", 1)
		if err != nil {
			return err
		}
		reg, _ := r.Lookup("bills")
		d := handlers.NewDelivery(client, jobs[0])
		err = handlers.Invoke(d.Context(ctx), reg.Handler, jobs[0])
		fmt.Println(handlers.Resolve(err).Kind, d.AckedInTx())

		job, err := client.Get(ctx, id)
		fmt.Println(job == nil)
		return err
	}()
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// ack true
	// true
}

// The cause of the context says why the handler is to stop.
func ExampleErrTimeout() {
	r := handlers.NewRegistry()
	r.Register("slow", handlers.HandlerFunc(func(ctx context.Context, _ *queue.Job) error {
		<-ctx.Done()
		if errors.Is(context.Cause(ctx), handlers.ErrTimeout) {
			return handlers.Fail(fmt.Errorf("too slow: %w", context.Cause(ctx)))
		}
		return context.Cause(ctx)
	}), handlers.Options{Timeout: time.Millisecond})

	// A worker does this.
	reg, _ := r.Lookup("slow")
	ctx, cancel := context.WithTimeoutCause(context.Background(), reg.Options.Timeout, handlers.ErrTimeout)
	defer cancel()
	fmt.Println(handlers.Invoke(ctx, reg.Handler, &queue.Job{}))
	// Output: too slow: handler timed out
}
