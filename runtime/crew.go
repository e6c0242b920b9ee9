package runtime

import "sync"

// crew are the goroutines that run attempts. One that has run an attempt has the stack that the next one needs, which
// would cost more to grow than to decode a payload; so whoever comes free takes the next attempt itself, and jobs that are
// shorter than it takes to wake a goroutine are run by few of them.
//
// No attempt waits for another to end: as long as some are ready, one goroutine is on its way to take the first, and
// sends for the next before it begins.
type crew struct {
	run     func(a *attempt)
	surplus func(size int) bool // so many are more than there is use for

	bell chan struct{} // holds an element for the one that is on its way

	mu     sync.Mutex
	ready  []*attempt
	size   int  // all of them
	idle   int  // those that wait for the bell
	coming bool // one is on its way
	closed bool
}

func newCrew(run func(*attempt), surplus func(size int) bool) *crew {
	return &crew{run: run, surplus: surplus, bell: make(chan struct{}, 1)}
}

// start has attempts run, in the order in which they come.
func (c *crew) start(batch []*attempt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ready = append(c.ready, batch...)
	c.send()
}

// send sends for a goroutine if there is need of one. c is locked.
func (c *crew) send() {
	if c.coming || len(c.ready) == 0 {
		return
	}
	c.coming = true
	if c.idle > 0 {
		c.idle--
		c.bell <- struct{}{}
		return
	}
	c.size++
	go c.work()
}

// work runs attempts one after the other until there is no more use for one more goroutine. A handler that calls
// [runtime.Goexit] ends it.
func (c *crew) work() {
	a := c.next(true)
	defer func() {
		if a != nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.size--
		}
	}()
	for ; a != nil; a = c.next(false) {
		c.run(a)
	}
}

// next waits for an attempt. It is nil when the goroutine is to end. came says that it was sent for.
func (c *crew) next(came bool) *attempt {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if came {
			c.coming = false
		}
		if len(c.ready) > 0 {
			a := c.ready[0]
			c.ready[0] = nil
			c.ready = c.ready[1:]
			c.send()
			return a
		}
		if c.closed || c.surplus(c.size) {
			c.size--
			return nil
		}
		c.idle++
		c.mu.Unlock()
		_, came = <-c.bell
		c.mu.Lock()
	}
}

// close says that no more attempts come.
func (c *crew) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	close(c.bell)
}
