package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"slices"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// ClaimBatch implements [sqlstore.Claims].
func (s *Store) ClaimBatch(ctx context.Context, c sqlstore.Claim) (rows []sqlstore.Row, err error) {
	if c.Limit < 1 {
		return nil, nil // SQLite takes a negative LIMIT for none at all
	}
	err = s.writing(ctx, ordinary, int(c.Limit), func(ctx context.Context, t *tx) error {
		rows, err = t.claim(ctx, c)
		return err
	})
	return unlessFailed(rows, fail("claim from", c.Queue, 0, err))
}

// kinds are the values of :kind in claim.sql.
var kinds = map[sqlstore.ClaimKind]string{
	sqlstore.AnyJob: "any", sqlstore.OnlyProven: "proven", sqlstore.OnlySuspects: "suspects",
}

func (t *tx) claim(ctx context.Context, c sqlstore.Claim) ([]sqlstore.Row, error) {
	var paused bool
	if _, err := t.one(ctx, "paused", []any{&paused}, sql.Named("queue", c.Queue)); err != nil || paused {
		return nil, err
	}
	if err := t.buryExhausted(ctx, c); err != nil {
		return nil, err
	}
	rows, err := t.rows(ctx, "claim",
		sql.Named("queue", c.Queue),
		sql.Named("claimant", c.Claimant),
		sql.Named("limit", c.Limit),
		sql.Named("kind", kinds[c.Kind]),
		sql.Named("now", t.now),
	)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	ids := make([]int64, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	if _, err := t.exec(ctx, "claim_take",
		sql.Named("claimant", c.Claimant),
		sql.Named("now", t.now),
		sql.Named("ids", jsonOf(ids)),
	); err != nil {
		return nil, err
	}
	// The order of a subquery is not one of the whole.
	slices.SortFunc(rows, func(a, b sqlstore.Row) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.RunAt, b.RunAt), cmp.Compare(a.ID, b.ID))
	})
	var lapsed []failure
	for _, r := range rows {
		if r.LapsedFence > 0 && r.LapsedFence == r.Fence-1 {
			lapsed = append(lapsed, failure{id: r.ID, fence: r.LapsedFence, attempt: r.Attempts - 1, text: c.LapsedText})
		}
	}
	return rows, t.recordFailures(ctx, lapsed)
}

// buryExhausted is C6: whoever would be handed a job without attempts buries it instead.
func (t *tx) buryExhausted(ctx context.Context, c sqlstore.Claim) error {
	var deaths []death
	var lapsed []failure
	err := t.query(ctx, "claim_exhausted", func(rows *sql.Rows) error {
		var f failure
		var wasLapsed bool
		if err := rows.Scan(&f.id, &f.fence, &f.attempt, &wasLapsed); err != nil {
			return err
		}
		deaths = append(deaths, death{id: f.id, text: c.ExhaustedText})
		if wasLapsed {
			f.text = c.LapsedText
			lapsed = append(lapsed, f)
		}
		return nil
	}, sql.Named("queue", c.Queue), sql.Named("now", t.now), sql.Named("limit", bite))
	if err != nil {
		return err
	}
	if err := t.recordFailures(ctx, lapsed); err != nil {
		return err
	}
	return t.bury(ctx, deaths)
}

// NextReady implements [sqlstore.Claims].
func (s *Store) NextReady(ctx context.Context, queues []string) (now int64, next map[string]int64, err error) {
	next = make(map[string]int64, len(queues))
	err = s.reading(ctx, func(clock int64) error {
		now = clock
		for _, q := range queues {
			var at integer
			if _, err := s.read.one(ctx, "next_ready", []any{&at}, sql.Named("queue", q), sql.Named("now", now)); err != nil {
				return fail("look for work in", q, 0, err)
			}
			if at.known {
				next[q] = at.value
			}
		}
		return nil
	})
	if err != nil {
		return 0, nil, fail("look for work in", sole(queues), 0, err)
	}
	return now, next, nil
}

// Idle implements [sqlstore.Claims].
func (s *Store) Idle(ctx context.Context, queues []string) (idle bool, err error) {
	err = s.reading(ctx, func(now int64) error {
		_, err := s.read.one(ctx, "idle", []any{&idle}, sql.Named("queues", jsonOf(queues)), sql.Named("now", now))
		return err
	})
	return idle && err == nil, fail("look for idleness of", sole(queues), 0, err)
}

// sole is the queue that an operation is about if it is about one.
func sole(queues []string) string {
	if len(queues) == 1 {
		return queues[0]
	}
	return ""
}
