package queue

import (
	"context"
	"database/sql"
	"errors"

	"github.com/alkstore/alkworker/internal/sqlstore/sqlite"
)

// Open opens a database and creates its schema or brings it up to date. The DSN is the path of an SQLite file, which is
// created with mode 0600 if it is not there, or "sqlite:" followed by such a path; the path is taken literally, whatever
// characters it has. ":memory:" is refused. The error names the path. Close the client when it is no longer needed.
func Open(ctx context.Context, dsn string, cfg *Config) (*Client, error) {
	r, problem := cfg.resolve()
	path, err := sqlitePath(dsn)
	if err := errors.Join(problem, err); err != nil {
		return nil, failed("open", "", 0, err)
	}
	store, err := sqlite.Open(ctx, path, r.sqlite())
	if err != nil {
		return nil, err // with the path as part of its operation
	}
	return &Client{store: store, cfg: r}, nil
}

// OpenDB is Open for the file that a pool of the caller is on, so that jobs and the caller's own tables share a database
// and, with EnqueueTx and AckTx, a transaction. The pool must be of the driver "sqlite" (modernc.org/sqlite) and should
// be opened with SQLiteDSN. It serves those transactions only: everything else runs on connections of the client's own.
// Close leaves it open.
func OpenDB(ctx context.Context, db *sql.DB, cfg *Config) (*Client, error) {
	r, problem := cfg.resolve()
	if db == nil {
		problem = errors.Join(problem, invalidf("the pool is nil"))
	}
	if problem != nil {
		return nil, failed("open", "", 0, problem)
	}
	store, err := sqlite.OpenDB(ctx, db, r.sqlite())
	if err != nil {
		return nil, err
	}
	return &Client{store: store, cfg: r}, nil
}

// SQLiteDSN is what to give to sql.Open("sqlite", …) for a pool that OpenDB takes: the same settings on each connection
// as the client's own have, with foreign keys on, and transactions that take the write lock when they begin. A deferred
// one that reads before it writes fails as soon as another connection has written in between. The path is taken
// literally.
func SQLiteDSN(path string) string { return sqlite.DSN(path, sqlite.Options{}) }

func (c Config) sqlite() sqlite.Options {
	return sqlite.Options{BusyTimeout: c.BusyTimeout, Synchronous: c.Synchronous.String()}
}
