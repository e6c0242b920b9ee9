package postgres

import (
	"context"
	"fmt"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// Backup implements [sqlstore.Store]: the database is not a file.
func (s *Store) Backup(ctx context.Context, path string) error {
	return fail(fmt.Sprintf("back up to %q", path), "", 0, s.using(ctx, ordinary, func(context.Context) error {
		return fmt.Errorf("%w: use pg_dump, with --schema=%s for the jobs alone", sqlstore.ErrUnsupported, s.schema)
	}))
}
