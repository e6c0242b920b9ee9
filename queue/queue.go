package queue

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
)

// Queue is one queue: its name, the type of its payloads and its options. Define it once, in a package that both the
// producer and the handler import, so that the compiler checks the payload on both sides. It is immutable and may be
// used from any number of goroutines.
type Queue[T any] struct {
	name    string
	options Options
	encode  func(T) ([]byte, error)
	decode  func([]byte) (T, error)
}

// Define makes a queue whose payloads are values of T, stored as JSON. Zero options mean the defaults. It panics on an
// invalid name or invalid options, which are mistakes in the program.
func Define[T any](name string, o Options) *Queue[T] {
	return define(name, o,
		func(v T) ([]byte, error) { return json.Marshal(v) },
		func(payload []byte) (v T, err error) { err = json.Unmarshal(payload, &v); return v, err },
	)
}

// DefineRaw makes a queue whose payloads are bytes of any kind, stored exactly as they are. It panics like Define.
func DefineRaw(name string, o Options) *Queue[[]byte] {
	return define(name, o,
		func(v []byte) ([]byte, error) { return v, nil },
		func(payload []byte) ([]byte, error) { return slices.Clone(payload), nil },
	)
}

func define[T any](name string, o Options, encode func(T) ([]byte, error), decode func([]byte) (T, error)) *Queue[T] {
	if err := ValidateName(name); err != nil {
		panic("queue: Define: " + err.Error())
	}
	if err := o.Validate(); err != nil {
		panic(fmt.Sprintf("queue: Define %q: %v", name, err))
	}
	return &Queue[T]{name: name, options: o.Resolved(), encode: encode, decode: decode}
}

// Name returns the queue's name.
func (q *Queue[T]) Name() string { return q.name }

// Options returns the queue's options with the defaults filled in.
func (q *Queue[T]) Options() Options { return q.options }

// Decode makes a value of a job's payload. The error names the queue and the type.
func (q *Queue[T]) Decode(payload []byte) (T, error) {
	v, err := q.decode(payload)
	if err != nil {
		var zero T
		err = fmt.Errorf("payload of %d bytes is no %v: %w", len(payload), reflect.TypeFor[T](), err)
		return zero, &Error{Op: "decode", Queue: q.name, Err: err}
	}
	return v, nil
}

// Job makes a job that Client.Enqueue takes, so that jobs of different queues can be enqueued together. A nil o means
// the queue's options. What o holds is checked when the job is enqueued.
func (q *Queue[T]) Job(v T, o *EnqueueOptions) (NewJob, error) {
	payload, err := q.encode(v)
	if err != nil {
		return NewJob{}, &Error{Op: "encode", Queue: q.name, Err: fmt.Errorf("%v as payload: %w", reflect.TypeFor[T](), err)}
	}
	job := NewJob{Queue: q.name, Payload: payload, Options: q.options}
	if o != nil {
		job.EnqueueOptions = *o
	}
	return job, nil
}

// Enqueue stores one job and returns its id. A nil o means the queue's options.
func (q *Queue[T]) Enqueue(ctx context.Context, c *Client, v T, o *EnqueueOptions) (int64, error) {
	ids, err := q.EnqueueMany(ctx, c, []T{v}, o)
	if err != nil {
		return 0, err
	}
	return ids[0], nil
}

// EnqueueTx is Enqueue inside the caller's own transaction on the same database: the job exists exactly if that
// commits, and can be claimed from then on. // E5
func (q *Queue[T]) EnqueueTx(ctx context.Context, c *Client, tx *sql.Tx, v T, o *EnqueueOptions) (int64, error) {
	ids, err := q.EnqueueManyTx(ctx, c, tx, []T{v}, o)
	if err != nil {
		return 0, err
	}
	return ids[0], nil
}

// EnqueueMany stores one job for each value, all or none, and returns their ids in order. // E6
func (q *Queue[T]) EnqueueMany(ctx context.Context, c *Client, vs []T, o *EnqueueOptions) ([]int64, error) {
	jobs, err := q.jobs(vs, o)
	if err != nil {
		return nil, err
	}
	return c.Enqueue(ctx, jobs...)
}

// EnqueueManyTx is EnqueueMany inside the caller's own transaction on the same database.
func (q *Queue[T]) EnqueueManyTx(
	ctx context.Context, c *Client, tx *sql.Tx, vs []T, o *EnqueueOptions,
) ([]int64, error) {
	jobs, err := q.jobs(vs, o)
	if err != nil {
		return nil, err
	}
	return c.EnqueueTx(ctx, tx, jobs...)
}

func (q *Queue[T]) jobs(vs []T, o *EnqueueOptions) ([]NewJob, error) {
	jobs := make([]NewJob, len(vs))
	for i, v := range vs {
		var err error
		if jobs[i], err = q.Job(v, o); err != nil {
			return nil, err
		}
	}
	return jobs, nil
}
