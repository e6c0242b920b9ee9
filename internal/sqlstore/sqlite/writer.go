package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
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

	// These belong to whoever leads the line.
	conn   *sql.Conn // nil until the first write and after a broken connection
	on     *session
	seen   *sight // nil until the connection has begun its first transaction
	wal    walCare
	closed bool
}

// tx is an open write transaction. now is the clock as read under the write lock, one value for each call at least.
type tx struct {
	*session
	now  int64
	woke []string // queues that may have work once this is committed
}

// wake notes that the queue may have new work.
func (t *tx) wake(queue string) { t.woke = append(t.woke, queue) }

// do runs work in an immediate transaction: all of it happens or none. The transaction is shared with the calls that
// wait in line at the same moment, as far as their sizes allow; a call that fails takes nothing of the others with it, for
// which work may be run a second time. Work that calls back into somebody's code should therefore be alone.
//
// Once work has begun, the end of ctx no longer matters: a cancelled caller never leaves a half-done statement behind.
func (w *writer) do(c *call, l lane) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
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
			return c.err
		}
	}
	w.lead(c)
	return c.err
}

// lead runs a batch and wakes the others of it.
func (w *writer) lead(leader *call) {
	waited := w.line.last()
	batch := []*call{leader}
	defer func() { // also when work panics: the others must not wait for ever
		for _, c := range batch[1:] {
			c.ready <- struct{}{}
		}
		w.trim()
		w.line.handOver()
	}()
	leader.err = errLeaderPanicked
	t, err := w.open(leader.ctx)
	switch {
	case err == nil:
		// Only now: whoever has come while the lock was being taken takes part.
		batch = w.line.gather(leader, func(*call) bool { return true })
	case errors.Is(kind(err), sqlstore.ErrBusy):
		// Those who had been there when the wait began have waited as long.
		batch = w.line.gather(leader, func(c *call) bool { return c.number <= waited })
	}
	if err != nil {
		settle(batch, err)
		return
	}
	settle(batch, errLeaderPanicked)
	late := w.line.hurry
	if leader.size >= most && leader.work != nil {
		late = func() []*call { return nil } // it may not be run again for the sake of another
	}
	for _, c := range w.finish(t, &batch, late) {
		// One of the batch failed and the others with it. It is not worth finding out which: each once more by itself.
		apart := []*call{c}
		if t, err := w.open(c.ctx); err != nil {
			c.err = err
		} else {
			w.finish(t, &apart, func() []*call { return nil })
		}
	}
}

var errLeaderPanicked = errors.New("a write of the same transaction panicked")

func settle(batch []*call, err error) {
	for _, c := range batch {
		c.err = err
	}
}

// open begins a transaction in a file that is still ours. What it leaves behind if it fails is no transaction.
func (w *writer) open(ctx context.Context) (t *tx, err error) {
	if w.closed {
		return nil, sqlstore.ErrClosed
	}
	if err := w.files.err(); err != nil {
		return nil, err
	}
	if err := w.begin(ctx); err != nil {
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
	if err := w.files.look(w.seen); err != nil { // before anything is written to a file that is not ours
		return nil, err
	}
	return &tx{session: w.on}, nil
}

// finish does what the calls of a batch ask for, and those that come late but are urgent: a heartbeat does not wait for the
// next transaction, and for whatever may hold up both. // K6
//
// It commits and sets the outcome of each, or returns those that are to be tried again apart, none of which has happened.
func (w *writer) finish(t *tx, batch *[]*call, late func() []*call) (again []*call) {
	committed := false
	defer func() {
		if !committed {
			w.mend()
		}
	}()
	ctx := context.Background()
	err := w.run(ctx, t, *batch)
	if err == nil {
		if more := late(); len(more) > 0 {
			*batch = append(*batch, more...)
			settle(more, errLeaderPanicked)
			err = w.run(ctx, t, more)
		}
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
	settle(*batch, w.files.look(w.seen)) // a commit into a file that is gone is none
	return nil
}

// run does what calls ask for, by a clock that is read when all of them have begun: no call may find that it is earlier
// than when it was made (T1).
func (w *writer) run(ctx context.Context, t *tx, calls []*call) (err error) {
	if t.now, err = readClock(ctx, w.on, w.clock); err != nil {
		return err
	}
	return t.run(ctx, calls)
}

func (t *tx) run(ctx context.Context, batch []*call) error {
	var inserts []*call
	var jobs []sqlstore.NewJob
	for _, c := range batch {
		if c.work == nil {
			inserts, jobs = append(inserts, c), append(jobs, c.jobs...)
			continue
		}
		t.woke = nil
		if err := c.work(ctx, t); err != nil {
			return err
		}
		c.woke = t.woke
	}
	if len(jobs) == 0 {
		return nil
	}
	t.woke = nil
	ids, err := t.enqueue(ctx, jobs, fired{})
	if err != nil {
		return err
	}
	inserts[0].woke = t.woke // it does not matter who wakes
	for _, c := range inserts {
		c.ids, ids = ids[:len(c.jobs):len(c.jobs)], ids[len(c.jobs):]
	}
	return nil
}

// briefly is the busy timeout in wait_briefly.sql.
const briefly = 25 * time.Millisecond

// begin opens a transaction. It ends with ctx while another process holds the lock.
//
// SQLite looks for a lock ever more rarely, ten times a second in the end, so that a process that writes without a break
// would keep the heartbeats of another waiting for seconds. Hence it waits briefly, again and again, and between two of
// these it is soon enough to see whether ctx has ended: a context that may end costs more than all else here.
func (w *writer) begin(ctx context.Context) error {
	for left := w.patience; ; left -= briefly {
		err := w.connect()
		if err == nil {
			_, err = w.on.exec(context.Background(), "begin")
		}
		if err == nil {
			return nil
		}
		busy := errors.Is(kind(err), sqlstore.ErrBusy)
		if w.on != nil && !busy { // busy: no transaction was begun
			w.mend()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !busy || left <= briefly {
			return err
		}
	}
}

func (w *writer) connect() error {
	if w.conn != nil {
		return nil
	}
	ctx := context.Background()
	conn, err := w.pool.Conn(ctx)
	if err != nil {
		return err
	}
	w.conn, w.on = conn, newSession(conn)
	if w.patience < briefly {
		return nil
	}
	if _, err := w.on.exec(ctx, "wait_briefly"); err != nil {
		w.drop()
		return err
	}
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
	w.conn, w.on, w.seen = nil, nil, nil
}

// close waits for the calls in line and refuses those to come.
func (w *writer) close() error {
	c := &call{size: alone}
	if !w.line.join(c, ordinary) {
		<-c.ready
	}
	defer w.line.handOver()
	if w.closed {
		return nil
	}
	w.closed = true
	var errs []error
	if w.conn != nil {
		errs = append(errs, w.on.close(), w.conn.Close())
		w.conn, w.on = nil, nil
	}
	return errors.Join(append(errs, w.pool.Close())...)
}
