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
	err = s.write.do(&call{ctx: ctx, size: int(c.Limit), asks: true, work: func(ctx context.Context, t *tx) error {
		rows, err = t.claim(ctx, c)
		return err
	}}, ordinary)
	return unlessFailed(rows, fail("claim from", c.Queue, 0, err))
}

func (t *tx) claim(ctx context.Context, c sqlstore.Claim) ([]sqlstore.Row, error) {
	levels, open, err := t.survey(ctx, c)
	if err != nil || !open {
		return nil, err
	}
	rows, allReady, err := t.claimable(ctx, c, levels)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	ids := make([]int64, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	if allReady {
		err = t.takeReady(ctx, c, ids)
	} else {
		_, err = t.exec(ctx, "claim_take",
			sql.Named("claimant", c.Claimant), sql.Named("now", t.now), sql.Named("ids", jsonOf(ids)))
	}
	if err != nil {
		return nil, err
	}
	var lapsed []failure
	for _, r := range rows {
		if r.LapsedFence > 0 && r.LapsedFence == r.Fence-1 {
			lapsed = append(lapsed, failure{id: r.ID, fence: r.LapsedFence, attempt: r.Attempts - 1, text: c.LapsedText})
		}
	}
	return rows, t.recordFailures(ctx, lapsed)
}

// survey is how a claim begins: with the time, with the dead, and with the levels, which are the priorities in which jobs may
// be ready, the highest first. There is none for a claim of suspects. A queue that is paused is not open.
//
// A worker that was idle pays for each statement with cold caches. So one answers all that most claims ask.
func (t *tx) survey(ctx context.Context, c sqlstore.Claim) (levels []any, open bool, err error) {
	var now int64
	var highest, lowest any // SQLite keeps whatever a hand edit puts there
	var spent, paused bool
	if _, err := t.one(ctx, "claim_survey", []any{&now, &highest, &lowest, &spent, &paused},
		sql.Named("queue", c.Queue)); err != nil {
		return nil, false, err
	}
	t.itIs(now)
	if paused {
		return nil, false, nil
	}
	if spent {
		if err := t.buryExhausted(ctx, c); err != nil {
			return nil, false, err
		}
	}
	if highest == nil || c.Kind == sqlstore.OnlySuspects {
		return nil, true, nil
	}
	if top, isInt := highest.(int64); isInt && lowest == any(top) {
		return []any{top}, true, nil
	}
	levels, err = t.levels(ctx, c)
	return levels, err == nil, err
}

// takeReady claims jobs that are all ready.
func (t *tx) takeReady(ctx context.Context, c sqlstore.Claim, ids []int64) error {
	_, err := t.each(ctx, "claim_take", "claim_take_span", ids, sql.Named("claimant", c.Claimant), sql.Named("now", t.now))
	return err
}

// claimable is what a claim hands out, in order (C2), and whether ready has found all of it.
func (t *tx) claimable(
	ctx context.Context, c sqlstore.Claim, levels []any,
) (rows []sqlstore.Row, allReady bool, err error) {
	if rows, err = t.ready(ctx, c, levels); err != nil || c.Kind == sqlstore.OnlyProven {
		return rows, true, err
	}
	suspects, err := t.claimed(ctx, "claim_suspects", c, c.Limit)
	if err != nil || len(suspects) == 0 {
		return rows, true, err
	}
	rows = append(rows, suspects...)
	slices.SortFunc(rows, func(a, b sqlstore.Row) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.RunAt, b.RunAt), cmp.Compare(a.ID, b.ID))
	})
	return rows[:min(len(rows), int(c.Limit))], false, nil
}

// levels are the priorities in which jobs are ready, the highest first.
func (t *tx) levels(ctx context.Context, c sqlstore.Claim) (priorities []any, err error) {
	err = t.query(ctx, "claim_levels", func(levels *sql.Rows) error {
		priorities = append(priorities, nil)
		return levels.Scan(&priorities[len(priorities)-1])
	}, sql.Named("queue", c.Queue), sql.Named("now", t.now))
	return priorities, err
}

// ready is claimable for jobs whose claims have never lapsed.
func (t *tx) ready(ctx context.Context, c sqlstore.Claim, levels []any) (rows []sqlstore.Row, err error) {
	for _, priority := range levels {
		left := c.Limit - int64(len(rows))
		if left == 0 {
			break
		}
		more, err := t.claimed(ctx, "claim_ready", c, left, sql.Named("priority", priority))
		if err != nil {
			return nil, err
		}
		if rows == nil {
			rows = more // nearly always the only ones
		} else {
			rows = append(rows, more...)
		}
	}
	return rows, nil
}

// claimed reads up to so many jobs as they will be once they are claimed.
func (t *tx) claimed(ctx context.Context, statement string, c sqlstore.Claim, limit int64, more ...any) ([]sqlstore.Row, error) {
	args := slices.Concat(more, []any{sql.Named("queue", c.Queue), sql.Named("now", t.now), sql.Named("limit", limit)})
	return t.rows(ctx, statement, claimedRows(c.Queue, c.Claimant, t.now), 0, args...)
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
