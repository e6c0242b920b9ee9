package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Backup implements [sqlstore.Store]. Copying the file itself would miss what is still in the WAL.
func (s *Store) Backup(ctx context.Context, path string) error {
	return fail(fmt.Sprintf("back up to %q", path), "", 0, s.backup(ctx, path))
}

func (s *Store) backup(ctx context.Context, path string) error {
	done, err := s.call()
	if err != nil {
		return err
	}
	defer done()
	if path, err = filepath.Abs(path); err != nil { // SQLite would take "file:…" and ":memory:" for something else
		return err
	}
	// VACUUM INTO fills an empty file, which keeps the mode it was made with.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: choose a new name, an existing file is never overwritten", err)
	}
	if err != nil {
		return err
	}
	if err := closePrivate(f); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	pool := openPool(s.path, s.options, writing, 1)
	on := newSession(pool)
	_, err = on.exec(ctx, "backup", sql.Named("path", path))
	if err = errors.Join(err, on.close(), pool.Close()); err != nil {
		return errors.Join(err, os.Remove(path)) // half a copy must not pass for one
	}
	return nil
}
