package handlers

import (
	"context"
	"fmt"
	goruntime "runtime"
	"strings"
	"unicode/utf8"

	"github.com/alkstore/alkworker/queue"
)

const (
	maxPanicText  = 32 << 10 // bytes of each of the two texts of a PanicError // K27
	maxPanicDepth = 512      // frames looked at
)

// PanicError is the failed attempt of a handler that panicked or called [runtime.Goexit]. It does not wrap the panic
// value: a panic is a failed attempt whatever its value is.
type PanicError struct {
	Value string // the panic value as text, at most 32 KiB
	Stack string // from the function that panicked outwards, at most 32 KiB; two lines a frame, as in a Go traceback
}

// Error says that it was a panic, and its value.
func (e *PanicError) Error() string { return "panic: " + e.Value }

// Invoke runs one attempt in a goroutine of its own and waits for its end: [Attempt] for whoever wants the answer returned.
func Invoke(ctx context.Context, h Handler, job *queue.Job) error {
	done := make(chan error, 1)
	go Attempt(ctx, h, job, func(err error) { done <- err })
	return <-done
}

// Attempt runs one attempt in the calling goroutine and passes on to answered what h returned, or a [*PanicError] if h
// panicked, with whatever value, or called [runtime.Goexit]. After a Goexit Attempt does not return: nothing can stop it,
// and the calling goroutine ends once answered has returned. It does not watch ctx: a handler that ignores its context
// keeps Attempt waiting.
func Attempt(ctx context.Context, h Handler, job *queue.Job, answered func(error)) {
	var err error
	returned := false
	defer func() { // runs on Goexit as well
		if !returned {
			err = newPanicError(recover())
		}
		answered(err)
	}()
	err = h.Handle(ctx, job)
	returned = true
}

// guard turns a panic of h into an error, so that the middleware around it sees one failed attempt.
func guard(h Handler) Handler {
	return HandlerFunc(func(ctx context.Context, job *queue.Job) (err error) {
		returned := false
		defer func() {
			// Not "if r := recover(); r != nil": with GODEBUG=panicnil=1 that would make panic(nil) a success. After
			// Goexit err goes nowhere, and Invoke reports it.
			if !returned {
				err = newPanicError(recover())
			}
		}()
		err = h.Handle(ctx, job)
		returned = true
		return err
	})
}

// newPanicError must be called by the deferred function that recovered v, while the frames below are still there.
func newPanicError(v any) *PanicError {
	stack, exited := panicStack()
	e := &PanicError{Stack: stack}
	_, isNil := v.(*goruntime.PanicNilError)
	switch {
	case exited:
		e.Value = "the handler called runtime.Goexit"
	case v == nil, isNil:
		e.Value = "nil"
	default:
		e.Value = cut(text(v), maxPanicText)
	}
	return e
}

// panicStack formats the frames below the latest panic or Goexit, and says whether it was Goexit.
func panicStack() (stack string, exited bool) {
	pcs := make([]uintptr, maxPanicDepth)
	frames := goruntime.CallersFrames(pcs[:goruntime.Callers(1, pcs)])
	var b strings.Builder
	found := false
	for more := true; more; {
		var f goruntime.Frame
		f, more = frames.Next()
		switch {
		case !found:
			// Above it are only the functions of this file.
			exited = f.Function == "runtime.Goexit"
			found = exited || f.Function == "runtime.gopanic"
			continue
		case strings.HasPrefix(f.Function, "runtime."):
			continue // such as sigpanic and goexit, which say nothing about the handler
		}
		line := fmt.Sprintf("%s(...)\n\t%s:%d\n", f.Function, f.File, f.Line)
		if b.Len()+len(line) > maxPanicText {
			break
		}
		b.WriteString(line)
	}
	return b.String(), exited
}

// cut shortens s to at most limit bytes, not in the middle of a rune.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
