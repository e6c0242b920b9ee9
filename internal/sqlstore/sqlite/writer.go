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
	pool  *sql.DB // of one connection
	clock func() int64
	// patience is how long to wait for the lock of another process.
	patience time.Duration
	turns    turnstile

	// Guarded by turns.
	conn   *sql.Conn // nil until the first write and after a broken connection
	on     *session
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

// do runs work in one immediate transaction: all of it happens or none. Once the write lock is held, the end of ctx no
// longer matters, so that a cancelled caller never leaves a half-done statement on the connection.
func (w *writer) do(ctx context.Context, l lane, work func(ctx context.Context, t *tx) error) (woke []string, err error) {
	if err := w.turns.enter(ctx, l); err != nil {
		return nil, err
	}
	defer w.turns.leave()
	if w.closed {
		return nil, sqlstore.ErrClosed
	}
	if err := w.connect(ctx); err != nil {
		return nil, err
	}
	if err := w.begin(ctx); err != nil {
		if !errors.Is(kind(err), sqlstore.ErrBusy) { // busy: no transaction was begun
			w.mend()
		}
		return nil, err
	}
	ctx = context.WithoutCancel(ctx)
	committed := false
	defer func() {
		if !committed { // also when work panics
			w.mend()
		}
	}()
	t := &tx{session: w.on}
	if t.now, err = readClock(ctx, w.on, w.clock); err != nil {
		return nil, err
	}
	if err := work(ctx, t); err != nil {
		return nil, err
	}
	if _, err := w.on.exec(ctx, "commit"); err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	committed = true
	return t.woke, nil
}

// briefly is the busy timeout in wait_briefly.sql.
const briefly = 25 * time.Millisecond

// begin takes the write lock, waiting while another connection has it. SQLite looks for the lock ever more rarely, ten
// times a second in the end, so that a process that writes without a break would keep the heartbeats of another waiting
// for seconds. Hence it waits briefly, again and again.
func (w *writer) begin(ctx context.Context) error {
	for deadline := time.Now().Add(w.patience); ; {
		_, err := w.on.exec(ctx, "begin")
		if !errors.Is(kind(err), sqlstore.ErrBusy) || !time.Now().Before(deadline) {
			return err
		}
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
	w.conn, w.on = nil, nil
}

func (w *writer) close() error {
	if err := w.turns.enter(context.Background(), ordinary); err != nil {
		return err
	}
	defer w.turns.leave()
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
