package postgres

import (
	"context"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// kinds are the values of :kind in claim.sql.
var kinds = map[sqlstore.ClaimKind]string{
	sqlstore.AnyJob: "any", sqlstore.OnlyProven: "proven", sqlstore.OnlySuspects: "suspects",
}

// ClaimBatch implements [sqlstore.Claims].
//
// A claim passes over what other transactions have locked: it never waits, and a job that another claim is just taking
// is as good as taken.
func (s *Store) ClaimBatch(ctx context.Context, c sqlstore.Claim) (rows []sqlstore.Row, err error) {
	err = s.writing(ctx, ordinary, func(ctx context.Context, t *tx) error {
		rows = nil
		return t.run(ctx,
			step{"claim_exhausted", args{ // C6: whoever would be handed a job without attempts buries it instead
				"queue": c.Queue, "exhausted_text": cleaned(c.ExhaustedText), "lapsed_text": cleaned(c.LapsedText),
				"keep": sqlstore.MaxFailures,
			}, nil},
			step{"claim", args{
				"queue": c.Queue, "claimant": cleaned(c.Claimant), "limit": max(c.Limit, 0), "kind": kinds[c.Kind],
				"lapsed_text": cleaned(c.LapsedText), "keep": sqlstore.MaxFailures,
			}, collect(&rows)},
		)
	})
	if err == nil && c.Kind != sqlstore.OnlySuspects {
		s.listener.rivalry.claimed(len(rows) > 0)
	}
	return unlessFailed(rows, fail("claim from", c.Queue, 0, err))
}

// NextReady implements [sqlstore.Claims].
func (s *Store) NextReady(ctx context.Context, queues []string) (now int64, next map[string]int64, err error) {
	next = make(map[string]int64, len(queues))
	err = s.reading(ctx, ordinary, step{"next_ready", args{"queues": texts(queues)}, func(row scanner) error {
		var queue *string
		var at *int64
		err := row.Scan(&now, &queue, &at)
		if queue != nil && at != nil {
			next[*queue] = *at
		}
		return err
	}})
	if err != nil {
		return 0, nil, fail("look for work in", sole(queues), 0, err)
	}
	return now, next, nil
}

// Idle implements [sqlstore.Claims].
func (s *Store) Idle(ctx context.Context, queues []string) (idle bool, err error) {
	err = s.reading(ctx, ordinary, step{"idle", args{"queues": texts(queues)}, func(row scanner) error {
		return row.Scan(&idle)
	}})
	return idle && err == nil, fail("look for idleness of", sole(queues), 0, err)
}

// texts is an array that is never NULL.
func texts(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// sole is the queue that an operation is about if it is about one.
func sole(queues []string) string {
	if len(queues) == 1 {
		return queues[0]
	}
	return ""
}
