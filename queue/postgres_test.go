package queue_test

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
	"github.com/alkstore/alkworker/queue"
)

func openPostgres(t *testing.T, dsn string, cfg *queue.Config) *queue.Client {
	t.Helper()
	c, err := queue.Open(t.Context(), dsn, cfg)
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	return c
}

func TestPostgres(t *testing.T) {
	db, ok := pgtest.New(t)
	if !ok {
		return
	}
	numbers := queue.Define[int]("numbers", queue.Options{VisibilityTimeout: time.Minute})
	c := openPostgres(t, db.DSN(), nil)
	t.Run("the_address_is_all_that_changes", func(t *testing.T) {
		ids, err := numbers.EnqueueMany(t.Context(), c, []int{1, 2, 3}, nil)
		must(t, err)
		jobs, err := c.Claim(t.Context(), "numbers", "me", 10)
		must(t, err)
		var values []int
		var handles []queue.Handle
		for _, j := range jobs {
			v, err := numbers.Decode(j.Payload)
			must(t, err)
			values, handles = append(values, v), append(handles, j.Handle())
		}
		if !slices.Equal(values, []int{1, 2, 3}) || jobs[0].ID != ids[0] {
			t.Errorf("claimed: got %v", values)
		}
		held, err := c.Ack(t.Context(), handles[:2]...)
		must(t, err)
		failed, err := c.Fail(t.Context(), queue.Failed{Handle: handles[2], Err: "NUL \x00 and \xff"})
		must(t, err)
		job, err := c.Get(t.Context(), ids[2])
		must(t, err)
		if !held[0] || !held[1] || !failed[0] || job.State != queue.Dead || job.LastError != "NUL \ufffd and \ufffd" {
			t.Errorf("acked %v, failed %v, then %+v", held, failed, job)
		}
		n, err := c.PurgeAll(t.Context(), queue.DeadFilter{})
		must(t, err)
		problems, err := c.Check(t.Context())
		must(t, err)
		if n != 1 || len(problems) > 0 {
			t.Errorf("purged %d, problems %v", n, problems)
		}
		if err := c.Backup(t.Context(), "copy"); !errors.Is(err, queue.ErrUnsupported) || !strings.Contains(err.Error(), "pg_dump") {
			t.Errorf("backup: got %v, want ErrUnsupported that says what to use", err)
		}
	})
	t.Run("E5_H2_a_transaction_of_the_callers_own_pool", func(t *testing.T) {
		beside, err := sql.Open("pgx", db.SearchPath())
		must(t, err)
		defer func() { must(t, beside.Close()) }()
		own, err := queue.OpenDB(t.Context(), beside, nil)
		must(t, err)
		defer func() { must(t, own.Close()) }()
		_, err = beside.ExecContext(t.Context(), "CREATE TABLE orders (n bigint)")
		must(t, err)
		for _, commit := range []bool{false, true} {
			tx, err := beside.BeginTx(t.Context(), nil)
			must(t, err)
			_, err = tx.ExecContext(t.Context(), "INSERT INTO orders VALUES (1)")
			must(t, err)
			_, err = numbers.EnqueueTx(t.Context(), own, tx, 7, nil)
			must(t, err)
			end := tx.Rollback
			if commit {
				end = tx.Commit
			}
			must(t, end())
		}
		jobs, err := c.Claim(t.Context(), "numbers", "me", 10)
		must(t, err)
		if len(jobs) != 1 {
			t.Fatalf("claimed: got %d jobs, want the one that was committed", len(jobs))
		}
		tx, err := beside.BeginTx(t.Context(), nil)
		must(t, err)
		held, err := own.AckTx(t.Context(), tx, jobs[0].Handle())
		must(t, err)
		must(t, tx.Commit())
		gone, err := c.Get(t.Context(), jobs[0].ID)
		must(t, err)
		if !held[0] || gone != nil {
			t.Errorf("acked %v, job %+v", held, gone)
		}
	})
	t.Run("T5_an_address_that_leads_nowhere", func(t *testing.T) {
		_, err := queue.Open(t.Context(), "postgres://u:secret@127.0.0.1:1/db?sslmode=disable", nil)
		if !errors.Is(err, queue.ErrUnavailable) || strings.Contains(fmt.Sprint(err), "secret") {
			t.Errorf("got %v, want ErrUnavailable and no password", err)
		}
		_, err = queue.Open(t.Context(), db.DSN(), &queue.Config{MaxPayload: -1})
		if !errors.Is(err, queue.ErrInvalid) {
			t.Errorf("an invalid config: got %v, want ErrInvalid", err)
		}
	})
}
