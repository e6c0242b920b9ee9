// Package faultdriver is a database/sql driver around another one, for tests: it fails the n-th call on demand, in every
// way in which a database can, and counts what is left open.
package faultdriver

import (
	"context"
	"database/sql/driver"
	"fmt"
	"sync"
	"time"
)

// Fault says which call fails and how. Calls are those that reach the database: connect, prepare, exec, query, next,
// begin, commit and rollback, on all connections, counted from 1 since Arm.
type Fault struct {
	At  int
	Err error  // what the call answers; nil: what it would have answered, and Do is all that happens
	Do  func() // is called before the call; nil: nothing

	After    bool // the call is made first: it happened, and only the answer is lost
	Rollback bool // the database rolls the open transaction back by itself, as it does when the disk is full
	Broken   bool // the connection answers driver.ErrBadConn from then on
	Lasting  bool // every call from that one on fails, until Disarm
	Connects bool // a connect is spared, and not counted
}

// Error is a failure with a code of the database, as its own driver's errors have.
type Error struct{ Number int }

// Error implements error.
func (e Error) Error() string { return fmt.Sprintf("faultdriver: injected failure, code %d", e.Number) }

// Code is the database's code.
func (e Error) Code() int { return e.Number }

// Driver implements driver.Driver. Safe for concurrent use.
type Driver struct {
	under driver.Driver

	mu       sync.Mutex
	fault    *Fault
	calls    int
	injected string // what was failed
	total    int
	spared   bool
	open     Open
	changed  chan struct{} // closed when open changes
}

// Open counts what is in use.
type Open struct{ Conns, Rows, Txs int }

// New returns a driver that does what the given one does until it is armed.
func New(under driver.Driver) *Driver { return &Driver{under: under, changed: make(chan struct{})} }

// Arm makes the fault happen. Calls are counted anew.
func (d *Driver) Arm(f Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault, d.calls, d.injected = &f, 0, ""
}

// Disarm ends that, and says which call was failed: "" if there were not as many.
func (d *Driver) Disarm() (injected string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = nil
	return d.injected
}

// Spare says that the calls which follow are nobody's business: they are not counted and do not fail.
func (d *Driver) Spare(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.spared = on
}

// Injected is how many faults there were in all.
func (d *Driver) Injected() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.total
}

// InUse counts what is open now.
func (d *Driver) InUse() Open {
	open, _ := d.inUse()
	return open
}

// patience is for what a store does on its own account.
const patience = 10 * time.Second

// Settled is InUse once no rows and no transactions are open. What is open still after ten seconds was forgotten.
func (d *Driver) Settled() Open {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		open, changed := d.inUse()
		if open.Rows == 0 && open.Txs == 0 {
			return open
		}
		select {
		case <-changed:
		case <-late.C:
			return open
		}
	}
}

func (d *Driver) inUse() (open Open, changed <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open, d.changed
}

const connect = "connect"

// Open implements driver.Driver.
func (d *Driver) Open(name string) (driver.Conn, error) {
	under, err := call(d, nil, connect, func() (driver.Conn, error) { return d.under.Open(name) })
	if err != nil {
		if under != nil {
			_ = under.Close() // it was opened, and nobody will know
		}
		return nil, err
	}
	d.count(func(o *Open) { o.Conns++ })
	return &conn{Conn: under, driver: d, stmts: make(map[*stmt]bool)}, nil
}

func (d *Driver) count(change func(*Open)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(&d.open)
	close(d.changed)
	d.changed = make(chan struct{})
}

// due counts a call and returns the fault if it is its turn.
func (d *Driver) due(what string) *Fault {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fault == nil || d.spared || d.fault.Connects && what == connect {
		return nil
	}
	if d.calls++; d.calls < d.fault.At || d.calls > d.fault.At && !d.fault.Lasting {
		return nil
	}
	d.injected = what
	d.total++
	return d.fault
}

// call does what is asked, or fails.
func call[T any](d *Driver, c *conn, what string, do func() (T, error)) (v T, err error) {
	if c != nil && c.broken {
		return v, driver.ErrBadConn
	}
	var none T
	f := d.due(what)
	if f != nil && f.Do != nil {
		f.Do()
	}
	if f == nil || f.After || f.Err == nil {
		if v, err = do(); err != nil {
			v = none // not a typed nil
		}
	}
	if f == nil || f.Err == nil {
		return v, err
	}
	if c != nil && f.Rollback {
		_, _ = c.Conn.(driver.ExecerContext).ExecContext(context.Background(), "ROLLBACK", nil)
	}
	if c != nil && f.Broken {
		c.broken = true
	}
	return v, f.Err
}
