package sqlite

import (
	"context"
	"sync"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// Watch implements [sqlstore.Store]. Other processes are noticed by PRAGMA data_version, which reads a counter in shared
// memory and touches neither the disk nor a lock.
func (s *Store) Watch(ctx context.Context, poll time.Duration, wake func(queue string)) error {
	w := s.signals.subscribe()
	if w == nil {
		return fail("watch", "", 0, sqlstore.ErrClosed)
	}
	defer s.signals.unsubscribe(w)
	// The counter belongs to one connection, and a pool hands out any.
	own := openPool(s.path, s.options, reader, 1)
	defer func() { _ = own.Close() }() // only ever read
	on := newSession(own)

	tick := time.NewTicker(poll)
	defer tick.Stop()
	version, _ := dataVersion(ctx, on)
	wake("") // for what was written between the caller's last look and this one
	met := s.files.meet()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.ring:
			queues, open := w.take()
			if !open {
				return fail("watch", "", 0, sqlstore.ErrClosed)
			}
			for _, queue := range queues {
				wake(queue)
			}
		case <-tick.C:
			// A failed look is a wake-up as well: the claim that follows meets the same trouble and reports it.
			v, err := dataVersion(ctx, on)
			if err != nil {
				met = beside{} // the connection may be another one the next time
			} else if met.wal == nil {
				met = s.files.meet()
			}
			if err := s.files.look(met); err != nil {
				return fail("watch", "", 0, err)
			}
			if err != nil || v != version {
				version = v
				wake("")
			}
		}
	}
}

func dataVersion(ctx context.Context, on *session) (version int64, err error) {
	_, err = on.one(ctx, "data_version", []any{&version})
	return version, err
}

// signals carry wake-ups from the writes of this process to its watchers. Senders never wait.
type signals struct {
	mu       sync.Mutex
	watchers map[*watcher]struct{}
	closed   bool
	left     sync.WaitGroup // of the watchers
}

// watcher gathers what woke since its last look.
type watcher struct {
	ring chan struct{} // holds one element when there is something to take

	mu     sync.Mutex
	queues map[string]struct{}
	closed bool
}

// subscribe is nil if the store is closed.
func (s *signals) subscribe() *watcher {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	w := &watcher{ring: make(chan struct{}, 1), queues: make(map[string]struct{})}
	if s.watchers == nil {
		s.watchers = make(map[*watcher]struct{})
	}
	s.watchers[w] = struct{}{}
	s.left.Add(1)
	return w
}

func (s *signals) unsubscribe(w *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watchers, w)
	s.left.Done()
}

func (s *signals) send(queue string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watchers {
		w.add(queue)
	}
}

// close ends all watchers and waits for them.
func (s *signals) close() {
	s.mu.Lock()
	s.closed = true
	for w := range s.watchers {
		w.close()
	}
	s.mu.Unlock()
	s.left.Wait()
}

func (w *watcher) add(queue string) {
	w.mu.Lock()
	w.queues[queue] = struct{}{}
	w.mu.Unlock()
	w.signal()
}

func (w *watcher) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.signal()
}

func (w *watcher) signal() {
	select {
	case w.ring <- struct{}{}:
	default: // rung already
	}
}

func (w *watcher) take() (queues []string, open bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for q := range w.queues {
		queues = append(queues, q)
	}
	clear(w.queues)
	return queues, !w.closed
}
