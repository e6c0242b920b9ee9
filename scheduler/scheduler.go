// Package scheduler fires jobs at regular times.
//
// A [Schedule] is a row in the database: any process may [Set], [Pause], [Resume], [Fire] or [Remove] it, and whichever
// process runs a [Scheduler] on that database fires it, whoever set it. The moments at which a schedule fires are its
// boundaries: a fixed grid that no restart, delay or outage moves. However many schedulers run, each boundary is fired
// once, since firing and moving on to the next boundary are one transaction under the row's lock.
package scheduler

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/queue"
)

const (
	lockName = "scheduler"

	minPoll     = 10 * time.Millisecond
	maxPoll     = time.Second // S1: what another process has changed is noticed within a second
	minLeaseTTL = time.Second
	maxLeaseTTL = time.Hour

	// maxRetryWait bounds the wait between two tries while the store fails, and thereby how late a boundary is fired after
	// it has recovered.
	maxRetryWait = 5 * time.Second
	// resignTimeout bounds how long a stop waits for the store.
	resignTimeout = 5 * time.Second
)

// Config tunes a [Scheduler]. The zero Config is ready to use.
type Config struct {
	// Owner is this scheduler's name in the leader's lock. It must differ from that of every other scheduler on the same
	// database. Empty means a random one.
	Owner string

	// Logger gets what an operator should know: boundaries that were skipped, schedules that cannot fire, an outage of the
	// store, each once. Nil means slog.Default().
	Logger *slog.Logger

	// Poll is the longest time between two looks at the database; a look is one read. Zero means one second, which is also
	// the most; the least is 10 ms.
	Poll time.Duration

	// LeaseTTL is how long the lock of a leader that has died keeps others from firing. It is rounded up to whole seconds.
	// Zero means 10 s; the least is 1 s, the most 1 h.
	LeaseTTL time.Duration
}

// Validate reports every field that is out of its limits. Each problem is a queue.ErrInvalid.
func (c Config) Validate() error {
	var problems []error
	if c.Poll != 0 && (c.Poll < minPoll || c.Poll > maxPoll) {
		problems = append(problems, invalidf("poll %v is not between %v and %v", c.Poll, minPoll, maxPoll))
	}
	if c.LeaseTTL != 0 && (c.LeaseTTL < minLeaseTTL || c.LeaseTTL > maxLeaseTTL) {
		problems = append(problems, invalidf("lease TTL %v is not between %v and %v", c.LeaseTTL, minLeaseTTL, maxLeaseTTL))
	}
	return errors.Join(problems...)
}

// Scheduler fires the schedules of one database for as long as it runs and leads.
type Scheduler struct {
	store  sqlstore.Store
	config Config
	log    *slog.Logger

	running atomic.Bool

	// What follows belongs to Run.
	mayLead bool                         // the lock may be ours: Lead succeeded, or failed without telling
	broken  map[string]sqlstore.Schedule // by name: rows that did not fire, as they were then
	retry   *backoff.ExponentialBackOff
	outage  time.Time // when the store began to fail; zero while it works
}

// New returns a scheduler that does nothing until Run. Run reports what is wrong with the config.
func New(c *queue.Client, config Config) *Scheduler {
	s := &Scheduler{store: c.Store(), config: config, log: config.Logger, broken: make(map[string]sqlstore.Schedule)}
	if s.log == nil {
		s.log = slog.Default()
	}
	if s.config.Owner == "" {
		s.config.Owner = rand.Text()
	}
	if s.config.Poll == 0 {
		s.config.Poll = maxPoll
	}
	if s.config.LeaseTTL == 0 {
		s.config.LeaseTTL = 10 * time.Second
	}
	s.retry = backoff.NewExponentialBackOff(backoff.WithInitialInterval(s.config.Poll),
		backoff.WithMaxInterval(maxRetryWait), backoff.WithMaxElapsedTime(0))
	return s
}

// Run fires what is due until ctx ends, and then returns nil, having given up leadership if it had it. An idle
// scheduler only reads. While the store is busy, full or unreachable, Run goes on trying; any other failure of the
// store is returned. A schedule that cannot fire never stops it or the other schedules. A second Run at the same time
// is an error.
func (s *Scheduler) Run(ctx context.Context) error {
	if err := s.config.Validate(); err != nil {
		return fmt.Errorf("scheduler: %w", err)
	}
	if !s.running.CompareAndSwap(false, true) {
		return errors.New("scheduler: already running")
	}
	defer s.running.Store(false)
	defer s.resign(ctx)
	for {
		// The clock has whole seconds and Poll is at most one, so the next fire time is never nearer than the next look.
		wait := s.config.Poll
		err := s.turn(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			s.recovered(ctx)
		case queue.Transient(err):
			wait = s.failed(ctx, err)
		default:
			return fmt.Errorf("scheduler: %w", err)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// turn looks once and fires if there is something to fire and we lead.
func (s *Scheduler) turn(ctx context.Context) error {
	due, err := s.due(ctx)
	if err != nil || !due {
		return err
	}
	// S6: the lock is taken or renewed before each tick, so that a leader that cannot renew does not fire, and only when
	// something is due, so that an idle fleet writes nothing.
	led, err := s.lead(ctx)
	if err != nil || !led {
		return err
	}
	if err := s.tick(ctx); err != nil {
		// K76: another process may be able to do what we are not.
		s.resign(ctx)
		return err
	}
	return nil
}

// due says whether a schedule that can fire, as far as is known, is due. It compares times of the store's clock with
// each other only (T1).
func (s *Scheduler) due(ctx context.Context) (bool, error) {
	now, next, err := s.store.Soonest(ctx)
	if err != nil || next == nil || *next > now {
		return false, err
	}
	if len(s.broken) == 0 {
		return true, nil
	}
	// A row that cannot fire stays due: look past it, or the leader would take its lock and tick for nothing for ever.
	return s.wholeDue(ctx, now)
}

func (s *Scheduler) lead(ctx context.Context) (bool, error) {
	led, err := s.store.Lead(ctx, lockName, s.config.Owner, queue.Seconds(s.config.LeaseTTL))
	s.mayLead = led || err != nil
	return led, err
}

// resign frees the lock if it may be ours, on a context that outlives ctx: at shutdown that one has ended, and without
// this the next leader would have to wait for the lock to lapse.
func (s *Scheduler) resign(ctx context.Context) {
	if !s.mayLead {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resignTimeout)
	defer cancel()
	if err := s.store.Resign(ctx, lockName, s.config.Owner); err != nil {
		// Nobody else has to know: the lock lapses by itself.
		s.log.DebugContext(ctx, "scheduler: leadership not given up", "error", err)
		return
	}
	s.mayLead = false
}

// failed logs the beginning of an outage and returns how long to wait.
func (s *Scheduler) failed(ctx context.Context, err error) time.Duration {
	if s.outage.IsZero() {
		s.outage = time.Now()
		s.retry.Reset()
		s.log.WarnContext(ctx, "scheduler: store fails, trying again", "error", err)
	}
	return s.retry.NextBackOff()
}

// recovered logs the end of an outage.
func (s *Scheduler) recovered(ctx context.Context) {
	if s.outage.IsZero() {
		return
	}
	s.log.InfoContext(ctx, "scheduler: store works again", "after", time.Since(s.outage).Round(time.Millisecond))
	s.outage = time.Time{}
}
