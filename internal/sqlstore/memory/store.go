// Package memory is the plainest possible model of [sqlstore.Store]: one mutex, a few maps, no cleverness.
//
// It is the reference that the SQL stores are compared with, and the store of unit tests: with a clock of its own it
// never looks at the time, it starts no goroutine, and it works inside a testing/synctest bubble. Every operation that
// has to choose walks over all jobs, so it is meant for thousands of jobs, not for millions.
package memory

import (
	"context"
	"math"
	"sync"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// Options configure a Store.
type Options struct {
	// Clock is the store's clock in whole Unix seconds. It is required, must be safe for concurrent use, and is called
	// with the store locked: it must not use the store.
	Clock func() int64
}

// Store keeps everything in memory and forgets it when it is dropped. Safe for concurrent use.
type Store struct {
	clock func() int64

	mu        sync.Mutex
	closed    bool
	lastID    int64
	jobs      map[int64]*sqlstore.Row // live and dead: State says which
	paused    map[string]bool         // by queue; false is never stored
	schedules map[string]sqlstore.Schedule
	locks     map[string]lease
	workers   map[string]worker
	watchers  map[*watcher]bool
}

var _ sqlstore.Store = (*Store)(nil)

// New returns an empty store. It panics without a clock.
func New(o Options) *Store {
	if o.Clock == nil {
		panic("memory: Options.Clock is nil")
	}
	return &Store{
		clock:     o.Clock,
		jobs:      make(map[int64]*sqlstore.Row),
		paused:    make(map[string]bool),
		schedules: make(map[string]sqlstore.Schedule),
		locks:     make(map[string]lease),
		workers:   make(map[string]worker),
		watchers:  make(map[*watcher]bool),
	}
}

// Now reads the store's clock.
func (s *Store) Now(ctx context.Context) (int64, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return 0, failed("now", "", 0, err)
	}
	defer s.mu.Unlock()
	return now, nil
}

// Backup answers ErrUnsupported: there is no file.
func (s *Store) Backup(ctx context.Context, _ string) error {
	return s.unsupported(ctx, "backup", "", 0)
}

// Close ends every Watch and waits until they have returned, so wake must not call it. Later calls, of Close as well,
// answer ErrClosed.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return failed("close", "", 0, sqlstore.ErrClosed)
	}
	s.closed = true
	var ending []*watcher
	for w := range s.watchers {
		w.signal()
		ending = append(ending, w)
	}
	s.mu.Unlock()
	for _, w := range ending {
		<-w.done
	}
	return nil
}

// begin locks the store for one operation and reads the clock, once. After an error the store is not locked.
func (s *Store) begin(ctx context.Context) (now int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return 0, sqlstore.ErrClosed
	}
	return s.clock(), nil
}

// unsupported answers for an operation that this store does not have, which still fails like any other.
func (s *Store) unsupported(ctx context.Context, op, queue string, id int64) error {
	if _, err := s.begin(ctx); err != nil {
		return failed(op, queue, id, err)
	}
	defer s.mu.Unlock()
	return failed(op, queue, id, sqlstore.ErrUnsupported)
}

// failed gives an error its path. T5
func failed(op, queue string, id int64, err error) error {
	return &sqlstore.Error{Op: op, Queue: queue, JobID: id, Err: err}
}

// only returns the one element's id, and zero if there are several.
func only[T any](batch []T, id func(T) int64) int64 {
	if len(batch) == 1 {
		return id(batch[0])
	}
	return 0
}

// after is now + seconds, without wrapping around.
func after(now, seconds int64) int64 {
	if seconds > 0 && now > math.MaxInt64-seconds {
		return math.MaxInt64
	}
	return now + seconds
}
