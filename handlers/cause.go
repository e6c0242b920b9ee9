package handlers

import "errors"

// The causes for which the context of a handler is cancelled. Inside a handler, context.Cause(ctx) is one of them or
// wraps it; ask with errors.Is.
var (
	// ErrLeaseLost is the cause when the claim no longer holds: it could not be renewed before its deadline, and another
	// worker may run the job already. Stop and touch nothing more; what the handler returns is dropped.
	// [AckTx] returns it too, wrapped.
	ErrLeaseLost = errors.New("lease lost")

	// ErrCancelled is the cause when somebody cancelled the job while it ran. The job is gone; what the handler returns
	// is dropped.
	ErrCancelled = errors.New("job cancelled")

	// ErrTimeout is the cause when the attempt took longer than Options.Timeout. What the handler returns counts.
	ErrTimeout = errors.New("handler timed out")

	// ErrShutdown is the cause when the worker stops and the time for running jobs to finish is over. What the handler
	// returns counts.
	ErrShutdown = errors.New("worker is shutting down")
)

// ErrNoJob is returned by [AckTx] when its context is not that of a handler run by a worker.
var ErrNoJob = errors.New("context carries no claimed job")
