package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	lib "modernc.org/sqlite/lib"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// kind is the sqlstore kind of a driver error, or nil if nobody decides by it.
func kind(err error) error {
	var e interface { // *sqlite.Error, or what a test makes of it
		error
		Code() int
	}
	if !errors.As(err, &e) {
		if errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) {
			return sqlstore.ErrUnavailable // the next call has a new connection
		}
		return nil
	}
	switch e.Code() & 0xff {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_PROTOCOL:
		return sqlstore.ErrBusy
	case lib.SQLITE_FULL:
		return sqlstore.ErrFull
	case lib.SQLITE_IOERR, lib.SQLITE_CANTOPEN, lib.SQLITE_NOMEM:
		return sqlstore.ErrUnavailable
	case lib.SQLITE_READONLY, lib.SQLITE_PERM, lib.SQLITE_AUTH:
		return sqlstore.ErrReadOnly
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
		return sqlstore.ErrCorrupt
	case lib.SQLITE_TOOBIG:
		return sqlstore.ErrTooLarge
	}
	return nil
}

// fail makes err the typed error of an operation; nil stays nil.
func fail(op, queue string, id int64, err error) error {
	if err == nil {
		return nil
	}
	var typed *sqlstore.Error
	if errors.As(err, &typed) {
		return err
	}
	if k := kind(err); k != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", k, err)
	}
	return &sqlstore.Error{Op: op, Queue: queue, JobID: id, Err: err}
}
