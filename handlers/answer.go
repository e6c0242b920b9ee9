package handlers

import (
	"errors"
	"fmt"
	"time"
)

// Kind says what becomes of a job after an attempt.
type Kind int

// The kinds of answers.
const (
	KindAck        Kind = iota // done: the job is deleted
	KindRetry                  // run again after the backoff, or dead if no attempts are left
	KindRetryAfter             // run again after Answer.Delay, or dead if no attempts are left
	KindSnooze                 // run again after Answer.Delay; the attempt is not spent
	KindFail                   // dead at once, whatever attempts are left
	KindCancel                 // deleted without being done; leaves no dead letter
)

// String returns the kind as one word for logs.
func (k Kind) String() string {
	switch k {
	case KindAck:
		return "ack"
	case KindRetry:
		return "retry"
	case KindRetryAfter:
		return "retry_after"
	case KindSnooze:
		return "snooze"
	case KindFail:
		return "fail"
	case KindCancel:
		return "cancel"
	}
	return fmt.Sprintf("Kind(%d)", int(k))
}

// Answer is what the return value of a handler means.
type Answer struct {
	Kind  Kind
	Delay time.Duration // of KindRetryAfter and KindSnooze, never negative; zero means at once
	Text  string        // of the error; empty if the handler gave none: use the engine's text then
	Stack string        // where the handler panicked; empty if it did not
}

// answer is an error that says what is to become of the job. Its text is that of the error it carries.
type answer struct {
	kind  Kind
	delay time.Duration
	err   error // nil if the handler gave none
}

func (a *answer) Error() string {
	switch {
	case a.err != nil:
		return a.err.Error()
	case a.kind == KindRetryAfter:
		return fmt.Sprintf("retry after %v", a.delay)
	case a.kind == KindSnooze:
		return fmt.Sprintf("snoozed for %v", a.delay)
	case a.kind == KindCancel:
		return "cancelled by its handler"
	}
	return "failed for good"
}

func (a *answer) Unwrap() error { return a.err }

// RetryAfter makes the error by which a handler says: this attempt failed with err, run the job again after d, whatever
// the backoff of its queue. The attempt is spent: with none left, the job goes to the dead letters. A negative d counts
// as zero, at once. A nil err is allowed; the failed attempt is then recorded with the engine's own text.
func RetryAfter(d time.Duration, err error) error {
	return &answer{kind: KindRetryAfter, delay: max(d, 0), err: err}
}

// Snooze makes the error by which a handler says: not now, run the job again after d. Nothing failed: the attempt is
// given back and no error is recorded, so a job may snooze without limit. A negative d counts as zero, at once.
func Snooze(d time.Duration) error { return &answer{kind: KindSnooze, delay: max(d, 0)} }

// Fail makes the error by which a handler says: this will never work. The job goes to the dead letters at once with the
// text of err, whatever attempts are left. A nil err is allowed; the engine's own text is recorded then.
func Fail(err error) error { return &answer{kind: KindFail, err: err} }

// Cancel makes the error by which a handler says: this job is no longer wanted. It is deleted, as if it had been
// cancelled from outside, and leaves no dead letter. err, which may be nil, says why; it is only logged.
func Cancel(err error) error { return &answer{kind: KindCancel, err: err} }

// Resolve says what the return value of a handler means. A nil error acknowledges the job, and any error retries it,
// unless [RetryAfter], [Snooze], [Fail] or [Cancel] made it or an error that it wraps, by %w or [errors.Join]. Of several
// the outermost wins, and of joined ones the first. The text is always that of the whole error.
//
// Resolve never panics, whatever the methods of err do: it then answers KindRetry with a text that says so.
func Resolve(err error) Answer {
	if err == nil {
		return Answer{Kind: KindAck}
	}
	var a *answer
	var p *PanicError
	if _, ok := try(func() string {
		a, _ = errors.AsType[*answer](err)
		p, _ = errors.AsType[*PanicError](err)
		return ""
	}); !ok {
		a, p = nil, nil // the chain cannot be walked
	}

	res := Answer{Kind: KindRetry}
	if a != nil {
		res.Kind, res.Delay = a.kind, a.delay
	}
	if p != nil {
		res.Stack = p.Stack
	}
	//nolint:errorlint // a bare answer without an error has no text; with words around it, it has
	if a == nil || a.err != nil || err != error(a) {
		res.Text = text(err)
	}
	return res
}

// text formats an error or a panic value, whose methods may panic themselves: a nil pointer in an error is the usual
// way to get there.
func text(v any) string {
	s, ok := try(func() string {
		if err, ok := v.(error); ok {
			return err.Error()
		}
		return fmt.Sprint(v)
	})
	if ok {
		return s
	}
	return fmt.Sprintf("no error text: formatting a %T panicked: %s", v, s)
}

// try calls f. If f panics, it returns the panic value as text and false.
func try(f func() string) (s string, ok bool) {
	defer func() {
		if ok {
			return
		}
		r := recover()
		s = fmt.Sprintf("%T", r)
		defer func() { _ = recover() }() // the value's own methods may panic as well
		s = fmt.Sprint(r)
	}()
	return f(), true
}
