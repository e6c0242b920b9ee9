package handlers

import (
	"context"
	"errors"
	"fmt"

	"github.com/alkstore/alkworker/queue"
)

// Handle registers fn for the jobs of a typed queue, so that the compiler checks that producer and handler agree on the
// payload. The stamps are those of q: o.Stamps must be zero. The job itself is in the context: [JobFromContext].
//
// A payload that does not decode can never succeed, so the job fails for good without fn being called.
//
// Handle panics as [Registry.Register] does, and if r, q or fn is nil or o.Stamps is set.
func Handle[T any](r *Registry, q *queue.Queue[T], fn func(ctx context.Context, v T) error, o Options) {
	if r == nil || q == nil {
		panic(fmt.Sprintf("handlers: nil registry or queue in Handle at %s", callSite()))
	}
	var problems []error
	if o.Stamps != (queue.Options{}) {
		problems = append(problems, errors.New("Options.Stamps is set; a typed queue has its own"))
	}
	o.Stamps = q.Options()
	var h Handler
	if fn != nil {
		h = HandlerFunc(func(ctx context.Context, job *queue.Job) error {
			v, err := q.Decode(job.Payload)
			if err != nil {
				return Fail(err)
			}
			return fn(ctx, v)
		})
	}
	r.register(q.Name(), h, o, problems)
}
