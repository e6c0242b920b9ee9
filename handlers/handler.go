// Package handlers connects queues to the code that does their jobs.
//
// A [Registry] maps the name of a queue to a [Handler]. What a handler returns is its answer: nil acknowledges the job,
// an error makes it run again after the backoff of its queue, and [RetryAfter], [Snooze], [Fail] and [Cancel] make
// errors that say something else. A panic is one failed attempt, with the stack kept. While it runs, the context of a
// handler carries the job ([JobFromContext]), and its cause says why it was cancelled: [ErrLeaseLost], [ErrCancelled],
// [ErrTimeout] or [ErrShutdown].
package handlers

import (
	"context"

	"github.com/alkstore/alkworker/queue"
)

// A Handler does the jobs of a queue.
//
// Handle is called once for each attempt, for different jobs at the same time. The job is done when it returns nil; what
// any error means is told by [Resolve]. A job can run more than once, for instance after the machine lost power, so its
// effects must bear repetition or be committed together with the job's end by [AckTx].
//
// Handle should return soon after ctx is done: by then somebody else may own the job, and whatever Handle returns after
// [ErrLeaseLost] or [ErrCancelled] is dropped. It must not keep or change job. Its goroutine runs other jobs afterwards:
// what was locked to the thread, or set as a label for profiles, is to be undone.
type Handler interface {
	Handle(ctx context.Context, job *queue.Job) error
}

// HandlerFunc makes a Handler of a function.
type HandlerFunc func(ctx context.Context, job *queue.Job) error

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, job *queue.Job) error { return f(ctx, job) }

// Middleware wraps a handler in something that happens around every attempt: logging, tracing, a transaction. It is
// called when a worker is made, once for each queue, and must not return nil.
//
// A panic in the wrapped handler reaches the middleware as an error, a [*PanicError], so that it need not recover. Only
// [runtime.Goexit] passes it by; its deferred calls run even then.
type Middleware func(next Handler) Handler
