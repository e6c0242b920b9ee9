package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

const (
	// bytesPerLook is how much goes into the WAL between two looks at it, by an estimate: of each transaction a page of the
	// table and one of an index, and of each row what it takes besides its payload.
	bytesPerLook        = 128 * pageBytes
	bytesPerTransaction = 2 * pageBytes
	bytesPerRow         = 256
	pageBytes           = 4096

	// backlog is how many pages of the WAL are worth a checkpoint.
	backlog = 400

	// long is the length of a WAL, in pages, from which on writers pause so that it starts over: more rarely than there are
	// checkpoints, since they wait for the disk meanwhile. At a thousand SQLite makes a checkpoint in the commit: the net for
	// a checkpointer that does not keep up.
	long = 2 * backlog

	// overlong is the length from which on writers pause for the whole checkpoint, so as not to make it even longer
	// meanwhile.
	overlong = 2 * long

	// trimFor bounds the wait for readers.
	trimFor = 250 * time.Millisecond
)

// checkpointer copies what is in the WAL into the database. Otherwise SQLite does so in whichever commit finds a thousand
// pages there, and all other writes wait meanwhile for the disk, twice. On a connection and a goroutine of its own it is
// in nobody's way.
type checkpointer struct {
	path  string // of the database
	pool  *sql.DB
	on    *session
	write *writer

	kick chan struct{} // holds one element when there may be something to do
	stop chan struct{}
	left sync.WaitGroup

	full atomic.Bool // the disk was full for some call

	bytes     int   // since the last kick; belongs to whoever leads the line
	tolerated int64 // bytes up to which the WAL is left as it is; zero: the usual
}

// newCheckpointer starts one, for as long as it is not closed.
func newCheckpointer(path string, o Options, w *writer) *checkpointer {
	o.Driver = nil // faults that are meant for calls would meet this instead
	pool := openPool(path, o, keeper, 1)
	c := &checkpointer{path: w.files.path, pool: pool, on: newSession(pool), write: w, kick: make(chan struct{}, 1), stop: make(chan struct{})}
	c.left.Go(func() {
		for {
			select {
			case <-c.kick:
				c.look()
			case <-c.stop:
				return
			}
		}
	})
	return c
}

func (c *checkpointer) close() error {
	close(c.stop)
	c.left.Wait()
	return errors.Join(c.on.close(), c.pool.Close())
}

// turn counts a transaction.
func (c *checkpointer) turn(calls []*call) {
	c.bytes += bytesPerTransaction
	for _, call := range calls {
		if call.err != nil && errors.Is(kind(call.err), sqlstore.ErrFull) {
			c.full.Store(true)
		}
		c.bytes += min(call.size, most) * bytesPerRow
		for i := range call.jobs {
			c.bytes += len(call.jobs[i].Payload)
		}
	}
	if c.bytes < bytesPerLook && !c.full.Load() {
		return
	}
	c.bytes = 0
	select {
	case c.kick <- struct{}{}:
	default: // it is at it
	}
}

// look does what the WAL needs. What goes wrong is left to the next look: nothing is lost by a WAL that is too long.
func (c *checkpointer) look() {
	if c.write.files.err() != nil {
		return
	}
	full := c.full.Swap(false)
	pages, moved, err := c.checkpoint("checkpoint_noop")
	if err != nil && full {
		c.full.Store(true) // still to be done
	}
	worth := int64(backlog)
	if pages >= long {
		worth /= 2 // the next look may come too late for the writers not to do it themselves
	}
	if err != nil || pages-moved < worth && !full {
		return
	}
	if full { // all of it: what the database has a place for already must not take another one // K59
		_ = c.write.turn(c.empty)
		return
	}
	if pages < overlong {
		if _, _, err := c.checkpoint("checkpoint_passive"); err != nil {
			return
		}
		if pages < long {
			return
		}
	}
	// Writers pause for what was written meanwhile: as long as anything is left, the WAL is never used again from its
	// beginning. Heartbeats do not: after each wait for the disk, Go lets a goroutine queue up behind all that compute. // K6
	err = c.write.pause(func() error {
		pages, moved, err := c.checkpoint("checkpoint_passive")
		if err != nil || moved < pages {
			return err
		}
		return c.restart()
	})
	if err == nil && c.overgrown() {
		_ = c.write.turn(c.trim)
	}
}

// checkpoint says how many pages the WAL has and how many of them are in the database.
func (c *checkpointer) checkpoint(how string) (pages, moved int64, err error) {
	var busy bool
	if _, err := c.on.one(context.Background(), how, []any{&busy, &pages, &moved}); err != nil {
		return 0, 0, err
	}
	if busy {
		return pages, moved, sqlstore.ErrBusy
	}
	return pages, moved, nil
}

// restart writes to the WAL from its beginning, unless somebody reads what is there. Whoever does so first has its header to
// put on the disk: without this the one job in some seventy of a worker that is otherwise idle, which then starts later than
// all the others. Any write will do, and this one leaves nothing behind.
func (c *checkpointer) restart() error {
	work := func(ctx context.Context, t *tx) error {
		if _, err := t.lead(ctx, "wal", "checkpointer", 0); err != nil {
			return err
		}
		return t.resign(ctx, "wal", "checkpointer")
	}
	return c.write.do(&call{ctx: context.Background(), size: alone, waives: true, work: work}, urgent)
}

// empty puts all of the WAL into the database and on the disk, and begins it anew.
func (c *checkpointer) empty() error {
	_, _, err := c.checkpoint("checkpoint_truncate")
	return err
}

// overgrown says whether the WAL has grown beyond what a checkpoint leaves of it. SQLite empties it by itself only if at
// some moment nobody reads; with enough readers that moment never comes, and the file would grow for as long as they go on.
//
// A reader that stays in its transaction cannot be helped. So as not to wait for it in vain again and again, the next try
// comes when the file has grown by a quarter. // K53
func (c *checkpointer) overgrown() bool {
	info, err := os.Stat(c.path + "-wal") // a look at the folder: opens nothing
	if err != nil || info.Size() <= max(c.tolerated, walSizeLimit) {
		return false
	}
	c.tolerated = info.Size() + info.Size()/4
	return true
}

// trim waits for those who still need the WAL, while those who come meanwhile find more and more in the database: one try
// sees off the readers of older states, the next those who came during the first. A heartbeat ends the wait.
func (c *checkpointer) trim() error {
	for waited := time.Duration(0); ; waited += longestPause {
		err := c.empty()
		if err == nil {
			c.tolerated = 0
		}
		if !errors.Is(err, sqlstore.ErrBusy) || waited >= trimFor || c.write.line.hurried() {
			return err
		}
		_ = sleep(context.Background(), longestPause)
	}
}

// hurried says whether something urgent waits.
func (q *line) hurried() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting[urgent]) > 0
}
