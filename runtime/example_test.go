package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/runtime"
)

var greet = queue.Define[string]("greet", queue.Options{})

// A worker that ends when there is nothing left to do. Without UntilIdle it works until its context ends or Stop is
// called.
func Example() {
	err := inNewDatabase(func(ctx context.Context, c *queue.Client) error {
		if _, err := greet.EnqueueMany(ctx, c, []string{"Ada", "Grace"}, nil); err != nil {
			return err
		}
		r := handlers.NewRegistry()
		handlers.Handle(r, greet, func(_ context.Context, name string) error {
			fmt.Println("hello,", name)
			return nil
		}, handlers.Options{})

		w, err := runtime.New(c, r, runtime.Config{
			Concurrency: 1,
			UntilIdle:   true,
			Logger:      slog.New(slog.DiscardHandler), // so that the output is the handler's only
		})
		if err != nil {
			return err
		}
		return w.Run(ctx)
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// hello, Ada
	// hello, Grace
}

// Stop may be called from anywhere, also from a handler: its own job is still acknowledged.
func ExampleWorker_Stop() {
	err := inNewDatabase(func(ctx context.Context, c *queue.Client) error {
		if _, err := greet.EnqueueMany(ctx, c, []string{"Ada", "Grace"}, nil); err != nil {
			return err
		}
		var w *runtime.Worker
		r := handlers.NewRegistry()
		handlers.Handle(r, greet, func(_ context.Context, name string) error {
			fmt.Println("hello,", name)
			w.Stop()
			return nil
		}, handlers.Options{})

		w, err := runtime.New(c, r, runtime.Config{Concurrency: 1, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return err
		}
		if err := w.Run(ctx); err != nil {
			return err
		}
		left, err := c.List(ctx, queue.Filter{})
		fmt.Println("jobs left:", len(left))
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// hello, Ada
	// jobs left: 1
}

// inNewDatabase calls f with a client of a database that is gone afterwards.
func inNewDatabase(f func(ctx context.Context, c *queue.Client) error) (err error) {
	dir, err := os.MkdirTemp("", "example-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c, err := queue.Open(context.Background(), filepath.Join(dir, "jobs.db"), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	return f(context.Background(), c)
}
