package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"

	_ "modernc.org/sqlite" // the driver of every subject on a file
)

// driver is the driver of a peer on a file.
type driver string

// driverName is that of the pure Go driver, which all subjects use unless they say otherwise.
const driverName driver = "sqlite"

// peerPool is the pool of a peer on a file: WAL, a busy timeout of five seconds, transactions that take the write lock
// when they begin, and one connection, as the documents of goqite and River say; backlite is fastest with it as well.
func peerPool(s *Spec, path string) (*sql.DB, error) {
	q := url.Values{
		"_txlock": {"immediate"},
		"_pragma": {"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(" + s.Sync + ")", "foreign_keys(1)"},
	}
	name := driverName
	if s.Driver != "" {
		// The same in the words of the C library's driver.
		name = s.Driver
		q = url.Values{"_txlock": {"immediate"}, "_timeout": {"5000"}, "_journal": {"WAL"}, "_sync": {s.Sync}, "_fk": {"true"}}
	}
	db, err := sql.Open(string(name), (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	db.SetMaxIdleConns(1)
	return db, nil
}

// countRows runs a query whose answer is one number.
func countRows(ctx context.Context, db *sql.DB, query string) (n int, err error) {
	err = db.QueryRowContext(ctx, query).Scan(&n)
	return n, err
}

// walPin keeps a WAL from being started over, so that its length says how much was written to it.
type walPin struct {
	db   *sql.DB
	tx   *sql.Tx
	path string
}

// pinWAL begins a reading transaction and stays in it. The database must exist and have something in its log.
func pinWAL(ctx context.Context, path string) (*walPin, error) {
	// Deferred, unlike those of the subjects: it must never take the write lock.
	q := url.Values{"_pragma": {"busy_timeout(5000)", "query_only(1)"}}
	db, err := sql.Open(string(driverName), (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String())
	if err != nil {
		return nil, err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err == nil {
		var n int
		err = tx.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&n)
	}
	if err != nil {
		_ = db.Close() // the error above says more
		return nil, fmt.Errorf("pin the log of %s: %w", path, err)
	}
	return &walPin{db: db, tx: tx, path: path}, nil
}

func (w *walPin) bytes() (int64, error) { return fileSize(w.path + "-wal") }

func (w *walPin) release() {
	_ = w.tx.Rollback() // it has only read
	_ = w.db.Close()
}

func fileSize(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
