package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/runtime"
	"github.com/alkstore/alkworker/scheduler"
)

type runCommand struct {
	Exec        []string       `sep:"none" placeholder:"QUEUE=COMMAND" help:"Run a program for each job of a queue; repeatable. Split at the first equals sign; the command is split into words like a shell would and run without one."`
	Concurrency *int           `placeholder:"N" help:"How many jobs run at the same time, over all queues (16)."`
	Drain       *time.Duration `placeholder:"DURATION" help:"How long running jobs may go on after a signal (30s); 0s cancels them at once."`
	UntilIdle   bool           `help:"Exit with 0 when nothing is ready, running or waiting for a retry in the queues of this worker."`
	Name        *string        `placeholder:"NAME" help:"Name of this worker in logs and as claimant (host name and process id)."`
	LogLevel    *string        `placeholder:"LEVEL" help:"debug, info, warn or error (info)."`
	HTTP        *string        `name:"http" placeholder:"ADDR" help:"Serve /healthz on HOST:PORT; without a host it is 127.0.0.1."`
}

// Help is the second part of the command's help.
func (*runCommand) Help() string {
	return `A program gets the payload as its standard input and JOB_ID, JOB_QUEUE, JOB_ATTEMPT, JOB_MAX_ATTEMPTS, JOB_FENCE, ` +
		`JOB_SCHEDULE and JOB_SCHEDULED_FOR in its environment. Exit status 0 is done, 100 fails the job for good, anything ` +
		`else is retried; the end of its standard error is the error text. Flags win over the file of --config.`
}

// settings are the flags of run with those of the configuration file below them.
type settings struct {
	runtime runtime.Config
	level   slog.Level
	http    string // HOST:PORT, or empty
}

// Run works until ctx ends. The order is that in which things need each other.
func (c *runCommand) Run(ctx context.Context, e *env) error {
	file, err := e.readFile()
	if err != nil {
		return err
	}
	s, wrong := c.settings(file)
	registry, more := serve(e, file, c.Exec)
	if wrong = append(wrong, more...); len(wrong) > 0 {
		return usagef("%w", wrong)
	}
	logger := newLogger(e.stderr, s.level, e.JSON)
	s.runtime.Logger = logger

	started := false
	var listener net.Listener
	if s.http != "" {
		if listener, err = new(net.ListenConfig).Listen(ctx, "tcp", s.http); err != nil {
			return failedf("serve http: %w", err)
		}
		defer func() { _ = listener.Close() }() // closed by serveHTTP if that was reached
	}
	err = e.with(ctx, e.create, func(client *queue.Client) error {
		if err := setSchedules(ctx, e, client, file); err != nil {
			return err
		}
		e.warnAboutSetup(logger, registry, file)
		worker, err := runtime.New(client, registry, s.runtime)
		if err != nil {
			return usagef("%w", err)
		}
		unserved := func() { warnAboutUnserved(ctx, logger, client, registry) }
		started = true
		if err := work(ctx, worker, client, listener, logger, unserved); err != nil {
			return failedf("%w", err)
		}
		return nil
	})
	if !started && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // told to stop before it had started
	}
	return err
}

// work runs the worker, and the HTTP server for as long as that. aside is done meanwhile, so that nothing waits for it.
func work(
	ctx context.Context, worker *runtime.Worker, client *queue.Client, listener net.Listener, logger *slog.Logger,
	aside func(),
) error {
	// The server goes on while the worker drains.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var group errgroup.Group
	if listener != nil {
		logger.Info("serving /healthz", "address", listener.Addr().String())
		group.Go(func() error {
			err := serveHTTP(serving, listener, healthHandler(client))
			if err != nil {
				worker.Stop()
			}
			return err
		})
	}
	group.Go(func() error {
		select {
		case <-ctx.Done():
			logger.Info("stopping; a second signal exits at once", "reason", context.Cause(ctx))
		case <-serving.Done():
		}
		return nil
	})
	group.Go(func() error {
		aside()
		return nil
	})
	err := worker.Run(ctx)
	stop()
	return errors.Join(err, group.Wait())
}

// settings resolves flags, configuration file and defaults, in this order, and says all that is wrong with the flags.
func (c *runCommand) settings(file *config) (s settings, wrong problems) {
	s.runtime.UntilIdle = c.UntilIdle
	s.runtime.Name = file.name
	if c.Name != nil {
		s.runtime.Name = *c.Name
		if err := validateWorkerName(*c.Name); err != nil {
			wrong = append(wrong, fmt.Errorf("--name: %w", err))
		}
	}
	s.runtime.Concurrency = file.concurrency
	if c.Concurrency != nil {
		if s.runtime.Concurrency = *c.Concurrency; *c.Concurrency < 1 {
			wrong = append(wrong, fmt.Errorf("--concurrency=%d: must be at least 1", *c.Concurrency))
		}
	}
	drain := file.drain
	if c.Drain != nil {
		drain = c.Drain
	}
	if drain != nil {
		if s.runtime.Drain = *drain; *drain == 0 {
			s.runtime.Drain = runtime.NoDrain
		}
	}
	// What the file says is checked with the file.
	var err error
	if c.LogLevel == nil {
		s.level, _ = parseLevel(cmp.Or(file.logLevel, "info"))
	} else if s.level, err = parseLevel(*c.LogLevel); err != nil {
		wrong = append(wrong, fmt.Errorf("--log-level: %w", err))
	}
	if c.HTTP == nil && file.http != "" {
		s.http, _ = listenAddress(file.http)
	} else if c.HTTP != nil {
		if s.http, err = listenAddress(*c.HTTP); err != nil {
			wrong = append(wrong, fmt.Errorf("--http: %w", err))
		}
	}
	if len(wrong) == 0 && len(file.found) == 0 {
		if err := s.runtime.Validate(); err != nil {
			wrong = append(wrong, err)
		}
	}
	return s, wrong
}

// validateWorkerName applies the rules of queue names, which leave room for what a worker adds to its name.
func validateWorkerName(name string) error {
	if err := queue.ValidateName(name); err != nil {
		return fmt.Errorf("the name of a worker follows the rules of queue names: %w", err)
	}
	return nil
}

// setSchedules stores the schedules of the configuration file. Setting one again that is there already moves nothing.
func setSchedules(ctx context.Context, e *env, client *queue.Client, file *config) error {
	for _, configured := range file.schedules {
		s := configured.schedule
		stamps, err := e.stamps(s.Queue)
		if err != nil {
			return err
		}
		s.Stamps = overridden(stamps, s.Stamps)
		if err := scheduler.Set(ctx, client, s); err != nil {
			return fmt.Errorf("%s:%d: %w", file.path, configured.line, err)
		}
	}
	return nil
}
