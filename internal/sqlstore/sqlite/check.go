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
		return on.query(ctx, "check_rows", func(rows *sql.Rows) error {
			var p sqlstore.Problem
			err := rows.Scan(&p.Kind, &p.JobID, &p.Queue, &p.Detail)
			problems = append(problems, p)
			return err
		}, sql.Named("now", now))
	})
	return unlessFailed(problems, fail("check", "", 0, err))
}
