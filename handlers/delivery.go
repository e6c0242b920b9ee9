package handlers

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"

	"github.com/alkstore/alkworker/queue"
)

// Delivery is one claim on its way through a handler. A worker makes one for each attempt and passes its context on.
// All methods may be called from any number of goroutines.
type Delivery struct {
	client *queue.Client
	job    *queue.Job
	acked  atomic.Bool
}

type deliveryKey struct{}

// NewDelivery returns the delivery of a job that was claimed through c. With a nil c, as in a test of a handler alone,
// [AckTx] answers [ErrNoJob].
func NewDelivery(c *queue.Client, job *queue.Job) *Delivery { return &Delivery{client: c, job: job} }

// Context returns a copy of parent that carries the job. It ends when parent does.
func (d *Delivery) Context(parent context.Context) context.Context {
	return context.WithValue(parent, deliveryKey{}, d)
}

// AckedInTx says whether [AckTx] or [AckWithin] has succeeded for this delivery. Whether that transaction was committed is not known
// here: the worker must not acknowledge such a job itself, or it would lose one whose transaction was rolled back.
func (d *Delivery) AckedInTx() bool { return d.acked.Load() }

// JobFromContext returns the job that the handler of ctx was called for, and nil outside a handler. It is shared: do not
// change it.
func JobFromContext(ctx context.Context) *queue.Job {
	if d, ok := ctx.Value(deliveryKey{}).(*Delivery); ok {
		return d.job
	}
	return nil
}

// AckTx ends the job of the handler that ctx belongs to, inside the transaction tx on the job's own database: what the
// handler wrote in tx and the end of the job are committed together or not at all. So its effects happen exactly once,
// however often the job runs.
//
// Call it once for a transaction, last, commit, and return nil if the commit succeeded. If the transaction is not
// committed, the job is still there and is retried, even if the handler returns nil.
//
// On PostgreSQL the transaction should be READ COMMITTED. A stricter one fails once a heartbeat, or anything else, has
// changed the job since it began; then it has to end within a third of the visibility timeout.
//
// The error wraps [ErrLeaseLost] if the claim no longer holds: another worker may run the job, so roll back and return.
// It is [ErrNoJob] if ctx is not that of a handler. After any error the transaction has to be rolled back.
func AckTx(ctx context.Context, tx *sql.Tx) error {
	return ackBy(ctx, func(d *Delivery) ([]bool, error) { return d.client.AckTx(ctx, tx, d.job.Handle()) })
}

// AckWithin is [AckTx] for a transaction that database/sql knows nothing of: see package pgxtx.
func AckWithin(ctx context.Context, tx queue.Tx) error {
	return ackBy(ctx, func(d *Delivery) ([]bool, error) { return d.client.AckWithin(ctx, tx, d.job.Handle()) })
}

func ackBy(ctx context.Context, ack func(d *Delivery) ([]bool, error)) error {
	d, ok := ctx.Value(deliveryKey{}).(*Delivery)
	if !ok || d.client == nil {
		return ErrNoJob
	}
	held, err := ack(d)
	if cause := context.Cause(ctx); err != nil && (errors.Is(cause, ErrLeaseLost) || errors.Is(cause, ErrCancelled)) {
		held, err = nil, nil // the end of the claim has ended ctx, and that the ack
	}
	if err != nil {
		return err
	}
	if len(held) != 1 || !held[0] {
		return &queue.Error{Op: "ack", Queue: d.job.Queue, JobID: d.job.ID, Err: ErrLeaseLost}
	}
	d.acked.Store(true)
	return nil
}
