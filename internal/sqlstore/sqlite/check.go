package sqlite

import (
	"context"
	"database/sql"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// Check implements [sqlstore.Store].
func (s *Store) Check(ctx context.Context) (problems []sqlstore.Problem, err error) {
	err = s.snapshot(ctx, []string{"now", "check_integrity", "check_rows"}, func(on *session) error {
		now, err := readClock(ctx, on, s.options.Clock)
		if err != nil {
			return err
		}
		err = on.query(ctx, "check_integrity", func(rows *sql.Rows) error {
			p := sqlstore.Problem{Kind: "integrity"}
			if err := rows.Scan(&p.Detail); err != nil {
				return err
			}
			if p.Detail != "ok" {
				problems = append(problems, p)
			}
			return nil
		})
		if err != nil {
			return err
		}
		rows, err := on.checkRows(ctx, now)
		problems = append(problems, rows...)
		return err
	})
	return unlessFailed(problems, fail("check", "", 0, err))
}

// checkRows finds what is wrong with rows, as far as SQLite itself has nothing to say about them.
func (s *session) checkRows(ctx context.Context, now int64) (problems []sqlstore.Problem, err error) {
	err = s.query(ctx, "check_rows", func(rows *sql.Rows) error {
		var p sqlstore.Problem
		err := rows.Scan(&p.Kind, &p.JobID, &p.Queue, &p.Detail)
		problems = append(problems, p)
		return err
	}, sql.Named("now", now))
	return problems, err
}

// Repair implements [sqlstore.Store].
func (s *Store) Repair(ctx context.Context) (mended []sqlstore.Problem, err error) {
	err = s.writing(ctx, ordinary, alone, func(ctx context.Context, t *tx) error {
		mended, err = t.repair(ctx)
		return err
	})
	return unlessFailed(mended, fail("repair", "", 0, err))
}

func (t *tx) repair(ctx context.Context) (mended []sqlstore.Problem, err error) {
	before, err := t.checkRows(ctx, t.now)
	if err != nil || len(before) == 0 {
		return nil, err
	}
	ids := make([]int64, 0, len(before))
	for _, p := range before {
		ids = append(ids, p.JobID)
	}
	list, now := sql.Named("ids", jsonOf(ids)), sql.Named("now", t.now)
	for _, step := range []struct {
		statement string
		args      []any
	}{
		{"repair_live", []any{list, now}},
		{"repair_dead", []any{list, now}},
		{"repair_twice", nil},
		{"repair_payloads", nil}, // once it is known which jobs have one
		{"repair_failures", nil},
		{"repair_queues", nil},
		{"repair_schedules", nil},
		{"repair_locks", []any{now}},
		{"repair_workers", []any{now}},
		{"repair_sequence_row", nil},
		{"repair_sequence", nil},
	} {
		if _, err := t.exec(ctx, step.statement, step.args...); err != nil {
			return nil, err
		}
	}
	t.wake("")
	after, err := t.checkRows(ctx, t.now)
	if err != nil {
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
