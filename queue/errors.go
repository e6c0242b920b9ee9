package queue

import (
	"errors"
	"fmt"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// Error is a failed operation. Op is what was tried, such as "claim"; Queue and JobID say on what, and are empty and
// zero when unknown or when there are several; Err is the cause. Test the cause with errors.Is.
type Error = sqlstore.Error

// The causes that a caller may decide by.
var (
	// ErrInvalid is returned when the call itself is wrong: a name, an option, a time or an argument outside its
	// limits. Nothing was done. Repeating the call fails again.
	ErrInvalid = errors.New("invalid")
	// ErrPayloadTooLarge is returned by enqueue operations when a payload exceeds Config.MaxPayload. Nothing was stored.
	ErrPayloadTooLarge = errors.New("payload too large")
	// ErrExpiresFirst is returned by enqueue operations when a job would expire before it is ready and could never run.
	ErrExpiresFirst = sqlstore.ErrExpiresFirst
	// ErrBusy is returned when another connection held the lock for longer than the busy timeout. Repeating may succeed.
	ErrBusy = sqlstore.ErrBusy
	// ErrFull is returned when no space is left where the database is. Repeating may succeed once there is.
	ErrFull = sqlstore.ErrFull
	// ErrNoID is returned by enqueue operations when the id of a new job is taken or none is left, as rows that were inserted
	// by hand can bring about. Nothing was stored. Repeating may succeed, and Check says what to do.
	ErrNoID = sqlstore.ErrNoID
	// ErrUnavailable is returned when the database cannot be reached, read or written for now.
	ErrUnavailable = sqlstore.ErrUnavailable
	// ErrReadOnly is returned when the file, its directory or the server refuse writes.
	ErrReadOnly = sqlstore.ErrReadOnly
	// ErrCorrupt is returned when the database is damaged, or no database at all.
	ErrCorrupt = sqlstore.ErrCorrupt
	// ErrGone is returned when the file of the database was removed or replaced while it was open. The handle is of no use
	// any more: what was written since then may be lost.
	ErrGone = sqlstore.ErrGone
	// ErrNewer is returned by Open and OpenDB when a newer version of this module made the schema. Nothing was touched.
	ErrNewer = sqlstore.ErrNewer
	// ErrClosed is returned by every operation on a client that was closed.
	ErrClosed = sqlstore.ErrClosed
	// ErrUnsupported is returned when this store cannot do that at all.
	ErrUnsupported = sqlstore.ErrUnsupported
	// ErrTooLarge is returned when a value exceeds what the database can hold.
	ErrTooLarge = sqlstore.ErrTooLarge
)

// Transient says whether the call that failed with err may succeed when it is simply repeated later: the database is
// locked, full or away for now, or has no id for a new job.
func Transient(err error) bool { return sqlstore.Transient(err) }

// invalid is one wrong argument. It keeps errors.Is(err, ErrInvalid) true without the word in front of every problem.
type invalid string

func (e invalid) Error() string        { return string(e) }
func (e invalid) Is(target error) bool { return target == ErrInvalid }

func invalidf(format string, args ...any) error { return invalid(fmt.Sprintf(format, args...)) }

// failed makes an *Error of err, and nil of nil. An *Error of the store is about the same call: what it knows of queue
// and job is kept, and its cause is ours. One that has words around it stays whole. // T5
func failed(op, queue string, id int64, err error) error {
	if err == nil {
		return nil
	}
	out := &Error{Op: op, Queue: queue, JobID: id, Err: err}
	var e *Error
	if errors.As(err, &e) && e.Error() == err.Error() {
		out.Err = e.Err
		if queue == "" {
			out.Queue = e.Queue
		}
		if id == 0 {
			out.JobID = e.JobID
		}
	}
	return out
}
