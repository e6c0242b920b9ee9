package postgres

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// Codes of the server that stand for themselves; the others go by their class, the first two characters.
const (
	serializationFailure  = "40001"
	deadlockDetected      = "40P01"
	lockNotAvailable      = "55P03"
	queryCanceled         = "57014"
	diskFull              = "53100"
	readOnlyTransaction   = "25006"
	insufficientPrivilege = "42501"
	outOfRange            = "22003"
	tooLong               = "22001"
	sequenceAtItsEnd      = "2200H"
	uniqueViolation       = "23505"
	dataCorrupted         = "XX001"
	indexCorrupted        = "XX002"
	ioError               = "58030"
)

// kind is the sqlstore kind of an error of the driver, or nil if nobody decides by it.
func kind(err error) error {
	if code := codeOf(err); code != "" {
		if code == uniqueViolation && isID(err) {
			return sqlstore.ErrNoID
		}
		return kindOfCode(code)
	}
	var connect *pgconn.ConnectError
	var network net.Error
	switch {
	case errors.Is(err, errNoAnswer):
		return sqlstore.ErrUnavailable
	case errors.As(err, &connect), errors.As(err, &network), errors.Is(err, net.ErrClosed),
		errors.Is(err, pgconn.ErrConnClosed), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return sqlstore.ErrUnavailable
	}
	return nil
}

func kindOfCode(code string) error {
	switch code {
	case serializationFailure, deadlockDetected, lockNotAvailable, queryCanceled:
		return sqlstore.ErrBusy
	case diskFull:
		return sqlstore.ErrFull
	case readOnlyTransaction, insufficientPrivilege:
		return sqlstore.ErrReadOnly
	case outOfRange, tooLong:
		return sqlstore.ErrTooLarge
	case sequenceAtItsEnd:
		return sqlstore.ErrNoID
	case dataCorrupted, indexCorrupted:
		return sqlstore.ErrCorrupt
	case ioError:
		return sqlstore.ErrUnavailable
	}
	switch code[:2] {
	case "08", "53", "57": // lost connections, too few resources, an operator who stops or starts the server
		return sqlstore.ErrUnavailable
	case "54": // program limits
		return sqlstore.ErrTooLarge
	}
	return nil
}

// codeOf is what the server called the error, and "" if it is not the server's.
func codeOf(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && len(e.Code) == 5 {
		return e.Code
	}
	return ""
}

// isID says whether what is not unique is the id of a live job: the sequence lags behind rows that were inserted by hand.
func isID(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.ConstraintName == "__alkstore_live_pkey"
}

// errNoAnswer is the cause of a call that the server left without an answer for longer than patience.
var errNoAnswer = errors.New("no answer from the server")

// undone says that the statement has certainly changed nothing and may be repeated by itself: it lost against another
// one, which has gone on.
func undone(err error) bool {
	code := codeOf(err)
	return code == serializationFailure || code == deadlockDetected
}

// refused says that the server did not take the values of a statement, which has therefore changed nothing: what is out
// of range, breaks a constraint or is too large, or what a policy or a trigger of the user objects to, with whatever code.
// What it would have said of any values is of other classes: connection, state of the transaction, lost against another,
// too few resources, not in the right state, an operator, the system, its own bugs.
func refused(err error) bool {
	code := codeOf(err)
	return code != "" && !slices.Contains([]string{"08", "25", "40", "53", "55", "57", "58", "XX"}, code[:2])
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
	if k := kind(err); k != nil && !errors.Is(err, k) {
		err = fmt.Errorf("%w: %w", k, err)
	}
	return &sqlstore.Error{Op: op, Queue: queue, JobID: id, Err: err}
}
