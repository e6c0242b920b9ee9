package torture

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	moderncsqlite "modernc.org/sqlite"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/sqlite"
	"github.com/alkstore/alkworker/internal/sqlstore/storetest"
)

// stores are what every proof of this package runs over. A store joins with a line here, if several processes can share it:
// that in memory is the model.
var stores = []struct {
	name   string
	create func(t *testing.T, wrap wrapper) (d *database, ok bool) // false: there is no server, as was said
	// open is how another process opens the database that is at the address.
	open func(ctx context.Context, address string, clock func() int64) (sqlstore.Store, error)
	// wraps says that the store works through a driver of database/sql, which can be made to fail.
	wraps bool
	// parallel says that callers work beside each other, and not one after the other: see contract.
	parallel bool
	// part is how little of the work go test does with the store: one in so many.
	part int
}{
	{name: "sqlite", create: newSQLite, open: openSQLite, wraps: true, part: 1},
	{name: "postgres", create: newPostgres, open: openPostgres, parallel: true, part: 10}, // each call goes over a socket
}

// wrapper puts a driver of a test around that of a store; nil leaves it as it is.
type wrapper func(driver.Driver) driver.Driver

// database is one empty database.
type database struct {
	clock   storetest.Clock                                   // of all handles; may be another before they are opened
	address string                                            // for the open of the store
	open    func(ctx context.Context) (sqlstore.Store, error) // one more handle
	exact   func(ctx context.Context) (sqlstore.Store, error) // likewise, to the letter even where open may be late; nil: open
	anew    func(ctx context.Context) (sqlstore.Store, error) // a store on a database of its own that is not there yet
	users   *sql.DB                                           // a pool of a user, with the driver of the store
	spare   func(on bool)                                     // the driver does not fail what a user does

	// Behind the store's back:
	beside *sql.DB
	empty  func(ctx context.Context) error           // back to how it was created
	keep   func(ctx context.Context) error           // remembers all rows
	back   func(ctx context.Context) error           // returns to them
	dump   func(ctx context.Context) (string, error) // all rows as text
	quiet  func(ctx context.Context) error           // fails if a connection has a transaction open
}

// now reads the clock that there is by then.
func (d *database) now() int64 { return d.clock.Now() }

// inside runs do in a transaction of a user, who commits whatever do has answered: a refusal has changed nothing. T6
func (d *database) inside(ctx context.Context, do func(tx sqlstore.Tx) (any, error)) (any, error) {
	d.spare(true)
	tx, err := d.users.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	d.spare(false)
	v, err := do(tx)
	d.spare(true)
	defer d.spare(false)
	if cerr := tx.Commit(); err == nil {
		err = cerr
	}
	return v, err
}

// handle opens one more handle on the database and closes it with the test.
func (d *database) handle(t *testing.T) sqlstore.Store {
	t.Helper()
	return opened(t, d.open)
}

// exactHandle is handle for those who compare every answer.
func (d *database) exactHandle(t *testing.T) sqlstore.Store {
	t.Helper()
	if d.exact == nil {
		return opened(t, d.open)
	}
	return opened(t, d.exact)
}

func opened(t *testing.T, open func(ctx context.Context) (sqlstore.Store, error)) sqlstore.Store {
	t.Helper()
	s, err := open(t.Context())
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

// optionsSQLite do without the disk: what happens between transactions is the same, and these proofs are about that.
func optionsSQLite(clock func() int64) sqlite.Options {
	return sqlite.Options{Synchronous: "NORMAL", Clock: clock, Driver: &moderncsqlite.Driver{}}
}

func openSQLite(ctx context.Context, path string, clock func() int64) (sqlstore.Store, error) {
	return sqlite.Open(ctx, path, optionsSQLite(clock))
}

func newSQLite(t *testing.T, wrap wrapper) (*database, bool) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "queue.db")
	d := &database{clock: storetest.NewClock(), address: path, spare: func(bool) {}}
	o := optionsSQLite(d.now)
	if wrap != nil {
		o.Driver = wrap(o.Driver)
	}
	d.open = func(ctx context.Context) (sqlstore.Store, error) { return sqlite.Open(ctx, path, o) }

	first, err := sqlite.Open(t.Context(), path, sqlite.Options{}) // the tables
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	dsn := sqlite.DSN(path, o)
	d.beside = sql.OpenDB(connector{driver: &moderncsqlite.Driver{}, dsn: dsn})
	d.users = sql.OpenDB(connector{driver: o.Driver, dsn: dsn})
	d.users.SetMaxIdleConns(0) // what is in use after an operation is the store's
	t.Cleanup(func() {
		if err := errors.Join(d.beside.Close(), d.users.Close()); err != nil {
			t.Errorf("close pool: %v", err)
		}
	})
	tables := sqliteTables(t, d.beside)
	var empty, keep, back strings.Builder
	for _, table := range append(tables, "sqlite_sequence") {
		fmt.Fprintf(&keep, "DROP TABLE IF EXISTS kept.'k%[1]s'; CREATE TABLE kept.'k%[1]s' AS SELECT * FROM main.%[1]q;", table)
		fmt.Fprintf(&back, "DELETE FROM main.%[1]q; INSERT INTO main.%[1]q SELECT * FROM kept.'k%[1]s';", table)
		if table != "sqlite_sequence" {
			fmt.Fprintf(&empty, "DELETE FROM %q;", table)
		}
	}
	script := func(text string) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			_, err := d.beside.ExecContext(ctx, "BEGIN IMMEDIATE;"+text+"COMMIT;")
			return err
		}
	}
	d.empty = script("UPDATE sqlite_sequence SET seq = 0;" + empty.String())
	d.keep, d.back = script(keep.String()), script(back.String())
	d.dump = func(ctx context.Context) (string, error) { return dumpOf(ctx, d.beside, tables) }
	d.quiet = func(ctx context.Context) error {
		// A checkpoint of the store's own may be under way; that ends, other than a transaction that was left open.
		for deadline := time.Now().Add(10 * time.Second); ; {
			var busy, log, done int
			err := d.beside.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &log, &done)
			if err != nil || busy == 0 {
				return err
			}
			if time.Now().After(deadline) {
				return errors.New("a connection has a transaction open")
			}
			<-time.After(time.Millisecond)
		}
	}
	files := 0
	d.anew = func(ctx context.Context) (sqlstore.Store, error) {
		files++
		return sqlite.Open(ctx, fmt.Sprint(path, files), o)
	}
	d.beside.SetMaxOpenConns(1) // "kept" belongs to the connection
	if _, err := d.beside.ExecContext(t.Context(), "PRAGMA synchronous = OFF; ATTACH ':memory:' AS kept"); err != nil {
		t.Fatal(err)
	}
	return d, true
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

// dumpOf is the content of tables in the order of their keys.
func dumpOf(ctx context.Context, db *sql.DB, tables []string) (string, error) {
	var b strings.Builder
	for _, table := range tables {
		rows, err := db.QueryContext(ctx, fmt.Sprintf("SELECT * FROM %q ORDER BY 1, 2", table))
		if err != nil {
			return "", err
		}
		names, err := rows.Columns()
		if err != nil {
			return "", errors.Join(err, rows.Close())
		}
		fmt.Fprintln(&b, table)
		values, at := make([]any, len(names)), make([]any, len(names))
		for i := range values {
			at[i] = &values[i]
		}
		for rows.Next() {
			if err := rows.Scan(at...); err != nil {
				return "", errors.Join(err, rows.Close())
			}
			for i, v := range values {
				if bytes, ok := v.([]byte); ok {
					v = fmt.Sprintf("%d bytes %x", len(bytes), bytes[:min(len(bytes), 8)])
				}
				fmt.Fprintf(&b, "  %s=%v", names[i], v)
			}
			fmt.Fprintln(&b)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

// connector opens connections of a driver that is not registered.
type connector struct {
	driver driver.Driver
	dsn    string
}

// Connect implements driver.Connector.
func (c connector) Connect(context.Context) (driver.Conn, error) { return c.driver.Open(c.dsn) }

// Driver implements driver.Connector.
func (c connector) Driver() driver.Driver { return c.driver }
