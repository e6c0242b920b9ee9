package sqlite

import (
	"context"
	"sync"
)

// lane says how urgent a write is.
type lane int

const (
	ordinary lane = iota
	urgent        // heartbeats: a lease must not lapse because enqueues are waiting in line
	lanes
)

// turnstile lets one writer through at a time: the urgent before the ordinary, each in the order of arrival. A pool of
// one connection would do the same without an order, and a burst of enqueues would starve the heartbeats.
type turnstile struct {
	mu      sync.Mutex
	taken   bool
	waiting [lanes][]chan struct{}
}

// enter waits for its turn. On an error the turn was not taken.
func (t *turnstile) enter(ctx context.Context, l lane) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t.mu.Lock()
	if !t.taken {
		t.taken = true
		t.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	t.waiting[l] = append(t.waiting[l], turn)
	t.mu.Unlock()

	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	for i, w := range t.waiting[l] {
		if w == turn {
			t.waiting[l] = append(t.waiting[l][:i], t.waiting[l][i+1:]...)
			t.mu.Unlock()
			return ctx.Err()
		}
	}
	t.mu.Unlock()
	t.leave() // The turn came at the same moment: pass it on.
	return ctx.Err()
}

func (t *turnstile) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for l := lanes - 1; l >= 0; l-- {
		if len(t.waiting[l]) > 0 {
			close(t.waiting[l][0])
			t.waiting[l] = t.waiting[l][1:]
			return
		}
	}
	t.taken = false
}
