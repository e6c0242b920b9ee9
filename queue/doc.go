// Package queue is the engine: what a job is, and every operation on one.
//
// A [Queue] is a name, a payload type and options, defined once and shared by the program that enqueues and the one that
// works. A [Client] is an open database. With both, a producer enqueues; whoever works claims jobs, and ends each claim
// with one of Ack, Retry, Fail or Release. Package runtime does the latter for you; the operations are all here for
// those who want their own loop.
//
// A job is enqueued as [Pending]. A claim makes it [Processing] until its visibility timeout is over, which a heartbeat
// moves; a claim that ends without a word is handed to the next worker, so a handler may run more than once and should
// be idempotent. A job that has spent its attempts, or failed for good, or expired, is [Dead]: it stays in the dead
// letters with its error until it is requeued, purged, or past its retention.
//
// # Time
//
// The database's clock decides, in whole seconds; the clock of the calling process is never compared with a stored time.
// Durations are therefore rounded up to whole seconds on their way in: a delay never ends early and a timeout is never
// shorter than asked for. Only the delays of the retry curve are rounded to the nearest second.
//
// # Errors
//
// Every failed operation is an [*Error] with the operation and, where there is one, the queue or the job. A job that is
// not there, or a claim that no longer holds, is a value (nil, false, [Refused]) and never an error.
package queue
