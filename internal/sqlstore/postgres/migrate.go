package postgres

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// The steps of the schema in the order of their names. Once released a step is never edited: the version of a schema is
// the number of steps it has seen.
//
//go:embed migrations/*.sql
var migrationFiles embed.FS

func migrationSteps() []string {
	steps, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil {
		panic(err) // the pattern is constant
	}
	return steps
}

// migrate makes the schema, or applies the steps that it has not seen, all in one transaction (T4). Of several processes
// that come at the same moment the first does it and the others find it done.
func migrate(ctx context.Context, conn *pgx.Conn, all statements, schema string) (err error) {
	steps := migrationSteps()
	if have, err := schemaVersion(ctx, ours{on: conn}, all, schema); err != nil || have == len(steps) {
		return err // as is usual, and possible for a user who may not create anything
	}
	open, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	defer func() {
		_ = open.Rollback(context.WithoutCancel(ctx)) // of no effect after the commit; the connection is closed next
	}()
	on := ours{on: open}
	one := func(name string, with args) error { return on.run(ctx, all, nil, []step{{name, with, nil}}) }
	if err := one("schema_lock", args{"schema": schema}); err != nil {
		return fmt.Errorf("migrate: wait for others: %w", err)
	}
	have, err := schemaVersion(ctx, on, all, schema) // another process, even a newer one, may have been here since
	if err != nil || have == len(steps) {
		return err
	}
	var exists bool
	err = on.run(ctx, all, nil, []step{{"schema_exists", args{"schema": schema}, func(row scanner) error {
		return row.Scan(&exists)
	}}})
	if err == nil && !exists {
		err = one("schema_create", nil)
	}
	if err == nil {
		err = one("schema_path", args{"schema": schema})
	}
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	for _, step := range steps[have:] {
		text, err := migrationFiles.ReadFile(step)
		if err != nil {
			return err
		}
		if _, err := open.Exec(ctx, string(text), pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("migrate: %s: %w", strings.TrimPrefix(step, "migrations/"), err)
		}
	}
	if err := one("schema_version_table", nil); err != nil {
		return err
	}
	if err := one("schema_version_set", args{"version": len(steps)}); err != nil {
		return err
	}
	return open.Commit(ctx)
}

// schemaVersion is how many steps the schema has seen; zero if there are no tables yet. ErrNewer if it has seen steps that
// this program does not know; ErrCorrupt if a person has written there what is no version.
func schemaVersion(ctx context.Context, on querier, all statements, schema string) (version int, err error) {
	var exists bool
	err = on.run(ctx, all, nil, []step{{"schema_version_exists", args{"schema": schema}, func(row scanner) error {
		return row.Scan(&exists)
	}}})
	if err != nil || !exists {
		return 0, err
	}
	err = on.run(ctx, all, nil, []step{{"schema_version", nil, func(row scanner) error { return row.Scan(&version) }}})
	if err != nil {
		return 0, err
	}
	switch known := len(migrationSteps()); {
	case version < 0:
		return 0, fmt.Errorf("%w: the version %d in __alkstore_schema is none: set it to what it was, which is %d for this program",
			sqlstore.ErrCorrupt, version, known)
	case version > known:
		return 0, fmt.Errorf("%w: the schema has version %d, this program knows %d; use a newer program",
			sqlstore.ErrNewer, version, known)
	}
	return version, nil
}
