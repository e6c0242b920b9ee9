package queue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// EnqueueOptions are what one call of an enqueue operation asks for. The zero value means: ready now, never expires,
// priority 0, and the options of the queue.
type EnqueueOptions struct {
	// Delay is how long the job waits before it is ready. Zero means none; it wins over RunAt when both are given. // E3
	Delay time.Duration
	// RunAt is when the job is ready; a fraction of a second is rounded up. The zero time means now, and so does a time
	// in the past, except that among ready jobs the one with the earlier RunAt is claimed first. It must be within the
	// years 1970 to 9999.
	RunAt time.Time
	// Expires is how long after this moment, whatever the delay, the job is worth running; what is left then goes to the
	// dead letters as "expired". Zero means always. ErrExpiresFirst if the job would not be ready by then. // E4
	Expires time.Duration
	// Priority orders claims: higher first. Any int is allowed, but use few different ones: a claim looks at each in which
	// jobs of the queue wait, which takes microseconds, and seconds where there are a hundred thousand.
	Priority int
	// The stamps override those of the queue; zero keeps them.
	VisibilityTimeout   time.Duration
	MaxAttempts         int
	BackoffBase         time.Duration // NoBackoff: at once
	DeadLetterRetention time.Duration // KeepForever: no end
}

// stamps are the four overrides.
func (o EnqueueOptions) stamps() Options {
	return Options{
		VisibilityTimeout:   o.VisibilityTimeout,
		MaxAttempts:         o.MaxAttempts,
		BackoffBase:         o.BackoffBase,
		DeadLetterRetention: o.DeadLetterRetention,
	}
}

// Validate reports everything that is wrong with the options together. Each problem is an ErrInvalid.
func (o EnqueueOptions) Validate() error {
	var problems []error
	if o.Delay < 0 {
		problems = append(problems, invalidf("delay %v is negative", o.Delay))
	}
	if !o.RunAt.IsZero() {
		if s := ceilUnix(o.RunAt); s < 0 || s > maxUnix {
			problems = append(problems, invalidf("run-at time %s is not within the years 1970 to 9999",
				o.RunAt.UTC().Format(time.RFC3339)))
		}
	}
	if o.Expires < 0 {
		problems = append(problems, invalidf("expiry %v is negative", o.Expires))
	}
	return errors.Join(errors.Join(problems...), o.stamps().Validate()) // an append would allocate for each job
}

// maxUnix is the last second of the year 9999, the last that RFC 3339 can write.
const maxUnix = 253402300799

func ceilUnix(t time.Time) int64 {
	s := t.Unix()
	if t.Nanosecond() > 0 {
		s++
	}
	return s
}

// NewJob is one job to enqueue, without a type. Queue.Job makes one of a typed value.
type NewJob struct {
	Queue          string
	Payload        []byte  // any bytes, kept exactly; nil is the same as empty
	Options        Options // the queue's; zero fields mean the defaults
	EnqueueOptions EnqueueOptions
}

// validate reports everything that is wrong with the job.
func (j *NewJob) validate(maxPayload int) error {
	problems := []error{ValidateName(j.Queue), j.Options.Validate(), j.EnqueueOptions.Validate()}
	if len(j.Payload) > maxPayload {
		problems = append(problems, fmt.Errorf("%w: %d bytes, limit %d", ErrPayloadTooLarge, len(j.Payload), maxPayload))
	}
	return errors.Join(problems...)
}

// row resolves a valid job into what is stored.
func (j *NewJob) row() sqlstore.NewJob {
	e, o := &j.EnqueueOptions, j.Options
	if e.VisibilityTimeout != 0 {
		o.VisibilityTimeout = e.VisibilityTimeout
	}
	if e.MaxAttempts != 0 {
		o.MaxAttempts = e.MaxAttempts
	}
	if e.BackoffBase != 0 {
		o.BackoffBase = e.BackoffBase
	}
	if e.DeadLetterRetention != 0 {
		o.DeadLetterRetention = e.DeadLetterRetention
	}
	row := sqlstore.NewJob{
		Queue:    j.Queue,
		Payload:  j.Payload,
		Priority: int64(e.Priority),
		DelayS:   Seconds(e.Delay),
		Stamps:   o.Stamps(),
	}
	if row.Payload == nil {
		row.Payload = []byte{} // a nil slice would be stored as NULL
	}
	if e.Delay == 0 && !e.RunAt.IsZero() { // E3
		at := ceilUnix(e.RunAt)
		row.RunAt = &at
	}
	if e.Expires != 0 {
		expires := Seconds(e.Expires)
		row.ExpiresS = &expires
	}
	return row
}

// Enqueue stores jobs, of one queue or several, all or none, and returns their ids in order. // E6
func (c *Client) Enqueue(ctx context.Context, jobs ...NewJob) ([]int64, error) {
	return c.enqueue(jobs, func(rows []sqlstore.NewJob) ([]int64, error) { return c.store.Enqueue(ctx, rows) })
}

// EnqueueTx is Enqueue inside the caller's own transaction on the same database: the jobs exist exactly if that commits,
// and can be claimed from then on. // E5
func (c *Client) EnqueueTx(ctx context.Context, tx *sql.Tx, jobs ...NewJob) ([]int64, error) {
	return c.enqueue(jobs, func(rows []sqlstore.NewJob) ([]int64, error) {
		if tx == nil {
			return nil, invalidf("transaction is nil")
		}
		return c.store.EnqueueTx(ctx, tx, rows)
	})
}

// EnqueueWithin is EnqueueTx for a transaction that database/sql knows nothing of: see package pgxtx.
func (c *Client) EnqueueWithin(ctx context.Context, tx Tx, jobs ...NewJob) ([]int64, error) {
	return c.enqueue(jobs, func(rows []sqlstore.NewJob) ([]int64, error) {
		if tx.tx == nil {
			return nil, invalidf("transaction is nil")
		}
		return c.store.EnqueueTx(ctx, tx.tx, rows)
	})
}

func (c *Client) enqueue(jobs []NewJob, store func([]sqlstore.NewJob) ([]int64, error)) ([]int64, error) {
	const op = "enqueue"
	if len(jobs) == 0 {
		return nil, nil
	}
	queue := commonQueue(jobs)
	if err := c.validateAll(jobs); err != nil {
		return nil, failed(op, queue, 0, err)
	}
	rows := make([]sqlstore.NewJob, len(jobs))
	for i := range jobs {
		rows[i] = jobs[i].row()
	}
	ids, err := store(rows)
	if err != nil {
		return nil, failed(op, queue, 0, err)
	}
	return ids, nil
}

// maxReported keeps the error of a large call readable.
const maxReported = 10

func (c *Client) validateAll(jobs []NewJob) error {
	if len(jobs) == 1 {
		return jobs[0].validate(c.cfg.MaxPayload)
	}
	var problems []error
	for i := range jobs {
		err := jobs[i].validate(c.cfg.MaxPayload)
		if err == nil {
			continue
		}
		if len(problems) == maxReported {
			problems = append(problems, invalidf("and more: only the first %d jobs are named", maxReported))
			break
		}
		problems = append(problems, fmt.Errorf("jobs[%d]: %w", i, err))
	}
	return errors.Join(problems...)
}

// commonQueue is the queue of all the jobs, or empty if they have several.
func commonQueue(jobs []NewJob) string {
	for i := range jobs {
		if jobs[i].Queue != jobs[0].Queue {
			return ""
		}
	}
	return jobs[0].Queue
}
