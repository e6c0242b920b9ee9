package postgres

import (
	"context"
	"slices"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// Check implements [sqlstore.Store]. Damage to the files is the server's own business: pg_amcheck looks for it.
func (s *Store) Check(ctx context.Context) (problems []sqlstore.Problem, err error) {
	err = s.reading(ctx, slow, checkRows(&problems))
	return unlessFailed(problems, fail("check", "", 0, err))
}

// checkRows is the step that appends what is wrong with rows.
func checkRows(problems *[]sqlstore.Problem) step {
	return step{"check_rows", nil, func(row scanner) error {
		var p sqlstore.Problem
		err := row.Scan(&p.Kind, &p.JobID, &p.Queue, &p.Detail)
		*problems = append(*problems, p)
		return err
	}}
}

// Repair implements [sqlstore.Store]. Other processes go on while it works.
func (s *Store) Repair(ctx context.Context) (mended []sqlstore.Problem, err error) {
	err = again(func() error {
		return s.transaction(ctx, slow, func(ctx context.Context, t *tx) error {
			mended, err = t.repair(ctx)
			return err
		})
	})
	return unlessFailed(mended, fail("repair", "", 0, err))
}

func (t *tx) repair(ctx context.Context) (mended []sqlstore.Problem, err error) {
	var before, after []sqlstore.Problem
	if err := t.run(ctx, checkRows(&before)); err != nil || len(before) == 0 {
		return nil, err
	}
	ids := make([]int64, 0, len(before))
	for _, p := range before {
		ids = append(ids, p.JobID)
	}
	steps := []step{
		{"repair_live", args{"ids": ids}, nil},
		{"repair_dead", args{"ids": ids}, nil},
		{"repair_twice", nil, nil},
		{"repair_failures", nil, nil},
		{"repair_locks", nil, nil},
		{"repair_workers", nil, nil},
	}
	if slices.ContainsFunc(before, func(p sqlstore.Problem) bool { return p.Kind == "sequence" }) {
		steps = append(steps, step{"sequence_lock", nil, nil}, step{"repair_sequence", nil, nil})
	}
	if err := t.wake(ctx, behind, []string{""}, append(steps, checkRows(&after))...); err != nil {
		return nil, err
	}
	left := make(map[sqlstore.Problem]bool)
	for _, p := range after {
		left[p] = true
	}
	for _, p := range before {
		if !left[p] {
			mended = append(mended, p)
		}
	}
	return mended, nil
}
