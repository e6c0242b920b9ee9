// Package postgres is the store on one schema of a PostgreSQL database, through pgx.
//
// A [Store] is a few connections; nothing is kept in the process that another one would need. Every statement is a file
// in sql/, every step of the schema a file in migrations/. An operation is one statement, or several that are sent
// together and make one transaction: one round trip either way.
//
// Many processes work on the same rows. Three habits keep them out of each other's way: claims pass over rows that others
// have locked and so never wait; everything else locks rows in the order of their ids, unless that costs too much, and is
// repeated if it was part of a circle all the same; and whatever is decided about a row is decided in the statement that
// changes it.
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// Store implements [sqlstore.Store]. Use Open.
type Store struct {
	options     Options
	schema      string
	all         statements
	lanes       *lanes
	lockTimeout string
	opening     []step // of each transaction that may have to wait: see pooled
	enqueues    enqueues
	frontiers   frontiers
	portions    portions
	burials     portions
	signals     sqlstore.Signals
	listener    listener

	closed    atomic.Bool
	calls     sync.RWMutex // read-locked by every call
	closeOnce sync.Once
}

var (
	_ sqlstore.Store     = (*Store)(nil)
	_ sqlstore.RowLocker = (*Store)(nil)
)

// tx is the work of one call on the database.
type tx struct {
	store *Store
	on    querier
	clock *int64 // what is now; nil: ask the server in each statement

	// Once this is committed, queues that may have work, and those of them where it may lie behind a mark: see frontier.go.
	// An empty name means any.
	woke, doubts []string
}

// run runs steps in one transaction, or as part of the one that is open.
func (t *tx) run(ctx context.Context, steps ...step) error {
	return t.on.run(ctx, t.store.all, t.clock, steps)
}

// wake runs steps and tells the watchers of this process and of others that the queues may have new work.
func (t *tx) wake(ctx context.Context, place place, queues []string, steps ...step) error {
	t.rouse(place, queues...)
	return t.run(ctx, append(steps, t.store.notification(t.store.listener.token, place, queues...))...)
}

// rouse tells the watchers of this process alone.
func (t *tx) rouse(place place, queues ...string) {
	t.woke = append(t.woke, queues...)
	if place == behind {
		t.doubts = append(t.doubts, queues...)
	}
}

// writing runs work, which is one call of run, and then tells the watchers what it woke.
func (s *Store) writing(ctx context.Context, l lane, work func(ctx context.Context, t *tx) error) error {
	t := &tx{store: s}
	err := s.using(ctx, l, func(ctx context.Context) error {
		t.on, t.clock = s.on(l), s.moved()
		return again(func() error {
			t.woke, t.doubts = nil, nil
			return work(ctx, t)
		})
	})
	if err == nil {
		s.tell(t)
	}
	return err
}

// reading runs one statement that changes nothing.
func (s *Store) reading(ctx context.Context, l lane, one step) error {
	return s.using(ctx, l, func(ctx context.Context) error {
		return s.on(l).run(ctx, s.all, s.moved(), []step{one})
	})
}

// transaction runs work in a transaction that is open between its statements, with one clock for all of them.
func (s *Store) transaction(ctx context.Context, l lane, work func(ctx context.Context, t *tx) error) error {
	t := &tx{store: s, clock: s.moved()}
	err := s.using(ctx, l, func(ctx context.Context) (err error) {
		open, err := s.lanes.pool(l).Begin(ctx)
		if err != nil {
			return err
		}
		defer func() {
			// Also when work panics; of no effect after a commit. A connection on which even this fails is closed.
			within, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelLimit)
			defer cancel()
			_ = open.Rollback(within)
		}()
		t.on = ours{on: open}
		var now int64
		clock := step{"now", nil, func(row scanner) error { return row.Scan(&now) }}
		if err := t.run(ctx, append(slices.Clone(s.opening), clock)...); err != nil {
			return err
		}
		t.clock = &now
		if err := work(ctx, t); err != nil {
			return err
		}
		return open.Commit(ctx)
	})
	if err == nil {
		s.tell(t)
	}
	return err
}

// using is the frame of every call on our own connections.
func (s *Store) using(ctx context.Context, l lane, do func(ctx context.Context) error) error {
	done, err := s.call()
	if err != nil {
		return err
	}
	defer done()
	return s.framed(ctx, l, do)
}

// framed makes a call end in time, and says what its errors mean.
func (s *Store) framed(ctx context.Context, l lane, do func(ctx context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	leave, err := s.lanes.enter(ctx, l)
	if err != nil {
		return err
	}
	defer leave()
	within, cancel := s.bounded(ctx, l)
	defer cancel()
	switch err := do(within); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ended(ctx, err)
	case errors.Is(context.Cause(within), errNoAnswer):
		s.lanes.leave() // most likely the others are as dead as this one
		return context.Cause(within)
	case codeOf(err) == readOnlyTransaction:
		// We could write when the store was opened: the server has been demoted, and its successor is elsewhere.
		s.lanes.leave()
		return fmt.Errorf("%w: %w: %w", sqlstore.ErrUnavailable, sqlstore.ErrReadOnly, err)
	default:
		return err
	}
}

// ended is the error of a call that did not outlast its context. What the server or the driver called it is only told:
// nobody must take it for a failure of theirs.
func ended(ctx context.Context, err error) error {
	if err == ctx.Err() { //nolint:errorlint // one that wraps it may wrap a failure of the driver as well
		return err
	}
	return fmt.Errorf("%w: %s", ctx.Err(), err.Error())
}

// again repeats what lost against another transaction, such as one with which it waited in a circle. Rows locked in one order
// make that rare; it is the answer for those that are not: see ack.sql and retry.sql, and the order of a user's own locks.
func again(do func() error) error {
	for range 3 {
		if err := do(); !undone(err) {
			return err
		}
	}
	return do()
}

// call is the beginning of a call: until done, Close waits for it.
func (s *Store) call() (done func(), err error) {
	s.calls.RLock()
	if s.closed.Load() {
		s.calls.RUnlock()
		return nil, sqlstore.ErrClosed
	}
	return s.calls.RUnlock, nil
}

// inside runs work on a transaction of the caller. Its error aborts that transaction, as PostgreSQL has it: all that is
// left is to roll back.
func (s *Store) inside(ctx context.Context, outer sqlstore.Tx, work func(ctx context.Context, t *tx) error) error {
	done, err := s.call()
	if err != nil {
		return err
	}
	defer done()
	if err := ctx.Err(); err != nil {
		return err
	}
	t := &tx{store: s, clock: s.moved()}
	switch outer := outer.(type) {
	case *sql.Tx:
		if outer != nil {
			t.on = callers{outer}
		}
	case pgx.Tx:
		if outer != nil {
			t.on = ours{on: outer}
		}
	}
	if t.on == nil {
		return fmt.Errorf("%w: a PostgreSQL queue takes a *sql.Tx of a pool with the driver of pgx, or a pgx.Tx",
			sqlstore.ErrUnsupported)
	}
	if err := work(ctx, t); err != nil {
		if ctx.Err() != nil {
			return ended(ctx, err)
		}
		return err
	}
	return nil
}

// moved is the clock of a test, and nil for the server's.
func (s *Store) moved() *int64 {
	if s.options.Clock == nil {
		return nil
	}
	now := s.options.Clock()
	return &now
}

// tell tells the watchers of this process what a transaction has brought.
func (s *Store) tell(t *tx) {
	for _, queue := range t.doubts {
		s.frontiers.doubt(queue)
	}
	for _, queue := range t.woke {
		s.signals.Send(queue)
	}
}

// Now implements [sqlstore.Store].
func (s *Store) Now(ctx context.Context) (now int64, err error) {
	err = s.reading(ctx, prompt, step{"now", nil, func(row scanner) error { return row.Scan(&now) }})
	return now, fail("read clock", "", 0, err)
}

// Schema is where the tables are.
func (s *Store) Schema() string { return s.schema }

// Close implements [sqlstore.Store].
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		s.closed.Store(true)
		s.signals.Close()
		s.calls.Lock()
		defer s.calls.Unlock()
		s.enqueues.wait()
		s.lanes.close()
	})
	return nil
}
