package torture

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	moderncsqlite "modernc.org/sqlite"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/sqlite"
	"github.com/alkstore/alkworker/internal/sqlstore/storetest"
)

// stores are what every proof of this package runs over. A store joins with a line here.
var stores = []struct {
	name   string
	create func(t *testing.T, wrap wrapper) *database
}{
	{"sqlite", newSQLite},
}

// wrapper puts a driver of a test around that of a store; nil leaves it as it is.
type wrapper func(driver.Driver) driver.Driver

// database is one empty database.
type database struct {
	clock  *storetest.ManualClock                            // of all handles
	open   func(ctx context.Context) (sqlstore.Store, error) // one more handle
	beside *sql.DB                                           // a pool of a user
	empty  func(ctx context.Context) error                   // back to how it was created, behind the store's back
}

// handle opens one more handle on the database and closes it with the test.
func (d *database) handle(t *testing.T) sqlstore.Store {
	t.Helper()
	s, err := d.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// newSQLite does without the disk: what happens between transactions is the same, and these proofs are about that.
func newSQLite(t *testing.T, wrap wrapper) *database {
	t.Helper()
	path := filepath.Join(t.TempDir(), "queue.db")
	d := &database{clock: storetest.NewClock()}
	o := sqlite.Options{Synchronous: "NORMAL", Clock: d.clock.Now}
	if wrap != nil {
		o.Driver = wrap(&moderncsqlite.Driver{})
	}
	d.open = func(ctx context.Context) (sqlstore.Store, error) { return sqlite.Open(ctx, path, o) }

	first, err := sqlite.Open(t.Context(), path, sqlite.Options{}) // the tables
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if d.beside, err = sql.Open("sqlite", sqlite.DSN(path, sqlite.Options{Synchronous: "NORMAL"})); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.beside.Close(); err != nil {
			t.Errorf("close pool: %v", err)
		}
	})
	tables := sqliteTables(t, d.beside)
	var script strings.Builder
	script.WriteString("BEGIN IMMEDIATE; UPDATE sqlite_sequence SET seq = 0;")
	for _, table := range tables {
		fmt.Fprintf(&script, "DELETE FROM %q;", table)
	}
	script.WriteString("COMMIT;")
	d.empty = func(ctx context.Context) error {
		_, err := d.beside.ExecContext(ctx, script.String())
		return err
	}
	return d
}

// sqliteTables names the project's tables that hold data.
func sqliteTables(t *testing.T, db *sql.DB) []string {
	t.Helper()
	var joined string
	err := db.QueryRowContext(t.Context(), `SELECT group_concat(name) FROM sqlite_schema
		WHERE type = 'table' AND name LIKE '\_\_alkstore\_%' ESCAPE '\' AND name <> '__alkstore_schema'`).Scan(&joined)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(joined, ",")
}
