package postgres

import (
	"context"
	"math"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// GetJob implements [sqlstore.Jobs].
func (s *Store) GetJob(ctx context.Context, id int64) (found *sqlstore.Row, err error) {
	err = s.reading(ctx, prompt, step{"get", args{"id": id}, func(row scanner) error {
		var attempts, times []int64
		var texts, stacks []string
		r, err := scanRow(row, &attempts, &times, &texts, &stacks)
		for i := range attempts {
			r.Failures = append(r.Failures, sqlstore.Failure{
				Attempt: attempts[i], At: times[i], Error: texts[i], Stack: stacks[i],
			})
		}
		found = &r
		return err
	}})
	if err != nil {
		return nil, fail("get", "", id, err)
	}
	return found, nil
}

// window is how many of the newest jobs are worth a look before an index is asked for those of one queue.
const window = 2000

// ListJobs implements [sqlstore.Jobs].
func (s *Store) ListJobs(ctx context.Context, f sqlstore.Filter) (page []sqlstore.Row, err error) {
	upto := int64(math.MaxInt64)
	if f.Before != 0 {
		upto = f.Before - 1
	}
	err = s.reading(ctx, slow, step{"list", args{
		"upto": upto, "queue": f.Queue, "state": string(f.State), "limit": max(f.Limit, 0), "window": max(window, f.Limit),
		"payload_limit": int32(min(max(f.PayloadLimit, 0), math.MaxInt32)),
	}, collect(&page)})
	return unlessFailed(page, fail("list", f.Queue, 0, err))
}

// Stats implements [sqlstore.Jobs].
func (s *Store) Stats(ctx context.Context) (stats []sqlstore.QueueStats, err error) {
	err = s.reading(ctx, slow, step{"stats", nil, func(row scanner) error {
		var q sqlstore.QueueStats
		err := row.Scan(&q.Queue, &q.Ready, &q.Delayed, &q.Processing, &q.Dead, &q.OldestReadyS, &q.Workers, &q.Paused)
		stats = append(stats, q)
		return err
	}})
	return unlessFailed(stats, fail("read stats", "", 0, err))
}

// Queues implements [sqlstore.Jobs].
func (s *Store) Queues(ctx context.Context) (queues []string, err error) {
	err = s.reading(ctx, slow, step{"queues", nil, func(row scanner) error {
		var q string
		err := row.Scan(&q)
		queues = append(queues, q)
		return err
	}})
	return unlessFailed(queues, fail("list queues", "", 0, err))
}
