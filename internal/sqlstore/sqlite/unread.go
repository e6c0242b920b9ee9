package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// ClaimUnread implements [sqlstore.LateReader]. To read its jobs is a third of what a claim takes. The readers can do it,
// while the next ones write: what is claimed changes no more, unless the claim ends.
func (s *Store) ClaimUnread(ctx context.Context, c sqlstore.Claim) (sqlstore.Unread, error) {
	if c.Kind != sqlstore.OnlyProven || c.Limit < 1 {
		rows, err := s.ClaimBatch(ctx, c)
		return sqlstore.AtOnce(rows), err
	}
	var now int64
	var list alike
	var rows []sqlstore.Row
	claim := &call{ctx: ctx, size: int(c.Limit), asks: true}
	claim.work = func(ctx context.Context, t *tx) (err error) {
		rows = nil
		if list, err = t.claimAlike(ctx, c); err == nil && !list.all {
			rows, err = t.claim(ctx, c)
		}
		now, claim.trusts = t.now, list.all
		return err
	}
	switch err := s.write.do(claim, ordinary); {
	case err != nil:
		return sqlstore.Unread{}, fail("claim from", c.Queue, 0, err)
	case !list.all:
		return sqlstore.AtOnce(rows), nil
	}
	return sqlstore.Unread{N: len(list.ids), Read: func(ctx context.Context) ([]sqlstore.Row, error) {
		rows, err := s.readClaimed(ctx, list, claimedRows(c.Queue, c.Claimant, now))
		if err == nil {
			// Not before: meanwhile others may have waited for it. And not without: a fence that was handed out and then lost
			// with the power would be handed out again. // C5
			err = s.write.disk.await(claim.commit)
		}
		if err != nil {
			return nil, fail("read claimed jobs of", c.Queue, 0, errors.Join(err, s.giveBack(ctx, list)))
		}
		return rows, nil
	}}, nil
}

// alike is jobs in claim order whose claims have one fence, as most have. If not all have, it is none.
type alike struct {
	all   bool
	ids   []int64
	fence int64
}

// claimAlike claims the jobs that are ready if their claims are alike, and else changes nothing of them.
func (t *tx) claimAlike(ctx context.Context, c sqlstore.Claim) (list alike, err error) {
	levels, _, err := t.survey(ctx, c)
	if err != nil {
		return alike{}, err
	}
	for _, priority := range levels {
		left := c.Limit - int64(len(list.ids))
		if left == 0 {
			break
		}
		more, err := t.list(ctx, c, left, priority)
		if err != nil {
			return alike{}, err
		}
		if !more.all || len(list.ids) > 0 && more.fence != list.fence {
			return alike{}, nil
		}
		list.ids, list.fence = append(list.ids, more.ids...), more.fence
	}
	if len(list.ids) == 0 {
		return alike{}, nil
	}
	list.all = true
	return list, t.takeReady(ctx, c, list.ids)
}

// list is the jobs that are ready in one priority, up to so many.
func (t *tx) list(ctx context.Context, c sqlstore.Claim, limit int64, priority any) (list alike, err error) {
	var ids string
	var least, greatest integer
	if _, err := t.one(ctx, "claim_list", []any{&ids, &least, &greatest}, sql.Named("queue", c.Queue),
		sql.Named("now", t.now), sql.Named("priority", priority), sql.Named("limit", limit)); err != nil {
		return alike{}, err
	}
	// A fence that was edited to where no integer comes next is nothing to count on.
	list.all, list.fence = least.known && least == greatest && least.value < 1<<53, least.value+1
	return list, json.Unmarshal([]byte(ids), &list.ids)
}

// readClaimed reads jobs as far as they still have the claims that were made.
func (s *Store) readClaimed(ctx context.Context, list alike, read rowReader) (rows []sqlstore.Row, err error) {
	// One snapshot, since a large payload is gone at the same moment as its job.
	err = s.snapshot(ctx, []string{"claim_read", "payload"}, func(on *session) error {
		rows, err = on.rows(ctx, "claim_read", read, len(list.ids),
			sql.Named("ids", jsonOf(list.ids)), sql.Named("fence", list.fence))
		return err
	})
	return rows, err
}

// giveBack releases claims that nobody knows of.
func (s *Store) giveBack(ctx context.Context, list alike) error {
	releases := make([]sqlstore.Releasing, len(list.ids))
	for i, id := range list.ids {
		releases[i].Handle = sqlstore.Handle{ID: id, Fence: list.fence}
	}
	_, err := s.Release(context.WithoutCancel(ctx), releases)
	return err
}
