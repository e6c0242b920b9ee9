package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// writer owns the one connection that writes. SQLite admits one writer to a file at a time anyway; taking turns here
// costs nothing, where a second connection would meet the first one's lock and poll for it.
type writer struct {
	pool     *sql.DB // of one connection
	clock    func() int64
	patience time.Duration // for the lock of another process
	files    *witness
	line     line
	disk     *disk
	wal      *checkpointer
	wake     func(queue string) // there may be work

	// These belong to whoever leads the line.
	conn   *sql.Conn // nil until the first write and after a broken connection
	on     *session
	seen   *sight // nil until the connection has begun its first transaction
	quiet  int    // transactions since the last one that was shared or enqueued otherwise
	ids    reserve
	closed bool
}

func newWriter(path string, o Options, files *witness, wake func(queue string)) *writer {
	w := &writer{
		pool: openPool(path, o, writing, 1), clock: o.Clock, patience: o.busyTimeout(), files: files,
		wake: wake, disk: &disk{sync: syncFile}, line: line{yield: goruntime.Gosched},
	}
	w.wal = newCheckpointer(path, o, w)
	if o.synchronous() == "FULL" {
		w.disk.wal = files.path + "-wal"
	}
	w.disk.rescue = w.wal.empty
	return w
}

// do runs work in an immediate transaction: all of it happens or none. The transaction is shared with the calls that
// wait in line at the same moment, as far as their sizes allow; a call that fails takes nothing of the others with it, for
// which work may be run a second time. Work that calls back into somebody's code should therefore be alone.
//
// Once work has begun, the end of ctx no longer matters: a cancelled caller never leaves a half-done statement behind.
func (w *writer) do(c *call, l lane) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	c.lane = l
	if leads := w.line.join(c, l); !leads {
		select {
		case <-c.ready:
		case <-c.ctx.Done():
			if w.line.quit(c) {
				return c.ctx.Err()
			}
			<-c.ready
		}
		if !c.leads {
			w.payOff(c)
			return c.err
		}
	}
	w.lead(c)
	return c.err
}

// lead runs a batch and lets its calls return.
func (w *writer) lead(leader *call) {
	waited := w.line.last()
	batch := []*call{leader}
	defer func() { // also when work panics: the others must not wait for ever
		w.wal.turn(batch)
		w.part(leader, batch)
	}()
	leader.err = errLeaderPanicked
	lone := w.quiet >= calmed && w.seen != nil && leader.plain() && w.line.deserted()
	if lone && w.ids.left() && w.insert(leader) {
		return
	}
	t, err := w.open(leader)
	if err != nil {
		if errors.Is(kind(err), sqlstore.ErrBusy) && !leader.waives { // those who had been there when the wait began have waited as long
			batch = append(batch, w.line.gather(most, func(c *call) bool { return c.number <= waited })...)
		}
		settle(batch, err)
		return
	}
	t.reserves = lone && w.quiet >= calmed
	had := w.ids.left()
	if !leader.alone() {
		batch = append(batch, w.line.gather(most-leader.size, anybody)...)
	}
	again := w.finish(t, &batch, !leader.alone())
	if w.quiet++; len(batch) > 1 || had && !w.ids.left() { // whatever was not lone
		w.quiet = 0
	}
	for i, c := range again {
		// One of the batch failed and the others with it. It is not worth finding out which: each once more by itself.
		apart := []*call{c}
		t, err := w.open(c)
		switch {
		case err == nil:
			w.finish(t, &apart, false)
		case errors.Is(kind(err), sqlstore.ErrBusy) && !c.waives: // the others have waited as long
			settle(again[i:], err)
			return
		default:
			c.err = err
		}
	}
}

// part hands over to the next in line and lets the calls of a batch return: at once, unless they have to wait for the disk.
// One of these waits on behalf of all, be it the caller or the first of them.
func (w *writer) part(self *call, batch []*call) {
	var free, owed []*call
	for _, c := range batch {
		switch {
		case w.disk.owed(c):
			owed = append(owed, c)
		case c != self:
			free = append(free, c)
		}
	}
	if len(owed) > 0 {
		w.line.fallBehind()
	}
	w.line.handOver()
	for _, c := range batch {
		for _, queue := range c.woke { // who may write while these wait for the disk: theirs is on it later still
			w.wake(queue)
		}
	}
	for _, c := range free {
		c.ready <- struct{}{}
	}
	if len(owed) == 0 {
		return
	}
	first := owed[0]
	first.owes = owed
	if first == self {
		w.payOff(self)
	} else {
		first.ready <- struct{}{}
	}
}

// payOff waits for the disk on behalf of the calls that this one owes it, itself included, and lets them return.
func (w *writer) payOff(self *call) {
	if self.owes == nil {
		return
	}
	for i, c := range self.owes {
		if last := self.owes[max(i-1, 0)]; i > 0 && c.commit == last.commit {
			c.err = last.err
		} else {
			c.err = w.disk.await(c.commit)
		}
	}
	for _, c := range self.owes[1:] {
		c.ready <- struct{}{}
	}
	w.line.caughtUp()
}

func anybody(*call) bool { return true }

var errLeaderPanicked = errors.New("a write of the same transaction panicked")

func settle(batch []*call, err error) {
	for _, c := range batch {
		c.err = err
	}
}

func (w *writer) usable() error {
	if w.closed {
		return sqlstore.ErrClosed
	}
	return w.files.err()
}

// open begins a transaction for a call, in a file that is still ours. What it leaves behind if it fails is no transaction.
func (w *writer) open(c *call) (t *tx, err error) {
	if err := w.usable(); err != nil {
		return nil, err
	}
	// A context that may end costs more than all else here.
	if err := w.locked(c, func() error {
		_, err := w.on.exec(context.Background(), "begin")
		return err
	}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			w.mend()
		}
	}()
	if w.seen == nil {
		w.seen = w.files.meet()
	}
	if err := w.files.glance(w.seen); err != nil { // before anything is written to a file that is not ours
		return nil, err
	}
	return &tx{session: w.on, ids: &w.ids}, nil
}

// finish does what the calls of a batch ask for, and, if it may grow, what those ask for who come meanwhile: many callers
// who come again as soon as they are told, one after the other, end up in one transaction, and a heartbeat waits neither for
// the next one nor for whatever may hold up both. // K6
//
// It commits and sets the outcome of each, or returns those that are to be tried again apart, none of which has happened.
func (w *writer) finish(t *tx, batch *[]*call, grows bool) (again []*call) {
	committed := false
	defer func() {
		if !committed {
			w.mend()
		}
	}()
	ctx := context.Background()
	room := most
	var err error
	for calls := *batch; len(calls) > 0 && err == nil; {
		settle(calls, errLeaderPanicked)
		err = w.run(ctx, t, calls)
		for _, c := range calls {
			room -= c.size
		}
		calls = nil
		if err == nil && grows {
			calls = w.line.gather(room, anybody)
			*batch = append(*batch, calls...)
		}
	}
	var reserved reserve
	if err == nil && t.reserves && len(*batch) == 1 {
		reserved, err = t.reserve(ctx)
	}
	if err != nil {
		if len(*batch) > 1 && !sqlstore.Transient(kind(err)) {
			return *batch
		}
		settle(*batch, err)
		return nil
	}
	if _, err := w.on.exec(ctx, "commit"); err != nil {
		settle(*batch, fmt.Errorf("commit: %w", err))
		return nil
	}
	committed = true
	if reserved.left() {
		w.ids = reserved
	}
	settle(*batch, w.files.look(w.seen)) // a commit into a file that is gone is none
	if t.wrote {
		w.disk.committed(*batch)
	}
	return nil
}

func (w *writer) run(ctx context.Context, t *tx, calls []*call) error {
	if err := w.tell(ctx, t, calls); err != nil {
		return err
	}
	return t.run(ctx, calls)
}

// tell tells the time, by a clock that is read when all calls have begun: no call may find that it is earlier than when it
// was made (T1).
func (w *writer) tell(ctx context.Context, t *tx, calls []*call) (err error) {
	t.timeless = w.clock == nil && !slices.ContainsFunc(calls, func(c *call) bool { return !c.plain() && !c.asks })
	if t.now = 0; !t.timeless {
		t.now, err = readClock(ctx, w.on, w.clock)
	}
	return err
}

// The pauses between two tries for the lock of another process, the first and the longest.
const (
	shortestPause = time.Millisecond
	longestPause  = 5 * time.Millisecond
)

// locked runs what needs the lock of the file for a call, once it has a connection. It ends with the call's context while
// another process has that lock.
//
// SQLite could do the waiting, but would look for the lock ever more rarely, ten times a second in the end, so that a
// process that writes without a break would keep the heartbeats of another waiting for seconds; and it sleeps in a system
// call, after which Go has the goroutine queue up behind all that compute. // K6
func (w *writer) locked(c *call, work func() error) error {
	left, pause := w.patience, shortestPause
	if c.waives {
		left = 0
	}
	for {
		err := w.connect()
		if err == nil {
			err = work()
		}
		if err == nil {
			return nil
		}
		busy := errors.Is(kind(err), sqlstore.ErrBusy)
		if w.on != nil && !busy { // busy: no transaction was begun
			w.mend()
		}
		if c.ctx.Err() != nil {
			return c.ctx.Err()
		}
		if !busy || left < pause {
			return err
		}
		if err := sleep(c.ctx, pause); err != nil {
			return err
		}
		left, pause = left-pause, min(2*pause, longestPause)
	}
}

// sleep waits for so long, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// active says whether there is a transaction, or has been one since so many commits.
func (w *writer) active(commits int64) bool { return w.disk.commits.Load() != commits || w.line.busy() }

func (w *writer) connect() error {
	if w.conn != nil {
		return nil
	}
	conn, err := w.pool.Conn(context.Background())
	if err != nil {
		return err
	}
	w.conn, w.on = conn, newSession(conn)
	return nil
}

// mend brings the connection out of any transaction, or replaces it. SQLite rolls some failures back by itself and then
// refuses the ROLLBACK; a new connection costs less than finding out which case it is.
func (w *writer) mend() {
	if _, err := w.on.exec(context.Background(), "rollback"); err != nil {
		w.drop()
	}
}

// drop makes the pool close the connection: that it is broken outweighs what closing it may say.
func (w *writer) drop() {
	_ = w.on.close()
	_ = w.conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = w.conn.Close()
	_ = w.disk.forget() // not before: whoever waits for the disk meanwhile would open it again
	w.conn, w.on, w.seen = nil, nil, nil
}

// turn runs work while no transaction of this process is open.
func (w *writer) turn(work func() error) error {
	c := &call{size: alone + 1} // more than there is room for anywhere: nobody takes it along
	if !w.line.join(c, ordinary) {
		<-c.ready
	}
	defer w.line.handOver()
	return work()
}

// pause runs work while nobody but the urgent writes.
func (w *writer) pause(work func() error) error {
	err := w.turn(func() error {
		w.line.hold(true)
		return nil
	})
	defer w.line.hold(false)
	return errors.Join(err, work())
}

// close waits for the calls in line and refuses those to come.
func (w *writer) close() error {
	err := w.turn(func() error {
		if w.closed {
			return nil
		}
		w.giveBack()
		w.closed = true
		errs := []error{w.disk.await(w.disk.commits.Load()), w.disk.forget()}
		if w.conn != nil {
			errs = append(errs, w.on.close(), w.conn.Close())
			w.conn, w.on = nil, nil
		}
		return errors.Join(append(errs, w.pool.Close())...)
	})
	return errors.Join(err, w.wal.close())
}
