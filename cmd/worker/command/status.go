package command

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"

	"github.com/alkstore/alkworker/queue"
)

// The exit statuses of every command.
const (
	ExitDone    = 0 // done, an empty list included
	ExitFailed  = 1 // the operation failed, or did only part of its work
	ExitUsage   = 2 // wrong usage or configuration: the same command line cannot succeed
	ExitNothing = 3 // there is nothing there: an unknown id or name, nothing matched
)

// statusError is an error with an exit status of its own.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

func failedf(format string, args ...any) error {
	return &statusError{status: ExitFailed, err: fmt.Errorf(format, args...)}
}

func usagef(format string, args ...any) error {
	return &statusError{status: ExitUsage, err: fmt.Errorf(format, args...)}
}

func nothingf(format string, args ...any) error {
	return &statusError{status: ExitNothing, err: fmt.Errorf(format, args...)}
}

// problems are errors that are told one a line, in order.
type problems []error

func (p problems) Error() string {
	texts := make([]string, len(p))
	for i, err := range p {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "\n")
}

// statusOf is the exit status that err stands for.
func statusOf(err error) int {
	var status *statusError
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &status):
		return status.status
	case errors.Is(err, queue.ErrInvalid), errors.Is(err, queue.ErrExpiresFirst):
		return ExitUsage
	default:
		return ExitFailed
	}
}

// report writes err as one line, or each of several problems as a line. A reader that has seen enough and closed the pipe
// needs no telling.
func report(w io.Writer, err error) {
	if err == nil || errors.Is(err, errOutputClosed) {
		return
	}
	all := problems{err}
	var several problems
	if errors.As(err, &several) {
		all = several
	}
	for _, err := range all {
		_, _ = fmt.Fprintf(w, "worker: %s\n", oneLine(err.Error()))
	}
}

// oneLine joins the lines of a text, as errors.Join makes them.
func oneLine(s string) string {
	lines := strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' })
	return strings.Join(slices.DeleteFunc(lines, func(l string) bool { return strings.TrimSpace(l) == "" }), "; ")
}

// errOutputClosed is why a command ended whose standard output was closed by its reader.
var errOutputClosed = errors.New("standard output is closed")

// outputError makes err that of a command that cannot write its results.
func outputError(err error) error {
	switch {
	case err == nil, errors.Is(err, errOutputClosed):
		return err
	case errors.Is(err, syscall.EPIPE), errors.Is(err, io.ErrClosedPipe):
		return failedf("%w", errOutputClosed)
	default:
		return failedf("write to standard output: %w", err)
	}
}
