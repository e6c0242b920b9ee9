package command_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/alkstore/alkworker/cmd/worker/command"
	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
)

// A program that calls Main with its handlers has every command. Run is the same for one command line, without exiting.
func ExampleRun() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	db := "--db=" + filepath.Join(dir, "jobs.db")

	reg := handlers.NewRegistry()
	reg.Register("greetings", handlers.HandlerFunc(func(_ context.Context, job *queue.Job) error {
		fmt.Printf("hello, %s\n", job.Payload)
		return nil
	}), handlers.Options{})

	for _, args := range [][]string{
		{db, "enqueue", "greetings", "world"},
		{db, "run", "--until-idle", "--log-level=error"},
		{db, "get", "1"},
	} {
		status := command.Run(context.Background(), reg, args, os.Stdin, os.Stdout, os.Stdout)
		fmt.Println("status", status)
	}
	// Output:
	// 1
	// status 0
	// hello, world
	// status 0
	// worker: there is no job 1
	// status 3
}
