package queue

import (
	"context"
	"errors"
	"math"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// Get returns a pending, processing or dead job with its whole payload and its failed attempts, and nil if there is no
// such job. // D3
func (c *Client) Get(ctx context.Context, id int64) (*Job, error) {
	row, err := c.store.GetJob(ctx, id)
	if err != nil {
		return nil, failed("get", "", id, err)
	}
	if row == nil {
		return nil, nil
	}
	return jobOf(row), nil
}

// The values of Filter where it is zero.
const (
	DefaultListLimit        = 100
	DefaultListPayloadLimit = 256 // bytes
)

// Filter selects jobs for List. Zero fields do not restrict.
type Filter struct {
	Queue string
	State State
	// Before selects ids below this one. Give the last id of a page to get the next.
	Before int64
	// Limit is how many jobs to return at most. Zero means 100.
	Limit int
	// PayloadLimit is how many bytes of each payload to return at most; Job.PayloadSize tells whether there are more.
	// Zero means 256; negative means whole payloads.
	PayloadLimit int
}

func (f Filter) validate() error {
	var problems []error
	switch f.State {
	case "", Pending, Processing, Dead:
	default:
		problems = append(problems, invalidf("state %q is none of pending, processing and dead", string(f.State)))
	}
	if f.Before < 0 {
		problems = append(problems, invalidf("before %d is negative", f.Before))
	}
	if f.Limit < 0 {
		problems = append(problems, invalidf("limit %d is negative", f.Limit))
	}
	return errors.Join(problems...)
}

// List returns jobs newest first, with shortened payloads and without their failed attempts.
func (c *Client) List(ctx context.Context, f Filter) ([]*Job, error) {
	const op = "list"
	if err := f.validate(); err != nil {
		return nil, failed(op, f.Queue, 0, err)
	}
	row := sqlstore.Filter{
		Queue:        f.Queue,
		State:        sqlstore.State(f.State),
		Before:       f.Before,
		Limit:        int64(f.Limit),
		PayloadLimit: int64(f.PayloadLimit),
	}
	if row.Limit == 0 {
		row.Limit = DefaultListLimit
	}
	switch {
	case row.PayloadLimit == 0:
		row.PayloadLimit = DefaultListPayloadLimit
	case row.PayloadLimit < 0 || row.PayloadLimit > math.MaxInt32:
		row.PayloadLimit = math.MaxInt32 // no database holds a larger value
	}
	rows, err := c.store.ListJobs(ctx, row)
	if err != nil {
		return nil, failed(op, f.Queue, 0, err)
	}
	return jobsOf(rows), nil
}

// Queues names every queue that has jobs, dead ones included, ordered by name.
func (c *Client) Queues(ctx context.Context) ([]string, error) {
	queues, err := c.store.Queues(ctx)
	return queues, failed("queues", "", 0, err)
}
