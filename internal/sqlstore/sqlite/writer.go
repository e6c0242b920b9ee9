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
	met    *beside // nil until the connection has begun its first transaction
	closed bool
}

// tx is an open write transaction. now is the clock as read under the write lock, one value for the whole transaction.
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
func (w *writer) do(
	ctx context.Context, l lane, size int, work func(ctx context.Context, t *tx) error,
) (woke []string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := &call{ctx: ctx, size: max(size, 1), work: work}
	if leads := w.line.join(c, l); !leads {
		select {
		case <-c.ready:
		case <-ctx.Done():
			if w.line.quit(c) {
				return nil, ctx.Err()
			}
			<-c.ready
		}
		if !c.leads {
			return c.woke, c.err
		}
	}
	w.lead(c)
	return c.woke, c.err
}

// lead runs a batch and wakes the others of it.
func (w *writer) lead(leader *call) {
	batch := w.line.gather(leader)
	defer func() { // also when work panics: the others must not wait for ever
		for _, c := range batch[1:] {
			c.ready <- struct{}{}
		}
		w.line.handOver()
	}()
	for _, c := range batch {
		c.err = errLeaderPanicked
	}
	if alive := w.transact(batch); len(alive) > 0 {
		// One of the batch failed and the others with it. It is not worth finding out which: each once more by itself.
		for i := range alive {
			w.transact(alive[i : i+1])
		}
	}
}

var errLeaderPanicked = errors.New("a write of the same transaction panicked")

// transact runs the calls of a batch in one transaction and sets the outcome of each. It returns the calls that are to be
// tried again apart, none of which has happened.
func (w *writer) transact(batch []*call) (again []*call) {
	settle := func(err error) {
		for _, c := range batch {
			c.err = err
		}
	}
	if w.closed {
		settle(sqlstore.ErrClosed)
		return nil
	}
	if err := w.files.err(); err != nil {
		settle(err)
		return nil
	}
	batch, err := w.begin(batch)
	if err != nil || len(batch) == 0 {
		settle(err)
		return nil
	}
	committed := false
	defer func() {
		if !committed {
			w.mend()
		}
	}()
	if w.met == nil {
		met := w.files.meet()
		w.met = &met
	}
	if err := w.files.look(*w.met); err != nil { // before anything is written to a file that is not ours
		settle(err)
		return nil
	}
	ctx := context.Background()
	t := &tx{session: w.on}
	if t.now, err = readClock(ctx, w.on, w.clock); err != nil {
		settle(err)
		return nil
	}
	for _, c := range batch {
		t.woke = nil
		if err := c.work(ctx, t); err != nil {
			if len(batch) > 1 && !sqlstore.Transient(kind(err)) {
				return batch
			}
			settle(err)
			return nil
		}
		c.woke = t.woke
	}
	if _, err := w.on.exec(ctx, "commit"); err != nil {
		settle(fmt.Errorf("commit: %w", err))
		return nil
	}
	committed = true
	settle(w.files.look(*w.met)) // a commit into a file that is gone is none
	return nil
}

// briefly is the busy timeout in wait_briefly.sql.
const briefly = 25 * time.Millisecond

// begin opens the transaction of a batch and returns what is left of it: callers who give up while another process holds
// the lock leave, and the others wait on.
//
// SQLite looks for a lock ever more rarely, ten times a second in the end, so that a process that writes without a break
// would keep the heartbeats of another waiting for seconds. Hence it waits briefly, again and again.
func (w *writer) begin(batch []*call) ([]*call, error) {
	for left := w.patience; ; left -= briefly {
		ctx, release := waiting(batch)
		err := w.connect(ctx)
		if err == nil {
			_, err = w.on.exec(ctx, "begin")
		}
		release()
		if err == nil {
			return batch, nil
		}
		busy := errors.Is(kind(err), sqlstore.ErrBusy)
		if w.on != nil && !busy { // busy: no transaction was begun
			w.mend()
		}
		over := !busy || left <= briefly
		var staying []*call
		for _, c := range batch {
			if c.err = c.ctx.Err(); c.err == nil {
				staying = append(staying, c)
			}
		}
		if len(staying) == 0 || over && len(staying) == len(batch) {
			return staying, err
		}
		batch = staying
	}
}

// waiting is a context that ends when that of any call does.
func waiting(batch []*call) (ctx context.Context, release func()) {
	if len(batch) == 1 {
		return batch[0].ctx, func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	stops := []func() bool{}
	for _, c := range batch {
		if c.ctx.Done() != nil {
			stops = append(stops, context.AfterFunc(c.ctx, cancel))
		}
	}
	if len(stops) == 0 {
		cancel()
		return context.Background(), func() {}
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}

func (w *writer) connect(ctx context.Context) error {
	if w.conn != nil {
		return nil
	}
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
	w.conn, w.on, w.met = nil, nil, nil
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
