// Schedule fires a job every second and stops after the third.
//
// The schedule is a row in the database: it goes on at the next start, and any process that works on the database, the
// command line included, can pause, change or remove it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/runtime"
	"github.com/alkstore/alkworker/scheduler"
)

var reports = queue.DefineRaw("reports", queue.Options{MaxAttempts: 3})

func main() {
	if err := run(context.Background(), "schedule.db", os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, path string, out io.Writer) error {
	client, err := queue.Open(ctx, path, nil)
	if err != nil {
		return err
	}
	return errors.Join(fireThrice(ctx, client, out), client.Close())
}

func fireThrice(ctx context.Context, client *queue.Client, out io.Writer) error {
	// Setting a schedule again changes nothing: a program does it at every start.
	err := scheduler.Set(ctx, client, scheduler.Schedule{
		Name:    "report",
		Queue:   reports.Name(),
		Spec:    "@every 1s",
		Payload: []byte("sales"),
		CatchUp: 1, // of what was missed while no worker ran, only one is made up for
	})
	if err != nil {
		return err
	}

	var worker *runtime.Worker
	fired := 0
	registry := handlers.NewRegistry()
	handlers.Handle(registry, reports, func(ctx context.Context, kind []byte) error {
		job := handlers.JobFromContext(ctx)
		if fired++; fired == 3 {
			worker.Stop() // returns at once; this job is finished and recorded
		}
		_, err := fmt.Fprintf(out, "%s: %s for %s\n", job.Schedule, kind, job.ScheduledFor.Format(time.TimeOnly))
		return err
	}, handlers.Options{Concurrency: 1})

	if worker, err = runtime.New(client, registry, runtime.Config{}); err != nil {
		return err
	}
	return worker.Run(ctx)
}
