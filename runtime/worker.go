// Package runtime is the worker: it claims jobs, runs their handlers, and ends each claim by what the handler answers.
//
// A [Worker] is one blocking call, [Worker.Run]. Inside, each loop is a file: claim.go takes jobs while there are free
// slots, attempt.go runs one, heartbeat.go keeps the claims, record.go writes the answers, and sweep.go, presence.go and
// the scheduler do what any worker may do for all. stop.go is how all of it ends.
package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	goruntime "runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/scheduler"
)

// ErrAlreadyRan is returned by the second Run of a worker: a worker runs once. Make a new one to go on.
var ErrAlreadyRan = errors.New("worker has been run already")

// ErrHandlersStuck is returned by Run when handlers did not return after their contexts were cancelled. Their goroutines
// are still there; their jobs run again elsewhere once their claims lapse.
var ErrHandlersStuck = errors.New("handlers ignored the end of their contexts")

// Worker runs the handlers of a registry on the jobs of a database. Use New.
type Worker struct {
	client *queue.Client
	config Config
	log    *slog.Logger
	lines  []*line
	names  []string // of the lines

	flight  *flight
	claims  *claims
	answers *answers
	crew    *crew

	ran      atomic.Bool
	stopOnce sync.Once
	stopping chan struct{} // closed by Stop
}

// line is one queue of a worker.
type line struct {
	handlers.Registration
	limit int // handlers at the same time
}

// New makes a worker for the queues of a registry, as they are now. All that is wrong with the config is reported
// together. A worker without queues is legal: it fires schedules and sweeps.
func New(c *queue.Client, r *handlers.Registry, config Config) (*Worker, error) {
	config, err := config.withDefaults()
	if c == nil {
		err = errors.Join(err, errors.New("client is nil"))
	}
	if r == nil {
		err = errors.Join(err, errors.New("registry is nil"))
	}
	if err != nil {
		return nil, fmt.Errorf("worker config: %w", err)
	}
	w := &Worker{
		client:   c,
		config:   config,
		log:      config.Logger.With("worker", config.Name),
		flight:   newFlight(config.Concurrency),
		claims:   newClaims(),
		answers:  newAnswers(),
		stopping: make(chan struct{}),
	}
	w.crew = newCrew(w.attempt, w.flight.overstaffed)
	for _, name := range r.Queues() {
		registration, ok := r.Lookup(name)
		if !ok {
			continue // cannot happen: nothing is ever unregistered
		}
		limit := registration.Options.Concurrency
		if limit == 0 || limit > config.Concurrency {
			limit = config.Concurrency
		}
		w.lines = append(w.lines, &line{Registration: registration, limit: limit})
		w.names = append(w.names, name)
	}
	return w, nil
}

// Name is the worker's name, as it appears in logs and as the claimant of jobs.
func (w *Worker) Name() string { return w.config.Name }

// Stop makes Run stop claiming, drain and return. It does not wait. It may be called from anywhere, handlers included,
// any number of times; before Run, it makes Run return at once. The slot of a handler that calls it goes to nobody.
func (w *Worker) Stop() { w.stopOnce.Do(func() { close(w.stopping) }) }

// stopped says whether Stop was called or ctx, that of Run or one below it, has ended. The former ends the latter a
// moment later, which is too late for whoever called Stop and then made room for another job.
func (w *Worker) stopped(ctx context.Context) bool {
	select {
	case <-w.stopping:
		return true
	default:
		return ctx.Err() != nil
	}
}

// Run works until ctx ends or Stop is called, then drains: running handlers may go on for Config.Drain, then their
// contexts are cancelled with [handlers.ErrShutdown]. Every handler's answer is recorded before Run returns.
//
// Run returns nil after an orderly stop, [ErrHandlersStuck] if handlers had to be left behind, and otherwise the error of
// the database that made it impossible to go on, or to record answers before the end. While the database is merely
// busy, full or away, Run goes on trying, but no longer than ten seconds once the last handler has returned.
func (w *Worker) Run(ctx context.Context) error {
	if !w.ran.CompareAndSwap(false, true) {
		return ErrAlreadyRan
	}
	if w.stopped(ctx) {
		return nil
	}
	if len(w.lines) == 0 {
		w.log.Warn("no handlers are registered: this worker claims nothing")
	}
	// The handlers, heartbeats and records outlive ctx: its end means stop, not drop everything.
	lasting := context.WithoutCancel(ctx)
	going, stop := context.WithCancel(ctx)
	defer stop()
	keeping, release := context.WithCancel(lasting)
	defer release()

	support := new(errgroup.Group)
	support.Go(punctual(func() error { return w.keepClaims(keeping, stop) }))
	support.Go(func() error {
		defer release() // with nothing left to record there is nothing left to keep
		return w.recordAnswers(keeping, stop)
	})

	work, claiming := errgroup.WithContext(going)
	work.Go(func() error {
		select {
		case <-w.stopping:
			stop()
		case <-claiming.Done():
		}
		return nil
	})
	work.Go(func() error { return ended(claiming, w.claimJobs(claiming, lasting)) })
	work.Go(punctual(func() error { return ended(claiming, w.sweepQueues(claiming)) }))
	work.Go(punctual(func() error { return ended(claiming, w.announce(claiming)) }))
	work.Go(func() error {
		return ended(claiming, w.client.Watch(claiming, w.config.PollInterval, w.claims.wake))
	})
	if !w.config.NoScheduler {
		s := scheduler.New(w.client, scheduler.Config{Owner: w.config.Name, Logger: w.log})
		work.Go(punctual(func() error { return ended(claiming, s.Run(claiming)) }))
	}
	defer w.crew.close()
	return w.windDown(claiming, work, support, release)
}

// punctual gives a loop a thread of its own, for those that have to be in time whatever the handlers do. Woken by a timer,
// a goroutine inherits what is left of the time slice of whoever computed just before. Where handlers compute all the time
// that is often nothing: Go takes the processor away at the first system call and lets the goroutine queue up behind all
// handlers, ten milliseconds each, maybe with a lock of SQLite in its hands that a heartbeat needs. One with a thread of its
// own begins with a slice of its own. // K6
//
// To wake a thread costs as much as a small claim. The loops that claim and watch can wait behind the handlers, so they do
// that first, with nothing in their hands, and then have a slice of their own too. The one that records answers has none
// to record while all slots compute.
func punctual(loop func() error) func() error {
	return func() error {
		goruntime.LockOSThread()
		defer goruntime.UnlockOSThread()
		return loop()
	}
}

// ended forgets an error that is only the end of ctx, or would have been tried again but for that.
func ended(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	if queue.Transient(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}
