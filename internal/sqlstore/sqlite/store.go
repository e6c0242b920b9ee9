// Package sqlite is the store on one SQLite file in WAL mode, through modernc.org/sqlite.
//
// A [Store] has one connection that writes and a pool that reads. Every write is an immediate transaction; every
// statement is a file in sql/, every step of the schema a file in migrations/.
package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// Store implements [sqlstore.Store]. Use Open or OpenDB.
type Store struct {
	path    string
	options Options
	files   *witness
	write   *writer
	readers *sql.DB
	read    *session
	signals sqlstore.Signals

	closed    atomic.Bool
	calls     sync.RWMutex // read-locked by every call that is not a write
	closeOnce sync.Once
	closeErr  error
}

var _ sqlstore.LateReader = (*Store)(nil)

// writing runs work in a write transaction.
func (s *Store) writing(
	ctx context.Context, l lane, size int, work func(ctx context.Context, t *tx) error,
) error {
	return s.write.do(&call{ctx: ctx, size: max(size, 1), work: work}, l)
}

// reading runs work on the pool of readers, after reading the clock. Each statement sees the database as it is then.
func (s *Store) reading(ctx context.Context, work func(now int64) error) error {
	done, err := s.call()
	if err != nil {
		return err
	}
	defer done()
	now, err := s.readClock(ctx)
	if err != nil {
		return err
	}
	return work(now)
}

// snapshot runs work on one state of the database, so that what several statements find belongs together. The statements
// are those named; others would be prepared for this once.
func (s *Store) snapshot(ctx context.Context, statements []string, work func(on *session) error) (err error) {
	done, err := s.call()
	if err != nil {
		return err
	}
	defer done()
	// Before a connection is taken, and not again: to prepare takes one as well, and everybody who has one could wait for
	// whoever prepares a statement and waits for one.
	prepared := make([]*sql.Stmt, len(statements))
	for i, name := range statements {
		if prepared[i], err = s.read.stmt(ctx, name); err != nil {
			return err
		}
	}
	conn, err := s.readers.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // back to the pool
	// Not on ctx, at whose end the transaction would close its statements under the one that is running.
	all, err := conn.BeginTx(context.WithoutCancel(ctx), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() {
		// Nothing was written. But a connection that stays in its snapshot must not go back to the pool: it would keep the
		// WAL from ever being reused.
		if err := all.Rollback(); err != nil {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		}
	}()
	on := newSession(all)
	defer func() {
		if cerr := on.close(); err == nil {
			err = cerr
		}
	}()
	for i, name := range statements {
		on.prepared[name] = all.StmtContext(ctx, prepared[i])
	}
	return work(on)
}

// call is the beginning of a call that is not a write: until done, Close waits for it.
func (s *Store) call() (done func(), err error) {
	s.calls.RLock()
	if s.closed.Load() {
		s.calls.RUnlock()
		return nil, sqlstore.ErrClosed
	}
	if err := s.files.err(); err != nil {
		s.calls.RUnlock()
		return nil, err
	}
	return s.calls.RUnlock, nil
}

// inside runs work on a transaction of the caller, with its statements prepared on that transaction only.
func (s *Store) inside(ctx context.Context, callers sqlstore.Tx, work func(ctx context.Context, t *tx) error) (err error) {
	done, err := s.call()
	if err != nil {
		return err
	}
	defer done()
	on, ok := callers.(*sql.Tx)
	if !ok || on == nil {
		return errors.Join(sqlstore.ErrUnsupported, errors.New("a SQLite queue takes a non-nil *sql.Tx"))
	}
	// SQLite answers the interruption of a write by rolling the whole transaction back, and what the caller writes next
	// would be committed at once, one by one. So the end of ctx counts only until we begin.
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	t := &tx{session: newSession(on)}
	defer func() {
		if cerr := t.close(); err == nil {
			err = cerr
		}
	}()
	// Ids and fences of another queue begin with one as well: the handle of a job of ours may well name one of theirs.
	var file string
	if _, err := t.one(ctx, "main_file", []any{&file}); err != nil {
		return err
	}
	if !s.files.are(file) {
		return fmt.Errorf("%w: the transaction is on %q, the queue on %q", sqlstore.ErrUnsupported, file, s.files.path)
	}
	if t.now, err = readClock(ctx, t.session, s.options.Clock); err != nil {
		return err
	}
	// A statement that fails half-way undoes itself, but several in a row need a savepoint: the caller may go on with
	// the transaction after our error (T6).
	if _, err := t.exec(ctx, "savepoint"); err != nil {
		return err
	}
	if err := work(ctx, t); err != nil {
		_, uerr := t.exec(ctx, "savepoint_rollback")
		_, rerr := t.exec(ctx, "savepoint_release")
		return errors.Join(err, uerr, rerr)
	}
	if _, err := t.exec(ctx, "savepoint_release"); err != nil {
		_, uerr := t.exec(ctx, "savepoint_rollback")
		return errors.Join(err, uerr)
	}
	return nil
}

func readClock(ctx context.Context, on *session, moved func() int64) (int64, error) {
	if moved != nil {
		return moved(), ctx.Err()
	}
	var now int64
	_, err := on.one(ctx, "now", []any{&now})
	return now, err
}

func (s *Store) readClock(ctx context.Context) (int64, error) {
	return readClock(ctx, s.read, s.options.Clock)
}

// Now implements [sqlstore.Store].
func (s *Store) Now(ctx context.Context) (now int64, err error) {
	err = s.reading(ctx, func(clock int64) error {
		now = clock
		return nil
	})
	return now, fail("read clock", "", 0, err)
}

// Path is the file of the database.
func (s *Store) Path() string { return s.path }

// Close implements [sqlstore.Store].
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		s.closed.Store(true)
		s.signals.Close()
		s.calls.Lock() // writes wait for their turn
		defer s.calls.Unlock()
		s.closeErr = fail("close", "", 0, errors.Join(s.read.close(), s.readers.Close(), s.write.close(), s.files.close()))
	})
	return s.closeErr
}
