package command_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/alkstore/alkworker/cmd/worker/command"
	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
	"github.com/alkstore/alkworker/queue"
)

// TestMain also makes this binary the two programs of the scripts: worker, which is what cmd/worker is, and app, which
// has handlers of its own.
func TestMain(m *testing.M) {
	testscript.Main(leakless{pgtest.Main(m)}, map[string]func(){
		"worker": func() { command.Main(handlers.NewRegistry()) },
		"app":    func() { command.Main(appHandlers()) },
	})
}

type leakless struct{ m interface{ Run() int } }

// Run runs the tests and then looks for goroutines that they left behind.
func (l leakless) Run() int {
	code := l.m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

type email struct {
	To string `json:"to"`
}

// appHandlers are those of a program with one typed queue that has options, and some that say how a job ends.
func appHandlers() *handlers.Registry {
	reg := handlers.NewRegistry()
	reg.Use(func(next handlers.Handler) handlers.Handler {
		return handlers.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
			fmt.Println("middleware", job.Queue)
			return next.Handle(ctx, job)
		})
	})
	emails := queue.Define[email]("emails", queue.Options{MaxAttempts: 7, BackoffBase: time.Hour})
	handlers.Handle(reg, emails, func(_ context.Context, e email) error {
		fmt.Println("email to", e.To)
		return nil
	}, handlers.Options{})
	raw := func(name string, h handlers.HandlerFunc) {
		reg.Register(name, h, handlers.Options{Stamps: queue.Options{MaxAttempts: 2, BackoffBase: queue.NoBackoff}})
	}
	raw("fails", func(context.Context, *queue.Job) error { return handlers.Fail(errors.New("it is broken")) })
	raw("retries", func(context.Context, *queue.Job) error { return errors.New("not now") })
	raw("panics", func(context.Context, *queue.Job) error { panic("a bug") })
	raw("blocks", func(ctx context.Context, _ *queue.Job) error {
		<-ctx.Done()
		return ctx.Err()
	})
	return reg
}
