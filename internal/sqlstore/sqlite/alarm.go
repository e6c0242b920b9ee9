package sqlite

import "time"

// alarm is a timer that may be set anew at any time. It may go off once for what it was set to before.
type alarm struct {
	c     chan struct{}       // holds one element when it has gone off
	set   func(time.Duration) // zero means never
	close func()
}

// ring is what happens when it goes off.
func (a *alarm) ring() {
	select {
	case a.c <- struct{}{}:
	default:
	}
}

// newTimer is an alarm by Go's timers, in bubbles of package synctest too.
func newTimer() *alarm {
	a := &alarm{c: make(chan struct{}, 1)}
	timer := time.AfterFunc(time.Hour, a.ring)
	timer.Stop()
	a.close = func() { timer.Stop() }
	a.set = func(d time.Duration) {
		if timer.Stop(); d > 0 {
			timer.Reset(d)
		}
	}
	return a
}
