package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// lane says how urgent a call is, and how long it may take.
type lane int

const (
	ordinary lane = iota
	urgent        // heartbeats: a lease must not lapse because enqueues are waiting for a connection
	slow          // what reads or changes any number of rows
)

// patience is how long a call that is not slow waits for its answer, connection included. Whoever runs jobs has to notice
// within ten seconds that the other end of a connection has gone.
const patience = 8 * time.Second

// bounded is ctx with an end. Its cause is errNoAnswer if that end comes first.
func (l lane) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if l == slow {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, patience, errNoAnswer)
}

// urgentConnections is how many heartbeats may be on their way at once: a second one need not wait for a first that the
// network has swallowed.
const urgentConnections = 2

// lanes are the connections of a store, in two pools. They are made when they are first needed.
type lanes struct {
	shared   *pgxpool.Pool
	reserved *pgxpool.Pool // for what is urgent
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
	return &lanes{shared: shared, reserved: reserved}, nil
}

func (l *lanes) pool(which lane) *pgxpool.Pool {
	if which == urgent {
		return l.reserved
	}
	return l.shared
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
