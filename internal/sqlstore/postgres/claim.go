package postgres

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

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
	if c.Limit < 1 {
		return nil, fail("claim from", c.Queue, 0, s.using(ctx, prompt, func(context.Context) error { return nil }))
	}
	c.Limit = s.portions.limit(c.Queue, c.Limit)
	h := s.frontiers.forClaim(c.Queue)
	first := s.claimAny
	if c.Kind == sqlstore.OnlyProven {
		first = s.claimProven
	}
	rows, err = s.claim(ctx, c, h, first)
	short := err == nil && int64(len(rows)) < c.Limit
	again := short && !h.whole && c.Kind != sqlstore.OnlySuspects && s.frontiers.lookAgain(c.Queue, len(rows) > 0)
	blind := short && len(rows) == 0 && c.Kind == sqlstore.OnlyProven // it saw not even why: see claim_proven.sql
	if again || blind {
		if again {
			h = h.behind()
		}
		var more []sqlstore.Row
		more, err = s.secondLook(ctx, c, h, rows)
		rows = append(rows, more...)
		inOrder(rows)
	}
	switch {
	case errors.Is(err, errNoAnswer):
		s.portions.failed(c.Queue, c.Limit, 2)
	case err == nil:
		s.portions.answered(c.Queue, c.Limit)
	}
	if len(rows) > 0 {
		err = nil // these are ours; whatever was wrong will be so the next time
	}
	if err == nil && c.Kind != sqlstore.OnlySuspects {
		s.listener.rivalry.claimed(len(rows) > 0)
	}
	return unlessFailed(rows, fail("claim from", c.Queue, 0, err))
}

// secondLook finds what a claim is short of. The leases of what it has found are running: they bound how long it may take.
func (s *Store) secondLook(ctx context.Context, c sqlstore.Claim, h hint, found []sqlstore.Row) ([]sqlstore.Row, error) {
	c.Limit -= int64(len(found))
	c.Kind = sqlstore.OnlyProven // no hint hides others, and one that was claimed just now may have lapsed already
	shortest := int64(math.MaxInt64)
	for _, r := range found {
		h.taken = append(h.taken, r.ID) // it may have died already and been brought back
		shortest = min(shortest, r.Stamps.VisibilityTimeoutS)
	}
	if len(found) == 0 {
		return s.claim(ctx, c, h, s.claimAny)
	}
	patience := time.Duration(min(shortest, int64(leastPatience/time.Second))) * time.Second / 3
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	rows, err := s.claim(within, c, h, s.claimAny)
	if err != nil {
		s.frontiers.gaveUp(c.Queue, began)
	}
	return rows, err
}

// sight is what a claim saw of its queue besides jobs.
type sight struct {
	now  int64
	open bool // not paused
}

// claim makes one claim by a statement and learns from it.
func (s *Store) claim(
	ctx context.Context, c sqlstore.Claim, h hint,
	by func(context.Context, sqlstore.Claim, hint) ([]sqlstore.Row, sight, error),
) ([]sqlstore.Row, error) {
	began := time.Now()
	rows, saw, err := by(ctx, c, h)
	if err != nil {
		return nil, err
	}
	if saw.open { // else nothing was looked at
		s.frontiers.claimed(c, h, began, saw.now, rows)
	}
	return rows, nil
}

// claimProven is what nearly all claims are: of proven jobs in a queue without spent ones. Without jobs it has seen nothing.
func (s *Store) claimProven(ctx context.Context, c sqlstore.Claim, h hint) (rows []sqlstore.Row, saw sight, err error) {
	claimant := cleaned(c.Claimant)
	p := newProvenRow(c.Queue, claimant)
	err = s.writing(ctx, prompt, func(ctx context.Context, t *tx) error {
		rows = nil
		return t.run(ctx, step{"claim_proven", args{
			"queue": c.Queue, "claimant": claimant, "limit": c.Limit, "priorities": h.priorities,
			"run_ats": h.runAts, "ids": h.ids, "lease_from": h.leaseFrom,
		}, func(row scanner) error {
			r, err := p.next(row)
			rows = append(rows, r)
			return err
		}})
	})
	inOrder(rows)
	return rows, sight{now: p.now, open: len(rows) > 0}, err
}

// The most that one claim buries. What is written is not counted by the claim's own limit, and so has a portion of its own;
// that shrinks fast, since nothing is claimed while it is too large.
const (
	burialJobs  = 500
	burialBytes = 64 << 20
	burialShare = 8
)

func (s *Store) claimAny(ctx context.Context, c sqlstore.Claim, h hint) (rows []sqlstore.Row, saw sight, err error) {
	burial := s.burials.limit(c.Queue, burialJobs)
	err = s.writing(ctx, prompt, func(ctx context.Context, t *tx) error {
		rows = nil
		return t.run(ctx,
			step{"claim_exhausted", args{ // C6: whoever would be handed a job without attempts buries it instead
				"queue": c.Queue, "exhausted_text": cleaned(c.ExhaustedText), "lapsed_text": cleaned(c.LapsedText),
				"keep": sqlstore.MaxFailures, "lease_from": h.leaseFrom, "jobs": burial, "bytes": burial * (burialBytes / burialJobs),
			}, func(row scanner) error { return row.Scan(&saw.now, &saw.open) }},
			step{"claim", args{
				"queue": c.Queue, "claimant": cleaned(c.Claimant), "limit": c.Limit, "kind": kinds[c.Kind],
				"lapsed_text": cleaned(c.LapsedText), "keep": sqlstore.MaxFailures, "priorities": h.priorities,
				"run_ats": h.runAts, "ids": h.ids, "lease_from": h.leaseFrom, "taken": h.taken,
			}, collect(&rows)},
		)
	})
	switch {
	case errors.Is(err, errNoAnswer):
		s.burials.failed(c.Queue, burial, burialShare)
	case err == nil:
		s.burials.answered(c.Queue, burial)
	}
	return rows, saw, err
}

// NextReady implements [sqlstore.Claims].
func (s *Store) NextReady(ctx context.Context, queues []string) (now int64, next map[string]int64, err error) {
	next = make(map[string]int64, len(queues))
	object := sole(queues)
	queues = slices.Compact(slices.Sorted(slices.Values(queues)))
	hints, whole := s.frontiers.forReady(queues)
	var levels []string
	var priorities, runAts, ids, leases []int64
	for i, h := range hints {
		for range h.priorities {
			levels = append(levels, queues[i])
		}
		priorities, runAts, ids = append(priorities, h.priorities...), append(runAts, h.runAts...), append(ids, h.ids...)
		leases = append(leases, h.leaseFrom)
	}
	began := time.Now()
	err = s.reading(ctx, prompt, step{"next_ready", args{
		"queues": texts(queues), "leases_from": leases, "level_queues": texts(levels), "priorities": priorities,
		"run_ats": runAts, "ids": ids,
	}, func(row scanner) error {
		var queue *string
		var at *int64
		err := row.Scan(&now, &queue, &at)
		if queue != nil && at != nil {
			next[*queue] = *at
		}
		return err
	}})
	if err != nil {
		return 0, nil, fail("look for work in", object, 0, err)
	}
	s.frontiers.sawReady(began, whole)
	return now, next, nil
}

// Idle implements [sqlstore.Claims].
func (s *Store) Idle(ctx context.Context, queues []string) (idle bool, err error) {
	err = s.reading(ctx, prompt, step{"idle", args{"queues": texts(queues)}, func(row scanner) error {
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
