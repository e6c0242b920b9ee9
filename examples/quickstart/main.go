// Quickstart enqueues three greetings and works until they are done.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/runtime"
)

// Greeting is the payload, and greetings is what producer and handler share.
type Greeting struct{ Name string }

var greetings = queue.Define[Greeting]("greetings", queue.Options{MaxAttempts: 5})

func main() {
	if err := run(context.Background(), "quickstart.db", os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, path string, out io.Writer) error {
	client, err := queue.Open(ctx, path, nil)
	if err != nil {
		return err
	}
	names := []Greeting{{"Ada"}, {"Grace"}, {"Edsger"}}
	if _, err := greetings.EnqueueMany(ctx, client, names, nil); err != nil {
		return errors.Join(err, client.Close())
	}
	registry := handlers.NewRegistry()
	handlers.Handle(registry, greetings, func(_ context.Context, g Greeting) error {
		_, err := fmt.Fprintf(out, "Hello, %s!\n", g.Name)
		return err // nil: done; any error: again later, five times in all
	}, handlers.Options{Concurrency: 1})

	worker, err := runtime.New(client, registry, runtime.Config{UntilIdle: true})
	if err == nil {
		err = worker.Run(ctx)
	}
	return errors.Join(err, client.Close())
}
