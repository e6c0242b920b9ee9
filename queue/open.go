package queue

import (
	"context"
	"database/sql"
	"errors"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres"
	"github.com/alkstore/alkworker/internal/sqlstore/sqlite"
)

// Open opens a database and creates its tables or brings them up to date. Close the client when it is no longer needed.
//
// The DSN is the path of an SQLite file, which is created with mode 0600 if it is not there, or "sqlite:" followed by
// such a path; the path is taken literally, whatever characters it has. ":memory:" is refused. The error names the path.
//
// Or it is the address of a PostgreSQL database, postgres://user:password@host:port/database?name=value, with the
// parameters that libpq and pgx know, such as sslmode and pool_max_conns, and "schema", which holds the tables and is
// created if it is not there; without it, they are where the server puts a table that is given no schema. No error holds
// the password.
func Open(ctx context.Context, dsn string, cfg *Config) (*Client, error) {
	r, problem := cfg.resolve()
	if isPostgres(dsn) {
		if problem != nil {
			return nil, failed("open", "", 0, problem)
		}
		return opened(r)(postgres.Open(ctx, dsn, r.postgres()))
	}
	path, err := sqlitePath(dsn)
	if err := errors.Join(problem, err); err != nil {
		return nil, failed("open", "", 0, err)
	}
	return opened(r)(sqlite.Open(ctx, path, r.sqlite()))
}

// opened makes a client of what a store's Open returns. Its error has the path or the address as part of its operation.
func opened(r Config) func(store sqlstore.Store, err error) (*Client, error) {
	return func(store sqlstore.Store, err error) (*Client, error) {
		if err != nil {
			return nil, err
		}
		return &Client{store: store, cfg: r}, nil
	}
}

// OpenDB is Open for the database that a pool of the caller is on, so that jobs and the caller's own tables share it and,
// with EnqueueTx and AckTx, a transaction. The pool serves those transactions only: everything else runs on connections
// of the client's own. Close leaves it open.
//
// The pool must be of the driver "sqlite" (modernc.org/sqlite), and should then be opened with SQLiteDSN, or of the driver
// "pgx" (github.com/jackc/pgx/v5/stdlib).
func OpenDB(ctx context.Context, db *sql.DB, cfg *Config) (*Client, error) {
	r, problem := cfg.resolve()
	if db == nil {
		problem = errors.Join(problem, invalidf("the pool is nil"))
	}
	if problem != nil {
		return nil, failed("open", "", 0, problem)
	}
	if postgres.Is(db) {
		return opened(r)(postgres.OpenDB(ctx, db, r.postgres()))
	}
	return opened(r)(sqlite.OpenDB(ctx, db, r.sqlite()))
}

// SQLiteDSN is what to give to sql.Open("sqlite", …) for a pool that OpenDB takes: the same settings on each connection
// as the client's own have, with foreign keys on, and transactions that take the write lock when they begin. A deferred
// one that reads before it writes fails as soon as another connection has written in between. The path is taken
// literally.
func SQLiteDSN(path string) string { return sqlite.DSN(path, sqlite.Options{}) }

func (c Config) sqlite() sqlite.Options {
	return sqlite.Options{BusyTimeout: c.BusyTimeout, Synchronous: c.Synchronous.String()}
}

func (c Config) postgres() postgres.Options { return postgres.Options{BusyTimeout: c.BusyTimeout} }
