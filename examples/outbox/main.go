// Outbox keeps a shop's orders and its jobs in one database file, so that they are never out of step:
//
//   - An order and the job that ships it are stored in one transaction: both exist, or neither.
//   - The handler writes the shipment and ends its job in one transaction: each order is shipped exactly once, although
//     the first attempt at one of them crashes just before the commit, and at another just after it.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/runtime"
)

// Order is the payload: which row of the table orders to ship.
type Order struct{ ID int64 }

var shipping = queue.Define[Order]("shipping", queue.Options{BackoffBase: queue.NoBackoff})

const schema = `
CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS shipments (order_id INTEGER NOT NULL REFERENCES orders (id)) STRICT;`

func main() {
	dir, err := os.MkdirTemp("", "outbox")
	if err != nil {
		log.Fatal(err)
	}
	err = run(context.Background(), filepath.Join(dir, "shop.db"), os.Stdout)
	if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, path string, out io.Writer) (err error) {
	// The driver "sqlite" comes with package queue.
	db, err := sql.Open("sqlite", queue.SQLiteDSN(path))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return err
	}
	client, err := queue.OpenDB(ctx, db, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()

	s := &shop{db: db, client: client, out: out}
	for _, item := range []string{"anvil", "rope", "dynamite"} {
		if err := s.order(ctx, item); err != nil {
			return err
		}
	}
	if err := s.order(ctx, ""); err != nil {
		fmt.Fprintln(out, "refused:", err)
	}

	registry := handlers.NewRegistry()
	handlers.Handle(registry, shipping, s.ship, handlers.Options{Concurrency: 1})
	worker, err := runtime.New(client, registry, runtime.Config{UntilIdle: true})
	if err != nil {
		return err
	}
	if err := worker.Run(ctx); err != nil {
		return err
	}
	return s.report(ctx)
}

type shop struct {
	db     *sql.DB
	client *queue.Client
	out    io.Writer
}

// order stores an order and the job that ships it: both, or neither.
func (s *shop) order(ctx context.Context, item string) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	res, err := tx.ExecContext(ctx, `INSERT INTO orders (item) VALUES (?)`, item)
	if err != nil {
		return err
	}
	id, err := res.LastInsertId()
	if err != nil {
		return err
	}
	if _, err := shipping.EnqueueTx(ctx, s.client, tx, Order{ID: id}, nil); err != nil {
		return err
	}
	if item == "" { // found out late, after the job was enqueued
		return errors.New("an order of nothing")
	}
	return tx.Commit()
}

// ship stores a shipment and ends the job: both, or neither.
func (s *shop) ship(ctx context.Context, o Order) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	if _, err := tx.ExecContext(ctx, `INSERT INTO shipments (order_id) VALUES (?)`, o.ID); err != nil {
		return err
	}
	s.crash(ctx, o, 2, "before the commit")
	if err := handlers.AckTx(ctx, tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	s.crash(ctx, o, 3, "after the commit")
	fmt.Fprintf(s.out, "order %d: shipped\n", o.ID)
	return nil
}

// crash stands for whatever can happen to a program between two statements. It happens to one order, once.
func (s *shop) crash(ctx context.Context, o Order, id int64, when string) {
	if o.ID == id && handlers.JobFromContext(ctx).Attempt == 1 {
		fmt.Fprintf(s.out, "order %d: crash %s\n", o.ID, when)
		panic("crash")
	}
}

func (s *shop) report(ctx context.Context) error {
	var orders, shipments, shipped int
	err := s.db.QueryRowContext(ctx, `
		SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM shipments),
			(SELECT count(DISTINCT order_id) FROM shipments)`).Scan(&orders, &shipments, &shipped)
	if err != nil {
		return err
	}
	left, err := s.client.List(ctx, queue.Filter{Queue: shipping.Name()})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "%d orders, %d of them shipped by %d shipments, %d jobs left\n",
		orders, shipped, shipments, len(left))
	return err
}
