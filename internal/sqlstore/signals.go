package sqlstore

import (
	"sync"
	"time"
)

// Signals carry wake-ups from the writes of this process, and from what is heard of others, to the watches of this process.
// Senders never wait. The zero value is ready; it is safe for concurrent use.
type Signals struct {
	mu        sync.Mutex
	listeners map[*Listener]struct{}
	closed    bool
	left      sync.WaitGroup // of the listeners
}

// Listener gathers what one watch is to be told.
type Listener struct {
	ring chan struct{} // holds one element when there is something to take

	mu     sync.Mutex
	queues map[string]struct{}
	heard  time.Duration
	closed bool
}

// Listen is nil if the signals are closed. Leave has to follow.
func (s *Signals) Listen() *Listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	l := &Listener{ring: make(chan struct{}, 1), queues: make(map[string]struct{})}
	if s.listeners == nil {
		s.listeners = make(map[*Listener]struct{})
	}
	s.listeners[l] = struct{}{}
	s.left.Add(1)
	return l
}

// Leave ends a Listen.
func (s *Signals) Leave(l *Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
	s.left.Done()
}

// Send says that a queue may have work; empty means any.
func (s *Signals) Send(queue string) { s.tell(func(l *Listener) { l.queues[queue] = struct{}{} }) }

// Hear is Send of what others have said. If there is a wait, they are told to look only after it, and without the name of
// the queue.
func (s *Signals) Hear(queue string, wait time.Duration) {
	if wait == 0 {
		s.Send(queue)
		return
	}
	s.tell(func(l *Listener) {
		if l.heard == 0 {
			l.heard = wait
		}
	})
}

// Close ends all watches and waits until they have left.
func (s *Signals) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.tell(func(l *Listener) { l.closed = true })
	s.left.Wait()
}

func (s *Signals) tell(what func(l *Listener)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.listeners {
		l.mu.Lock()
		what(l)
		l.mu.Unlock()
		select {
		case l.ring <- struct{}{}:
		default: // rung already
		}
	}
}

// Ring is what to wait for before Take.
func (l *Listener) Ring() <-chan struct{} { return l.ring }

// Take says which queues may have work, how long to wait before a look for what others have said, if they have, and
// whether the watch goes on.
func (l *Listener) Take() (queues []string, heard time.Duration, open bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for q := range l.queues {
		queues = append(queues, q)
	}
	clear(l.queues)
	heard, l.heard = l.heard, 0
	return queues, heard, !l.closed
}
