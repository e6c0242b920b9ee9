package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// oldestServer is the first version with what the statements use: pg_current_snapshot.
const oldestServer = 130000

// Open connects to a database, and creates its tables or brings them up to date. The DSN is what pgx understands, as an
// address or as keywords and values, with one more parameter: "schema".
//
// ErrNewer for a schema from the future, ErrReadOnly for a standby or a user who may not create the tables, ErrUnavailable
// if nobody answers. Nothing is changed by a refusal, and no error holds the password.
//
// Through a pooler such as PgBouncer in transaction mode everything works, but not as fast: statements are planned for
// each call, and other processes are noticed by looking rather than by being told.
func Open(ctx context.Context, dsn string, o Options) (*Store, error) {
	s, err := open(ctx, dsn, o)
	if err != nil {
		return nil, fail("open PostgreSQL database", "", 0, err)
	}
	return s, nil
}

// Is says whether a pool is one that OpenDB takes.
func Is(db *sql.DB) bool {
	_, ok := db.Driver().(*stdlib.Driver)
	return ok
}

// OpenDB opens the database that a pool of the caller is on. The pool itself is only asked where it leads and how: the
// store brings connections of its own, so that neither settings nor limits of the caller's pool touch it.
//
// ErrUnsupported unless the driver is that of pgx.
func OpenDB(ctx context.Context, db *sql.DB, o Options) (*Store, error) {
	s, err := openDB(ctx, db, o)
	if err != nil {
		return nil, fail("open PostgreSQL database", "", 0, err)
	}
	return s, nil
}

func openDB(ctx context.Context, db *sql.DB, o Options) (*Store, error) {
	if !Is(db) {
		return nil, fmt.Errorf("%w: driver %T; open the pool with github.com/jackc/pgx/v5/stdlib", sqlstore.ErrUnsupported,
			db.Driver())
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	var config *pgx.ConnConfig
	err = conn.Raw(func(driver any) error {
		config = driver.(*stdlib.Conn).Conn().Config()
		return nil
	})
	if err := errors.Join(err, conn.Close()); err != nil {
		return nil, err
	}
	to, err := addressOf(config, o)
	if err != nil {
		return nil, err
	}
	return openAt(ctx, to, o)
}

func open(ctx context.Context, dsn string, o Options) (*Store, error) {
	to, err := parse(dsn, o)
	if err != nil {
		return nil, err
	}
	return openAt(ctx, to, o)
}

func openAt(ctx context.Context, to address, o Options) (*Store, error) {
	found, err := setUp(ctx, to)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ended(ctx, err)
		}
		return nil, err
	}
	config, opening := to.direct(o), []step(nil)
	if found.pooler {
		config, opening = to.pooled(o)
	}
	pools, err := openLanes(ctx, config)
	if err != nil {
		return nil, err
	}
	s := &Store{
		options: o, schema: found.schema, all: found.all, lanes: pools, opening: opening,
		lockTimeout: to.lockTimeout(o), frontiers: frontiers{exact: o.Exact},
	}
	s.listener.init(config.ConnConfig, found)
	return s, nil
}

// server is what was found at the other end.
type server struct {
	schema string
	all    statements
	pooler bool // stands between us and the server
}

// setUp brings the schema up to date, over one connection that is closed again.
func setUp(ctx context.Context, to address) (found server, err error) {
	config := to.pool.ConnConfig.Copy()
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // a pooler may be there
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return found, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // its work is committed by then
	anywhere := statementsFor("pg_catalog")
	var version, process int
	var readOnly bool
	var encoding string
	err = ours{on: conn}.run(ctx, anywhere, nil, []step{{"server", nil, func(row scanner) error {
		return row.Scan(&version, &process, &readOnly, &encoding)
	}}})
	switch {
	case err != nil:
		return found, err
	case version < oldestServer:
		return found, fmt.Errorf("%w: the server has version %d, PostgreSQL %d or newer is needed",
			sqlstore.ErrUnsupported, version/10000, oldestServer/10000)
	case encoding != "UTF8": // K88: what it cannot encode would stand in the way of a change of state
		return found, fmt.Errorf("%w: the database has the encoding %s, UTF8 is needed", sqlstore.ErrUnsupported, encoding)
	case readOnly:
		return found, fmt.Errorf("%w: the server is a standby, or its transactions are read-only by default", sqlstore.ErrReadOnly)
	}
	// A pooler gives its clients numbers of its own.
	found.pooler = uint32(process) != conn.PgConn().PID()
	found.schema = to.schema
	if found.schema == "" {
		var current *string
		err = ours{on: conn}.run(ctx, anywhere, nil, []step{{"schema_current", nil, func(row scanner) error {
			return row.Scan(&current)
		}}})
		if err != nil {
			return found, err
		}
		if current == nil {
			return found, fmt.Errorf("no schema of the search path exists: name one with the parameter schema")
		}
		found.schema = *current
		if err := checkSchema(found.schema); err != nil {
			return found, err
		}
	}
	found.all = statementsFor(found.schema)
	return found, migrate(ctx, conn, found.all, found.schema)
}
