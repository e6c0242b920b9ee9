package sqlstore

import (
	"errors"
	"strconv"
	"strings"
)

// The kinds of failure that somebody decides by. Each dialect maps its driver's codes onto them; test with errors.Is.
var (
	// ErrBusy: another connection held the lock for longer than the busy timeout. Repeating the call may succeed.
	ErrBusy = errors.New("database is locked by another connection")
	// ErrFull: no space is left where the database is. Repeating may succeed once there is.
	ErrFull = errors.New("no space left for the database")
	// ErrNoID: a new job could not have the id that was next, since it is taken or past the highest possible one. Rows that
	// were inserted by hand, or a sequence that was set, lead there. Repeating succeeds once that is mended, or soon.
	ErrNoID = errors.New("the id of the new job is taken, or none is left: \"worker doctor\" says what to do")
	// ErrUnavailable: the database cannot be reached, read or written for now.
	ErrUnavailable = errors.New("database is unavailable")
	// ErrReadOnly: file, directory or server refuse writes.
	ErrReadOnly = errors.New("database is read-only")
	// ErrCorrupt: the database is damaged, or no database at all.
	ErrCorrupt = errors.New("not a database, or a damaged one")
	// ErrGone: the file of the database was removed or replaced while it was open. What was written since may be lost, and
	// this handle is of no use any more.
	ErrGone = errors.New("database file is gone")
	// ErrNewer: the schema was made by a newer version of this program. Nothing was touched.
	ErrNewer = errors.New("database has a newer schema than this program knows")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("store is closed")
	// ErrUnsupported: this store cannot do that at all.
	ErrUnsupported = errors.New("not supported by this store")
	// ErrExpiresFirst: a job would expire before it is ready and could never run.
	ErrExpiresFirst = errors.New("job would expire before it is ready")
	// ErrTooLarge: a value exceeds what the database can hold.
	ErrTooLarge = errors.New("value too large for the database")
)

// Transient says whether the failed call may succeed when it is simply repeated later.
func Transient(err error) bool {
	return errors.Is(err, ErrBusy) || errors.Is(err, ErrFull) || errors.Is(err, ErrNoID) || errors.Is(err, ErrUnavailable)
}

// Error is a failed operation: what was tried, on what, and why it failed.
type Error struct {
	Op    string // such as "claim"
	Queue string // empty if unknown or several
	JobID int64  // zero if unknown or several
	Err   error
}

// Error reads as a path: operation, object, cause.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Queue != "" {
		b.WriteString(" queue " + strconv.Quote(e.Queue))
	}
	if e.JobID != 0 {
		b.WriteString(" job " + strconv.FormatInt(e.JobID, 10))
	}
	return b.String() + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
