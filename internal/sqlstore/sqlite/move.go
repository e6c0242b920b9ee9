package sqlite

import (
	"context"
	"database/sql"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

var _ sqlstore.Origin = (*Store)(nil)

// LastID implements [sqlstore.Origin].
func (s *Store) LastID(ctx context.Context) (last int64, err error) {
	err = s.snapshot(ctx, []string{"last_id"}, func(on *session) error {
		return on.query(ctx, "last_id", func(rows *sql.Rows) error { return rows.Scan(&last) })
	})
	return last, fail("read the last id", "", 0, err)
}
