package faultdriver

import (
	"context"
	"database/sql/driver"
)

// conn is one connection. It offers what database/sql asks of modern drivers and relies on the driver below to have it.
type conn struct {
	driver.Conn
	driver *Driver
	broken bool
	stmts  map[*stmt]bool // not closed
}

// PrepareContext implements driver.ConnPrepareContext.
func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	under, err := call(c.driver, c, "prepare "+query, func() (driver.Stmt, error) {
		return c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
	})
	if err != nil {
		if under != nil {
			_ = under.Close()
		}
		return nil, err
	}
	s := &stmt{Stmt: under, conn: c, query: query}
	c.stmts[s] = true
	return s, nil
}

// ExecContext implements driver.ExecerContext.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return call(c.driver, c, "exec "+query, func() (driver.Result, error) {
		return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
	})
}

// QueryContext implements driver.QueryerContext.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.rows("query "+query, func() (driver.Rows, error) {
		return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
	})
}

func (c *conn) rows(what string, do func() (driver.Rows, error)) (driver.Rows, error) {
	under, err := call(c.driver, c, what, do)
	if err != nil {
		if under != nil {
			_ = under.Close()
		}
		return nil, err
	}
	c.driver.count(func(o *Open) { o.Rows++ })
	return &rows{Rows: under, conn: c, what: what}, nil
}

// BeginTx implements driver.ConnBeginTx.
func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	under, err := call(c.driver, c, "begin", func() (driver.Tx, error) {
		return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
	})
	if err != nil {
		if under != nil {
			_ = under.Rollback()
		}
		return nil, err
	}
	c.driver.count(func(o *Open) { o.Txs++ })
	return &tx{under: under, conn: c}, nil
}

// ResetSession implements driver.SessionResetter.
func (c *conn) ResetSession(ctx context.Context) error {
	if c.broken {
		return driver.ErrBadConn
	}
	return c.Conn.(driver.SessionResetter).ResetSession(ctx)
}

// IsValid implements driver.Validator.
func (c *conn) IsValid() bool { return !c.broken && c.Conn.(driver.Validator).IsValid() }

// Close implements driver.Conn. database/sql closes the statements of a broken connection after the connection itself,
// which not every driver survives, and some keep their locks for as long as a statement is open.
func (c *conn) Close() error {
	for s := range c.stmts {
		_ = s.Close()
	}
	c.driver.count(func(o *Open) { o.Conns-- })
	return c.Conn.Close()
}

type stmt struct {
	driver.Stmt
	conn  *conn
	query string
}

// Close implements driver.Stmt.
func (s *stmt) Close() error {
	if !s.conn.stmts[s] {
		return driver.ErrBadConn
	}
	delete(s.conn.stmts, s)
	return s.Stmt.Close()
}

// ExecContext implements driver.StmtExecContext.
func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return call(s.conn.driver, s.conn, "exec "+s.query, func() (driver.Result, error) {
		return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
	})
}

// QueryContext implements driver.StmtQueryContext.
func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.conn.rows("query "+s.query, func() (driver.Rows, error) {
		return s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
	})
}

type rows struct {
	driver.Rows
	conn *conn
	what string
}

// Next implements driver.Rows.
func (r *rows) Next(dest []driver.Value) error {
	_, err := call(r.conn.driver, r.conn, "next of "+r.what, func() (struct{}, error) {
		return struct{}{}, r.Rows.Next(dest)
	})
	return err
}

// Close implements driver.Rows.
func (r *rows) Close() error {
	r.conn.driver.count(func(o *Open) { o.Rows-- })
	return r.Rows.Close()
}

type tx struct {
	under driver.Tx
	conn  *conn
}

// Commit implements driver.Tx.
func (t *tx) Commit() error { return t.end("commit", t.under.Commit) }

// Rollback implements driver.Tx.
func (t *tx) Rollback() error { return t.end("rollback", t.under.Rollback) }

func (t *tx) end(what string, do func() error) error {
	t.conn.driver.count(func(o *Open) { o.Txs-- })
	_, err := call(t.conn.driver, t.conn, what, func() (struct{}, error) { return struct{}{}, do() })
	return err
}
