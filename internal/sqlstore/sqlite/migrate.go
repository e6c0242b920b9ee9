package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// The steps of the schema in the order of their names. Once released a step is never edited: the version of a file is
// the number of steps it has seen. A name of the form NNNN_table.column.sql adds that column unless it is there.
//
//go:embed migrations/*.sql
var migrationFiles embed.FS

// rebuildLive is the one step that only files of the oldest shape need, and not even all of them.
const rebuildLive = "migrations/0023_rebuild_live.sql"

func migrationSteps() []string {
	steps, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil {
		panic(err) // the pattern is constant
	}
	return steps
}

// migrate applies what the file has not seen, all in one transaction. Of several processes that come at the same moment
// the first does it and the others find it done.
func migrate(ctx context.Context, conn *sql.Conn, on *session) (err error) {
	steps := migrationSteps()
	if have, err := schemaVersion(ctx, on); err != nil || have == len(steps) {
		return err
	}
	if err := beginMigration(ctx, on); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	defer func() {
		if err != nil {
			_, _ = on.exec(context.WithoutCancel(ctx), "rollback") // the connection is closed next, which does the same
		}
	}()
	have, err := schemaVersion(ctx, on) // another process, even a newer one, may have been here since
	if err != nil {
		return err
	}
	for _, step := range steps[have:] {
		if err := apply(ctx, conn, on, step); err != nil {
			return fmt.Errorf("migrate: %s: %w", strings.TrimPrefix(step, "migrations/"), err)
		}
	}
	if _, err := on.exec(ctx, "schema_version_table"); err != nil {
		return err
	}
	if _, err := on.exec(ctx, "schema_version_set", sql.Named("version", len(steps))); err != nil {
		return err
	}
	_, err = on.exec(ctx, "commit")
	return err
}

// migrationPatience is how long to wait at least for another process that may be migrating the file: with millions of jobs
// in it that takes longer than any write.
const migrationPatience = time.Minute

func beginMigration(ctx context.Context, on *session) error {
	for left := migrationPatience; ; left -= openPatience { // which is what each try waits at least
		_, err := on.exec(ctx, "begin")
		if !errors.Is(kind(err), sqlstore.ErrBusy) || left <= openPatience {
			return err
		}
	}
}

// apply runs one step, unless the file has already what the step brings.
func apply(ctx context.Context, conn *sql.Conn, on *session, step string) error {
	name := strings.TrimSuffix(strings.TrimPrefix(step, "migrations/"), ".sql")
	var done bool
	var err error
	if table, column, ok := strings.Cut(name[len("0000_"):], "."); ok {
		_, err = on.one(ctx, "column_exists", []any{&done}, sql.Named("table", table), sql.Named("column", column))
	} else if step == rebuildLive {
		_, err = on.one(ctx, "live_is_whole", []any{&done})
	}
	if err != nil || done {
		return err
	}
	text, err := migrationFiles.ReadFile(step)
	if err != nil {
		return err
	}
	_, err = conn.ExecContext(ctx, string(text))
	return err
}

// schemaVersion is how many steps the file has seen; zero for an empty file and for one of the oldest shape. ErrNewer if
// it has seen steps that this program does not know; ErrCorrupt if a person has written there what is no version.
func schemaVersion(ctx context.Context, on *session) (int, error) {
	var exists bool
	if _, err := on.one(ctx, "schema_version_exists", []any{&exists}); err != nil || !exists {
		return 0, err
	}
	var version integer
	there, err := on.one(ctx, "schema_version", []any{&version})
	if err != nil || !there {
		return 0, err
	}
	switch known := int64(len(migrationSteps())); {
	case !version.known || version.value < 0:
		return 0, fmt.Errorf("%w: the version in __alkstore_schema is none: delete the row, and what the file lacks is added",
			sqlstore.ErrCorrupt)
	case version.value > known:
		return 0, fmt.Errorf("%w: the file has version %d, this program knows %d; use a newer program",
			sqlstore.ErrNewer, version.value, known)
	}
	return int(version.value), nil
}
