package sqlite

import (
	"context"
	"database/sql"
	"math"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// GetJob implements [sqlstore.Jobs].
func (s *Store) GetJob(ctx context.Context, id int64) (row *sqlstore.Row, err error) {
	err = s.snapshot(ctx, []string{"get_live", "get_dead", "payload", "failures"}, func(on *session) error {
		for _, table := range []string{"get_live", "get_dead"} {
			found, err := on.rows(ctx, table, wholeRows(), 1, sql.Named("id", id))
			if err != nil {
				return err
			}
			if len(found) > 0 {
				row = &found[0]
				break
			}
		}
		if row == nil {
			return nil
		}
		return on.query(ctx, "failures", func(rows *sql.Rows) error {
			var attempt, at integer
			var text, stack sql.NullString
			err := rows.Scan(&attempt, &at, &text, &stack)
			row.Failures = append(row.Failures, sqlstore.Failure{
				Attempt: attempt.value, At: at.value, Error: text.String, Stack: stack.String,
			})
			return err
		}, sql.Named("id", id))
	})
	if err != nil {
		return nil, fail("get", "", id, err)
	}
	return row, nil
}

// window is how many of the newest jobs are worth a look before an index is asked for those of one queue.
const window = 2000

// ListJobs implements [sqlstore.Jobs].
func (s *Store) ListJobs(ctx context.Context, f sqlstore.Filter) (page []sqlstore.Row, err error) {
	if f.Limit < 1 {
		return nil, nil // SQLite takes a negative LIMIT for none at all
	}
	upto := int64(math.MaxInt64)
	if f.Before != 0 {
		upto = f.Before - 1
	}
	err = s.snapshot(ctx, []string{"list", "payload_preview"}, func(on *session) error {
		var spilled []int
		read := wholeRows()
		err := on.query(ctx, "list", func(rows *sql.Rows) error {
			r, out, err := read(rows)
			if out {
				spilled = append(spilled, len(page))
			}
			page = append(page, r)
			return err
		},
			sql.Named("upto", upto), sql.Named("queue", f.Queue), sql.Named("state", string(f.State)),
			sql.Named("limit", f.Limit), sql.Named("window", max(window, f.Limit)), sql.Named("payload_limit", f.PayloadLimit),
		)
		if err != nil {
			return err
		}
		for _, i := range spilled {
			_, err := on.one(ctx, "payload_preview", []any{&page[i].Payload},
				sql.Named("id", page[i].ID), sql.Named("payload_limit", f.PayloadLimit))
			if err != nil {
				return err
			}
			if page[i].Payload == nil {
				page[i].Payload = []byte{} // the driver reads an empty blob as nil
			}
		}
		return nil
	})
	return unlessFailed(page, fail("list", f.Queue, 0, err))
}

// Stats implements [sqlstore.Jobs].
func (s *Store) Stats(ctx context.Context) (stats []sqlstore.QueueStats, err error) {
	err = s.reading(ctx, func(now int64) error {
		return s.read.query(ctx, "stats", func(rows *sql.Rows) error {
			var q sqlstore.QueueStats
			var oldest integer
			err := rows.Scan(&q.Queue, &q.Ready, &q.Delayed, &q.Processing, &q.Dead, &oldest, &q.Workers, &q.Paused)
			q.OldestReadyS = oldest.pointer()
			stats = append(stats, q)
			return err
		}, sql.Named("now", now))
	})
	return unlessFailed(stats, fail("read stats", "", 0, err))
}

// Queues implements [sqlstore.Jobs].
func (s *Store) Queues(ctx context.Context) (queues []string, err error) {
	err = s.reading(ctx, func(int64) error {
		return s.read.query(ctx, "queues", func(rows *sql.Rows) error {
			var q string
			err := rows.Scan(&q)
			queues = append(queues, q)
			return err
		})
	})
	return unlessFailed(queues, fail("list queues", "", 0, err))
}
