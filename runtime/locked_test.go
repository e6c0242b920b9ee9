package runtime_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/runtime"
)

// Somebody looks at a running job in a transaction and goes for lunch. The answer of its handler has to wait, and nothing else.
func TestLockedJob(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]error{"H2_ack": nil, "H4_retry": handlers.RetryAfter(time.Hour, nil), "H6_release": handlers.Snooze(time.Hour)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, ok := pgtest.New(t)
			if !ok {
				return
			}
			c, err := queue.Open(t.Context(), db.DSN(), &queue.Config{BusyTimeout: 200 * time.Millisecond})
			must(t, err)
			defer func() { must(t, c.Close()) }()
			beside, err := sql.Open("pgx", db.SearchPath())
			must(t, err)
			defer func() { must(t, beside.Close()) }()

			began, finish := make(chan struct{}), make(chan struct{})
			r := serve("held", func(context.Context, *queue.Job) error {
				close(began)
				<-finish
				return answer
			}, handlers.Options{})
			r.Register("others", handlers.HandlerFunc(func(context.Context, *queue.Job) error { return answer }), handlers.Options{})
			id := enqueue(t, c, "held", 1, queue.EnqueueOptions{VisibilityTimeout: time.Hour})[0]
			log := new(logbook)
			w, err := runtime.New(c, r, runtime.Config{Concurrency: 4, Logger: log.logger()})
			must(t, err)
			ended := make(chan error, 1)
			go func() { ended <- w.Run(t.Context()) }()
			receive(t, began)
			tx, err := beside.BeginTx(context.WithoutCancel(t.Context()), nil)
			must(t, err)
			defer func() { _ = tx.Rollback() }()
			_, err = tx.ExecContext(t.Context(), "SELECT 1 FROM __alkstore_live WHERE id = $1 FOR UPDATE", id)
			must(t, err)
			close(finish)

			enqueue(t, c, "others", 40, queue.EnqueueOptions{})
			eventually(t, "the other jobs are answered", func() bool {
				left, err := c.List(t.Context(), queue.Filter{Queue: "others"})
				must(t, err)
				for _, j := range left {
					if j.State != queue.Pending || !j.RunAt.After(j.CreatedAt) {
						return false
					}
				}
				return true
			})
			log.want(t, 1, "somebody's transaction has locked the job")
			must(t, tx.Rollback())
			eventually(t, "the job that was locked is answered", func() bool {
				j, err := c.Get(t.Context(), id)
				must(t, err)
				return j == nil || j.State == queue.Pending
			})
			w.Stop()
			must(t, <-ended)
		})
	}
}

// However short the leases are, and however long one may wait for a lock: a locked job holds up no other, which would lapse
// meanwhile and run again.
func TestLockedJobShortLease(t *testing.T) {
	t.Parallel()
	db, ok := pgtest.New(t)
	if !ok {
		return
	}
	c, err := queue.Open(t.Context(), db.DSN(), &queue.Config{BusyTimeout: time.Hour})
	must(t, err)
	defer func() { must(t, c.Close()) }()
	beside, err := sql.Open("pgx", db.SearchPath())
	must(t, err)
	defer func() { must(t, beside.Close()) }()

	ids := enqueue(t, c, "q", 2, queue.EnqueueOptions{VisibilityTimeout: 2 * time.Second})
	began, finish := make(chan struct{}, 10), make(chan struct{})
	r := serve("q", func(context.Context, *queue.Job) error {
		began <- struct{}{}
		<-finish
		return handlers.Fail(errors.New("for good"))
	}, handlers.Options{})
	w, err := runtime.New(c, r, runtime.Config{Logger: new(logbook).logger()})
	must(t, err)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(t.Context()) }()
	for range ids {
		receive(t, began)
	}
	tx, err := beside.BeginTx(context.WithoutCancel(t.Context()), nil)
	must(t, err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(t.Context(), "SELECT 1 FROM __alkstore_live WHERE id = $1 FOR UPDATE", ids[1])
	must(t, err)
	close(finish)
	dead := func(id int64) func() bool {
		return func() bool {
			j, err := c.Get(t.Context(), id)
			must(t, err)
			return j.State == queue.Dead
		}
	}
	eventually(t, "the other job is answered", dead(ids[0]))
	must(t, tx.Rollback())
	eventually(t, "the job that was locked is answered", dead(ids[1]))
	w.Stop()
	must(t, <-ended)
	if n := len(began); n > 0 {
		t.Errorf("%d jobs ran a second time", n)
	}
}

// eventually waits for something that only a look at the database tells.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	late := time.After(time.Minute)
	for !done() {
		select {
		case <-look.C:
		case <-late:
			t.Fatalf("not within a minute: %s", what)
		}
	}
}
