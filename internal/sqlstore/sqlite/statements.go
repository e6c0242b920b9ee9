package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"strings"
	"sync"
)

//go:embed sql/*.sql
var statementFiles embed.FS

// Two habits of SQLite and its driver shape the texts, since each would parse a statement anew for every call:
// a LIMIT that is a bare parameter (hence "LIMIT 0 + :limit"), and a parameter that is compared with the condition of a
// partial index.

// statement is the text of one file in sql/, by name without the suffix.
func statement(name string) string {
	text, err := statementFiles.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(fmt.Sprintf("sqlite: statement %q does not exist", name)) // a typo in this package
	}
	// With anything behind the statement, were it a line break, the driver takes it for a script and parses it anew for
	// each call.
	return strings.TrimSuffix(strings.TrimSpace(string(text)), ";")
}

// preparer is what a statement can be prepared on: a pool, one connection, or a transaction of the caller.
type preparer interface {
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// session runs statements by name and keeps each prepared: preparing costs more than most of them.
type session struct {
	on preparer

	mu       sync.Mutex
	prepared map[string]*sql.Stmt
}

func newSession(on preparer) *session {
	return &session{on: on, prepared: make(map[string]*sql.Stmt)}
}

func (s *session) stmt(ctx context.Context, name string) (*sql.Stmt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st, ok := s.prepared[name]; ok {
		return st, nil
	}
	st, err := s.on.PrepareContext(ctx, statement(name))
	if err != nil {
		return nil, err
	}
	s.prepared[name] = st
	return st, nil
}

func (s *session) exec(ctx context.Context, name string, args ...any) (sql.Result, error) {
	st, err := s.stmt(ctx, name)
	if err != nil {
		return nil, err
	}
	return st.ExecContext(ctx, args...)
}

// query hands each row to scan and reads to the end: SQLite runs a statement with RETURNING wholly only then.
func (s *session) query(ctx context.Context, name string, scan func(*sql.Rows) error, args ...any) (err error) {
	st, err := s.stmt(ctx, name)
	if err != nil {
		return err
	}
	rows, err := st.QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := rows.Close(); err == nil {
			err = cerr
		}
	}()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// one reads the single row of a statement into dest; false if there is none.
func (s *session) one(ctx context.Context, name string, dest []any, args ...any) (found bool, err error) {
	err = s.query(ctx, name, func(rows *sql.Rows) error {
		found = true
		return rows.Scan(dest...)
	}, args...)
	return found, err
}

func (s *session) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var first error
	for _, st := range s.prepared {
		if err := st.Close(); err != nil && first == nil {
			first = err
		}
	}
	clear(s.prepared)
	return first
}
