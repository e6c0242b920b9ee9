// Package pgxtx enqueues and acknowledges jobs inside transactions of pgx, so that what a program writes to its own tables
// and its jobs are committed together. Programs on database/sql need none of it: see queue.Client.EnqueueTx.
//
// In a handler, handlers.AckWithin(ctx, pgxtx.Of(tx)) ends the job of the handler.
package pgxtx

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/alkstore/alkworker/queue"
)

// Of makes tx a transaction that the methods named Within take. It must be on the database of the client.
func Of(tx pgx.Tx) queue.Tx {
	if tx == nil {
		return queue.Tx{} // is refused as such, which an interface with a nil in it would not be
	}
	return queue.NewTx(tx)
}

// Enqueue is queue.Queue.EnqueueTx for a transaction of pgx: the job exists exactly if that commits.
func Enqueue[T any](
	ctx context.Context, c *queue.Client, tx pgx.Tx, q *queue.Queue[T], v T, o *queue.EnqueueOptions,
) (int64, error) {
	ids, err := EnqueueMany(ctx, c, tx, q, []T{v}, o)
	if err != nil {
		return 0, err
	}
	return ids[0], nil
}

// EnqueueMany is queue.Queue.EnqueueManyTx for a transaction of pgx: all jobs or none, ids in order.
func EnqueueMany[T any](
	ctx context.Context, c *queue.Client, tx pgx.Tx, q *queue.Queue[T], vs []T, o *queue.EnqueueOptions,
) ([]int64, error) {
	jobs := make([]queue.NewJob, len(vs))
	for i, v := range vs {
		var err error
		if jobs[i], err = q.Job(v, o); err != nil {
			return nil, err
		}
	}
	return c.EnqueueWithin(ctx, Of(tx), jobs...)
}

// Ack is queue.Client.AckTx for a transaction of pgx: the jobs end exactly if that commits. Roll back if an answer is
// false.
func Ack(ctx context.Context, c *queue.Client, tx pgx.Tx, handles ...queue.Handle) ([]bool, error) {
	return c.AckWithin(ctx, Of(tx), handles...)
}
