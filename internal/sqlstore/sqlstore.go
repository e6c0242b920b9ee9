// Package sqlstore is the floor of the house: tables and the statements on them.
//
// A [Store] takes resolved, primitive values and answers with primitive values. It has no defaults, no texts of its
// own, no retry curve and no schedule grammar: those belong to package queue and package scheduler above it. What it
// does own is atomicity and time. Every method is one transaction that happens wholly or not at all, and every "now" is
// the database's own clock, in whole Unix seconds.
//
// The dialects live in the packages below this one, all behind [Store] and all proven by package storetest.
package sqlstore

import (
	"context"
	"time"
)

// MaxCatchUpFires is the most jobs that one tick enqueues for one schedule, however many boundaries were missed.
const MaxCatchUpFires = 64

// MaxFailures is how many failed attempts the history of one job holds; the oldest go first.
const MaxFailures = 10

// Store is one open database. All methods may be called from any number of goroutines.
//
// A method that takes a slice answers for each element in the same order. A false or a zero [Verdict] is the value "that
// claim does not hold, nothing was changed"; it is never an error. An error means that nothing was changed at all, with
// the one exception that a failed commit may have happened: repeating the same call is always safe, since every
// operation on a claim is fenced.
type Store interface {
	Jobs
	Claims
	Schedules
	Fleet

	// Now reads the store's clock.
	Now(ctx context.Context) (int64, error)

	// Watch calls wake whenever new work may have become claimable, until ctx ends, whose error it then returns. The
	// queue is named when known and empty otherwise. Changes made through this Store are seen at once; those of other
	// processes at the latest after poll. Signals may be spurious and are never a substitute for NextReady.
	// wake is called from one goroutine at a time and must not block.
	Watch(ctx context.Context, poll time.Duration, wake func(queue string)) error

	// Check reads the whole database and names every inconsistency it finds; none is an empty slice.
	Check(ctx context.Context) ([]Problem, error)

	// Repair mends what Check finds, as far as that can be done without losing a job, and returns what it has mended. A job
	// may lose a claim, get stamps and times by default, or run once more. What Check still finds needs a person.
	Repair(ctx context.Context) ([]Problem, error)

	// Backup writes a consistent copy of the live database to a file that must not exist yet.
	// ErrUnsupported where the database is not a file.
	Backup(ctx context.Context, path string) error

	// Close waits for calls in progress and releases everything. Every later call answers ErrClosed.
	Close() error
}

// Jobs are the operations that need no claim.
type Jobs interface {
	// Enqueue stores all of jobs or none and returns their ids in order.
	// ErrExpiresFirst when a job would expire before it is ready.
	Enqueue(ctx context.Context, jobs []NewJob) ([]int64, error)

	// EnqueueTx is Enqueue inside a transaction of the caller on the same database: the jobs exist exactly if it
	// commits. ErrUnsupported if the store does not know the type of tx.
	EnqueueTx(ctx context.Context, tx Tx, jobs []NewJob) ([]int64, error)

	// GetJob returns the pending, processing or dead job with its payload and failures, and nil if there is none.
	GetJob(ctx context.Context, id int64) (*Row, error)

	// ListJobs returns jobs newest first, without failures and with at most f.PayloadLimit bytes of payload.
	ListJobs(ctx context.Context, f Filter) ([]Row, error)

	// Stats has one element for each queue that has jobs, a worker or a pause, ordered by name.
	Stats(ctx context.Context) ([]QueueStats, error)

	// Cancel deletes pending and processing jobs and says which there were.
	Cancel(ctx context.Context, ids []int64) ([]bool, error)

	// Requeue moves dead jobs back to pending and says which there were.
	Requeue(ctx context.Context, ids []int64) ([]bool, error)

	// RequeueMatching moves up to limit dead jobs back to pending, oldest id first, and says how many, also along with an
	// error. ErrBusy if what is left within the limit has been locked by others for too long.
	RequeueMatching(ctx context.Context, f DeadFilter, limit int64) (int64, error)

	// Purge deletes dead jobs and says which there were.
	Purge(ctx context.Context, ids []int64) ([]bool, error)

	// PurgeMatching deletes up to limit dead jobs, oldest id first, and answers like RequeueMatching.
	PurgeMatching(ctx context.Context, f DeadFilter, limit int64) (int64, error)

	// SetPaused stops or resumes claims of a queue, whether or not it has jobs. Running jobs are not touched.
	SetPaused(ctx context.Context, queue string, paused bool) error

	// SweepExpired moves what has expired in one queue to the dead letters with the given text, drops dead jobs past
	// their retention, and makes processing rows without a deadline reclaimable. What was done before an error counts.
	SweepExpired(ctx context.Context, queue, text string) (Swept, error)

	// Queues names every queue that has live or dead jobs, ordered by name.
	Queues(ctx context.Context) ([]string, error)
}

// Claims are claiming and the operations on a claim. All of the latter share one predicate: the row is processing, its
// fence is the handle's, and now <= its deadline.
type Claims interface {
	// ClaimBatch hands out up to c.Limit jobs in claim order. Jobs that are claimable but have spent their attempts go
	// to the dead letters instead. A paused queue hands out nothing.
	ClaimBatch(ctx context.Context, c Claim) ([]Row, error)

	// NextReady says when each of the queues next has something to claim: a time at or before now if it has, absent if
	// nothing waits or the queue is paused.
	NextReady(ctx context.Context, queues []string) (now int64, next map[string]int64, err error)

	// Idle says whether none of the queues has a job that is processing, or that is pending and either ready or tried
	// before, unless its queue is paused.
	Idle(ctx context.Context, queues []string) (bool, error)

	// AckBatch deletes jobs that are done.
	AckBatch(ctx context.Context, handles []Handle) ([]bool, error)

	// AckBatchTx is AckBatch inside a transaction of the caller on the same database.
	// ErrUnsupported if the store does not know the type of tx.
	AckBatchTx(ctx context.Context, tx Tx, handles []Handle) ([]bool, error)

	// Heartbeat moves deadlines to now + the extension. It is never queued behind other calls on this Store.
	Heartbeat(ctx context.Context, extensions []Extension) ([]bool, error)

	// Retry ends attempts that may be repeated: back to pending, or to the dead letters if none are left.
	Retry(ctx context.Context, retries []Retrial) ([]Verdict, error)

	// Fail ends jobs for good: to the dead letters, whatever attempts are left.
	Fail(ctx context.Context, failures []Failing) ([]bool, error)

	// Release hands jobs back without spending the attempt.
	Release(ctx context.Context, releases []Releasing) ([]bool, error)
}

// Schedules are rows that fire jobs.
type Schedules interface {
	// Register reads the schedule of that name, nil if there is none, and stores what change makes of it, under the
	// row's lock. change is called once with the store's clock, must be pure and quick, and must not use the store; its
	// error is returned and nothing is stored. It returns nil to leave things as they are.
	Register(ctx context.Context, name string, change func(now int64, have *Schedule) (*Schedule, error)) error

	// Unregister removes a schedule and says whether there was one. Jobs it has fired stay.
	Unregister(ctx context.Context, name string) (bool, error)

	// ListSchedules returns all schedules ordered by name.
	ListSchedules(ctx context.Context) ([]Schedule, error)

	// Soonest returns the clock and the earliest NextFireAt of all schedules that are not paused; nil if there is none.
	Soonest(ctx context.Context) (now int64, next *int64, err error)

	// Tick fires each schedule that is due and not paused, each in a transaction of its own: plan says which boundaries
	// to enqueue and when the next one is. plan follows the rules of Register's change. Its error leaves that schedule
	// as it is and is reported in its Ticked; the others go on. The error of Tick itself means that the store failed.
	Tick(ctx context.Context, plan func(now int64, due Schedule) (Plan, error)) ([]Ticked, error)

	// FireNow enqueues one job of a schedule, paused or not, for the moment of the call. NextFireAt does not move.
	// False if there is no such schedule. check, which follows the rules of Register's change, may refuse: then nothing
	// happens, and its error is returned.
	FireNow(ctx context.Context, name string, check func(s Schedule) error) (id int64, ok bool, err error)
}

// Fleet is what workers know of one another.
type Fleet interface {
	// Lead takes or renews a lock for ttl seconds. It succeeds if the lock is free, expired, or the owner's already.
	Lead(ctx context.Context, lock, owner string, ttlS int64) (bool, error)

	// Resign frees a lock if it is the owner's.
	Resign(ctx context.Context, lock, owner string) error

	// Announce records for ttl seconds that a worker serves exactly these queues.
	Announce(ctx context.Context, worker string, queues []string, ttlS int64) error

	// Withdraw forgets a worker.
	Withdraw(ctx context.Context, worker string) error
}

// Tx is a transaction of the caller. The SQLite store takes a *sql.Tx.
type Tx any
