package queue

import (
	"context"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// biteSize is how many dead jobs one transaction of a bulk operation takes, so that none holds the database for long.
const biteSize = 1000

// DeadFilter selects dead jobs. Zero fields do not restrict.
type DeadFilter struct {
	Queue     string
	OlderThan time.Duration // only those that have been dead for at least this long
}

// Requeue moves dead jobs back to pending, ready now, with all attempts before them and no expiry, and says which there
// were. A job keeps its id, stamps and history. // D4
func (c *Client) Requeue(ctx context.Context, ids ...int64) ([]bool, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := c.store.Requeue(ctx, ids)
	if err != nil {
		return nil, failed("requeue", "", idIfOne(len(ids), ids[0]), err)
	}
	return found, nil
}

// RequeueAll requeues every dead job that matches and says how many. Jobs that die after the call began are left alone.
// It works in bites of 1,000: after an error, what was done before it stays done and is counted. ErrBusy if all is done but
// what other transactions have locked. // D4
func (c *Client) RequeueAll(ctx context.Context, f DeadFilter) (int, error) {
	return c.inBites(ctx, "requeue", f, c.store.RequeueMatching)
}

// Purge deletes dead jobs and says which there were. // D4
func (c *Client) Purge(ctx context.Context, ids ...int64) ([]bool, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := c.store.Purge(ctx, ids)
	if err != nil {
		return nil, failed("purge", "", idIfOne(len(ids), ids[0]), err)
	}
	return found, nil
}

// PurgeAll deletes every dead job that matches and says how many. It works like RequeueAll. // D4
func (c *Client) PurgeAll(ctx context.Context, f DeadFilter) (int, error) {
	return c.inBites(ctx, "purge", f, c.store.PurgeMatching)
}

func (c *Client) inBites(
	ctx context.Context, op string, f DeadFilter,
	bite func(context.Context, sqlstore.DeadFilter, int64) (int64, error),
) (int, error) {
	if f.OlderThan < 0 {
		return 0, failed(op, f.Queue, 0, invalidf("age %v is negative", f.OlderThan))
	}
	began, err := c.store.Now(ctx)
	if err != nil {
		return 0, failed(op, f.Queue, 0, err)
	}
	age, done := Seconds(f.OlderThan), 0
	for now := began; ; {
		// Without this bound, jobs that are requeued, fail at once and are the oldest dead ones again would keep the loop
		// going for ever.
		since := age + max(now-began, 0)
		n, err := bite(ctx, sqlstore.DeadFilter{Queue: f.Queue, OlderThanS: &since}, biteSize)
		done += clampInt(n)
		if err == nil && n == biteSize {
			now, err = c.store.Now(ctx)
		}
		if err != nil || n < biteSize {
			return done, failed(op, f.Queue, 0, err)
		}
	}
}

// Swept counts what one sweep of one queue did.
type Swept struct {
	Expired  int // moved to the dead letters
	Dropped  int // dead and past their retention
	Repaired int // processing rows that had no deadline
}

// Sweep moves what has expired in one queue to the dead letters, pending and processing alike, with the text "expired",
// deletes dead jobs past their retention, and makes processing rows without a deadline claimable. It takes any name that
// Queues gives, also one that no job may have, such as a row edited by hand has. After an error, what was done before it
// stays done and is counted. // D2 K3
func (c *Client) Sweep(ctx context.Context, queue string) (Swept, error) {
	s, err := c.store.SweepExpired(ctx, queue, TextExpired)
	swept := Swept{Expired: clampInt(s.Expired), Dropped: clampInt(s.Dropped), Repaired: clampInt(s.Repaired)}
	return swept, failed("sweep", queue, 0, err)
}
