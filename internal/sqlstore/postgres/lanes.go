package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/semaphore"
)

// lane says how urgent a call is, and how long it may take.
type lane int

const (
	ordinary lane = iota
	prompt        // what never waits for a row that somebody has locked
	urgent        // heartbeats, which do not either: a lease must not lapse because enqueues are waiting for a connection
	slow          // what reads or changes any number of rows
)

// leastPatience is how long a call that is not slow waits for its answer, connection included. Whoever runs jobs has to
// work again within ten seconds of the moment when the other end of a connection has gone; to notice it is not all of it.
const leastPatience = 6 * time.Second

// patience is that of calls which may have to wait for a locked row: as long as they may, and a moment, if that is more.
func (o Options) patience() time.Duration {
	return max(leastPatience, o.busyTimeout()+time.Second)
}

// bounded is ctx with an end. Its cause is errNoAnswer if that end comes first.
func (s *Store) bounded(ctx context.Context, l lane) (context.Context, context.CancelFunc) {
	if l == slow {
		return ctx, func() {}
	}
	patience := leastPatience
	if l == ordinary {
		patience = s.options.patience()
	}
	return context.WithTimeoutCause(ctx, patience, fmt.Errorf("%w within %v", errNoAnswer, patience))
}

// urgentConnections is how many heartbeats may be on their way at once: a second one need not wait for a first that the
// network has swallowed.
const urgentConnections = 2

// quickConnections is how many of the shared connections slow calls leave to the others, if there are so many: pages and
// reports that wait, be it for each other, must not keep jobs from being claimed.
const quickConnections = 2

// lanes are the connections of a store, in two pools. They are made when they are first needed.
type lanes struct {
	shared   *pgxpool.Pool
	reserved *pgxpool.Pool // for what is urgent
	slow     *semaphore.Weighted
}

func openLanes(ctx context.Context, config *pgxpool.Config) (*lanes, error) {
	shared, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	few := config.Copy()
	few.MaxConns, few.MinConns, few.MinIdleConns = urgentConnections, 0, 0
	reserved, err := pgxpool.NewWithConfig(ctx, few)
	if err != nil {
		shared.Close()
		return nil, err
	}
	slowly := max(1, int64(config.MaxConns)-quickConnections)
	return &lanes{shared: shared, reserved: reserved, slow: semaphore.NewWeighted(slowly)}, nil
}

func (l *lanes) pool(which lane) *pgxpool.Pool {
	if which == urgent {
		return l.reserved
	}
	return l.shared
}

// on is where the statements of a call are run.
func (s *Store) on(l lane) ours {
	if l == prompt || l == urgent {
		return ours{on: s.lanes.pool(l)}
	}
	return ours{on: s.lanes.pool(l), first: s.opening}
}

// enter waits for the turn of a call that is slow. done ends it.
func (l *lanes) enter(ctx context.Context, which lane) (done func(), err error) {
	if which != slow {
		return func() {}, nil
	}
	if err := l.slow.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	return func() { l.slow.Release(1) }, nil
}

// leave drops all connections, those in use once they are given back: they lead nowhere, or to a server that cannot write,
// and new ones may lead to its successor.
func (l *lanes) leave() {
	l.shared.Reset()
	l.reserved.Reset()
}

// close waits until all connections have been given back.
func (l *lanes) close() {
	l.shared.Close()
	l.reserved.Close()
}
