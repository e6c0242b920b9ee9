package postgres

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// netInterval is how often to look for changes of others while they are also told: the connection on which they are told
// may have died without a word, which takes its owner a while to find out (K85).
const netInterval = time.Second

// Watch implements [sqlstore.Store]. Other processes are noticed by their notifications, and by looking whether any
// transaction of the server has been committed since the last look, which touches no table.
func (s *Store) Watch(ctx context.Context, poll time.Duration, wake func(queue string)) error {
	told := s.signals.Listen()
	if told == nil {
		return fail("watch", "", 0, sqlstore.ErrClosed)
	}
	defer s.signals.Leave(told)
	s.listener.use(s)
	defer s.listener.leave()

	timer := time.NewTimer(never) // until the next look
	defer timer.Stop()
	later := time.NewTimer(never) // for what waits so that a fleet does not move as one
	defer later.Stop()
	// One look at a time, and beside this loop: when the network swallows it, changes of this process still wake.
	looks := make(chan look, 1)
	var looking sync.WaitGroup
	defer looking.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	start := func() {
		looking.Go(func() { looks <- s.look(ctx) })
	}
	start()
	seen, first := "", true
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-told.Ring():
			queues, heard, open := told.Take()
			if !open {
				return fail("watch", "", 0, sqlstore.ErrClosed)
			}
			for _, queue := range queues {
				wake(queue)
			}
			if heard > 0 {
				later.Reset(heard)
			}
		case <-later.C:
			// Not by the name of the queue: most likely another process was faster, and to look is cheaper than to claim.
			wake("")
		case <-timer.C:
			start()
		case found := <-looks:
			// A failed look is a wake-up as well: the claim that follows meets the same trouble and reports it.
			if !first && (found.err != nil || found.snapshot != seen) {
				wake("")
			}
			seen, first = found.snapshot, false
			timer.Reset(s.interval(poll))
		}
	}
}

// never is longer than any process lives.
const never = 1 << 62

// interval is how long until the next look.
func (s *Store) interval(poll time.Duration) time.Duration {
	if s.listener.hears() {
		return max(poll, netInterval)
	}
	return poll
}

// look is one look for changes.
type look struct {
	snapshot string // changes with every commit
	err      error
}

func (s *Store) look(ctx context.Context) (found look) {
	found.err = s.reading(ctx, prompt, step{"snapshot", nil, func(row scanner) error { return row.Scan(&found.snapshot) }})
	return found
}

// maxJitter bounds how long a process that is usually too late waits before it looks for work that it was told of.
const maxJitter = 10 * time.Millisecond

// rivalry learns whether it pays to run for work at the word of others (K89). A process that finds what it is told of
// goes on running at once; one that comes too late, because a fleet is told the same, waits a random while. Together
// they settle at about one claim for each job.
type rivalry struct {
	mu     sync.Mutex
	told   bool // since the last claim
	spread time.Duration
}

// claimed reports a claim and whether it found anything. One that nobody has told of says nothing: a worker with one slot
// claims until there is nothing.
func (r *rivalry) claimed(found bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	told := r.told
	r.told = false
	switch {
	case !told:
	case !found:
		r.spread = min(2*r.spread+time.Millisecond, maxJitter)
	case r.spread < time.Millisecond:
		r.spread = 0
	default:
		r.spread /= 2
	}
}

// wait draws how long to wait before the next run, at the word of others; zero is not at all.
func (r *rivalry) wait() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = true
	if r.spread == 0 {
		return 0
	}
	return rand.N(r.spread) + 1
}
