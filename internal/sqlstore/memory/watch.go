package memory

import (
	"context"
	"maps"
	"slices"
	"time"
)

// watcher is one Watch in progress. Its channels are made by that call, so that they belong to the caller's synctest
// bubble.
type watcher struct {
	queues map[string]bool // named since the last round; guarded by Store.mu
	some   chan struct{}   // holds one value while there may be something to do
	done   chan struct{}   // closed when Watch returns
}

// signal never blocks, and never has to: one value in the channel stands for everything named so far.
func (w *watcher) signal() {
	select {
	case w.some <- struct{}{}:
	default:
	}
}

// Watch calls wake after every change that may have made work claimable, each queue once for any number of changes
// since the last round. poll is not used: nobody else can change this store. The first signal, for no queue in
// particular, comes at once, since a change may have come between the caller's last look and this call.
func (s *Store) Watch(ctx context.Context, _ time.Duration, wake func(queue string)) error {
	w := &watcher{
		queues: map[string]bool{"": true},
		some:   make(chan struct{}, 1),
		done:   make(chan struct{}),
	}
	if _, err := s.begin(ctx); err != nil {
		return failed("watch", "", 0, err)
	}
	s.watchers[w] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, w)
		close(w.done)
	}()

	w.signal()
	for {
		select {
		case <-ctx.Done():
			return failed("watch", "", 0, ctx.Err())
		case <-w.some:
		}
		if _, err := s.begin(ctx); err != nil {
			return failed("watch", "", 0, err)
		}
		queues := slices.Sorted(maps.Keys(w.queues))
		clear(w.queues)
		s.mu.Unlock()
		for _, q := range queues { // not under the lock: wake may use the store
			wake(q)
		}
	}
}

// woke tells every watcher that the queue may have work. The store is locked.
func (s *Store) woke(queue string) {
	for w := range s.watchers {
		w.queues[queue] = true
		w.signal()
	}
}
