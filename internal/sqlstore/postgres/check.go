package postgres

import (
	"context"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// Check implements [sqlstore.Store]. Damage to the files is the server's own business: pg_amcheck looks for it.
func (s *Store) Check(ctx context.Context) (problems []sqlstore.Problem, err error) {
	err = s.reading(ctx, slow, step{"check_rows", nil, func(row scanner) error {
		var p sqlstore.Problem
		err := row.Scan(&p.Kind, &p.JobID, &p.Queue, &p.Detail)
		problems = append(problems, p)
		return err
	}})
	return unlessFailed(problems, fail("check", "", 0, err))
}
