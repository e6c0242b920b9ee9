package torture

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
	"github.com/alkstore/alkworker/internal/sqlstore/storetest"
)

func openPostgres(ctx context.Context, address string, clock func() int64) (sqlstore.Store, error) {
	return postgres.Open(ctx, address, postgres.Options{Clock: clock})
}

// newPostgres is a schema of its own on the server of the tests. Its store talks to the server without database/sql, so
// that nothing can be put around a driver.
func newPostgres(t *testing.T, _ wrapper) (*database, bool) {
	t.Helper()
	at, ok := pgtest.New(t)
	if !ok {
		return nil, false
	}
	d := &database{clock: storetest.NewClock(), address: at.DSN(), spare: func(bool) {}}
	d.open = func(ctx context.Context) (sqlstore.Store, error) { return openPostgres(ctx, d.address, d.now) }
	d.exact = func(ctx context.Context) (sqlstore.Store, error) {
		return postgres.Open(ctx, d.address, postgres.Options{Clock: d.now, Exact: true})
	}
	first, err := d.open(t.Context()) // the tables
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if d.beside, err = sql.Open("pgx", at.SearchPath()); err != nil {
		t.Fatal(err)
	}
	if d.users, err = sql.Open("pgx", at.SearchPath()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(d.beside.Close(), d.users.Close()); err != nil {
			t.Errorf("close pool: %v", err)
		}
	})
	var joined string
	err = d.beside.QueryRowContext(t.Context(), `SELECT string_agg(tablename, ',') FROM pg_tables
		WHERE schemaname = $1 AND tablename <> '__alkstore_schema'`, at.Schema).Scan(&joined)
	if err != nil {
		t.Fatal(err)
	}
	tables := slices.Sorted(strings.SplitSeq(joined, ","))
	d.empty = func(ctx context.Context) error {
		var each strings.Builder
		for _, table := range tables {
			fmt.Fprintf(&each, "DELETE FROM %s;", table)
		}
		_, err := d.beside.ExecContext(ctx, each.String())
		return err
	}
	d.dump = func(ctx context.Context) (string, error) { return dumpOf(ctx, d.beside, tables) }
	return d, true
}
