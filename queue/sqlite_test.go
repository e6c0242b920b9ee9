package queue_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/alkstore/alkworker/internal/sqlstore/sqlite"
	"github.com/alkstore/alkworker/queue"
)

// openFile returns a client over a new SQLite file, a pool of the caller on the same file, and the clock.
func openFile(t *testing.T) (*queue.Client, *sql.DB, *clock) {
	t.Helper()
	clock := newClock()
	path := filepath.Join(t.TempDir(), "jobs.db")
	store, err := sqlite.Open(t.Context(), path, sqlite.Options{Clock: clock.unix, Synchronous: "NORMAL"})
	must(t, err)
	c := queue.NewClient(store, nil)
	t.Cleanup(func() { must(t, c.Close()) })
	return c, openPool(t, path), clock
}

func openPool(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", queue.SQLiteDSN(path))
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	return db
}

func begin(t *testing.T, db *sql.DB) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	t.Cleanup(func() { _ = tx.Rollback() }) // of no effect after a commit
	return tx
}

func TestSQLiteTransactions(t *testing.T) {
	numbers := queue.Define[int]("q", queue.Options{})

	t.Run("E5_enqueue_exists_exactly_if_the_transaction_commits", func(t *testing.T) {
		c, db, _ := openFile(t)
		_, err := db.ExecContext(t.Context(), "CREATE TABLE orders (id INTEGER PRIMARY KEY, job INTEGER)")
		must(t, err)
		for commit, want := range map[bool]int{false: 0, true: 3} {
			tx := begin(t, db)
			id, err := numbers.EnqueueTx(t.Context(), c, tx, 1, nil)
			must(t, err)
			_, err = tx.ExecContext(t.Context(), "INSERT INTO orders (job) VALUES (?)", id)
			must(t, err)
			ids, err := numbers.EnqueueManyTx(t.Context(), c, tx, []int{2, 3}, nil)
			must(t, err)
			if len(ids) != 2 || ids[0] <= id || ids[1] <= ids[0] {
				t.Errorf("E6: got ids %v after %d, want two in order", ids, id)
			}
			if j, err := c.Get(t.Context(), id); j != nil || err != nil {
				t.Errorf("before the end: got %v, %v; want no job", j, err)
			}
			if commit {
				must(t, tx.Commit())
			} else {
				must(t, tx.Rollback())
			}
			jobs, err := c.Claim(t.Context(), "q", "w", 10)
			if err != nil || len(jobs) != want {
				t.Errorf("commit %v: claimed %d jobs, %v; want %d", commit, len(jobs), err, want)
			}
		}
	})
	t.Run("E5_a_failed_enqueue_leaves_the_transaction_usable", func(t *testing.T) {
		c, db, _ := openFile(t)
		tx := begin(t, db)
		_, err := numbers.EnqueueManyTx(t.Context(), c, tx, []int{1, 2}, &queue.EnqueueOptions{Delay: time.Hour, Expires: 1})
		wantError(t, err, "enqueue", "q", 0, queue.ErrExpiresFirst)
		_, err = numbers.EnqueueTx(t.Context(), c, tx, 3, nil)
		must(t, err)
		must(t, tx.Commit())
		if got, want := count(t, c), "1 ready, 0 dead"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	t.Run("E5_ended_transaction", func(t *testing.T) {
		c, db, _ := openFile(t)
		tx := begin(t, db)
		must(t, tx.Rollback())
		_, err := numbers.EnqueueTx(t.Context(), c, tx, 1, nil)
		wantError(t, err, "enqueue", "q", 0, sql.ErrTxDone)
		_, err = c.AckTx(t.Context(), tx, queue.Handle{ID: 7, Fence: 1})
		wantError(t, err, "ack", "", 7, sql.ErrTxDone)
	})
	t.Run("H2_ack_ends_the_job_exactly_if_the_transaction_commits", func(t *testing.T) {
		c, db, clock := openFile(t)
		enqueue(t, c, queue.EnqueueOptions{VisibilityTimeout: 10 * time.Second})
		job := claim(t, c)
		ack := func(h queue.Handle, want, commit bool) {
			t.Helper()
			tx := begin(t, db)
			held, err := c.AckTx(t.Context(), tx, h)
			only(t, "ack", held, err, want)
			if commit {
				must(t, tx.Commit())
			} else {
				must(t, tx.Rollback())
			}
		}
		ack(job.Handle(), true, false)
		if got := get(t, c, job.ID).State; got != queue.Processing {
			t.Errorf("after a rollback: got %s, want processing", got)
		}
		ack(queue.Handle{ID: job.ID, Fence: 2}, false, true)
		clock.advance(11 * time.Second)
		ack(job.Handle(), false, true) // K2
		again := claim(t, c)
		ack(job.Handle(), false, true)
		ack(again.Handle(), true, true)
		if j, err := c.Get(t.Context(), job.ID); j != nil || err != nil {
			t.Errorf("after a commit: got %v, %v; want no job", j, err)
		}
	})
}

func TestSQLiteValues(t *testing.T) {
	t.Run("E7_K42_extremes_come_back", func(t *testing.T) {
		c, _, _ := openFile(t)
		end := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
		ids, err := c.Enqueue(t.Context(),
			queue.NewJob{Queue: "q", Payload: nil, EnqueueOptions: queue.EnqueueOptions{Priority: math.MinInt, RunAt: time.Unix(0, 0)}},
			queue.NewJob{Queue: "q", Payload: []byte("\x00\xff"), EnqueueOptions: queue.EnqueueOptions{Priority: math.MaxInt, RunAt: end}},
			queue.NewJob{
				Queue:   strings.Repeat("ж", 64),
				Options: queue.Options{VisibilityTimeout: year, MaxAttempts: math.MaxInt32, BackoffBase: year, DeadLetterRetention: math.MaxInt64},
				EnqueueOptions: queue.EnqueueOptions{
					Delay: math.MaxInt64, Expires: math.MaxInt64,
				},
			})
		must(t, err)
		a, b, d := get(t, c, ids[0]), get(t, c, ids[1]), get(t, c, ids[2])
		if a.Priority != math.MinInt || a.Payload == nil || len(a.Payload) != 0 || a.RunAt.Unix() != 0 {
			t.Errorf("got priority %d, payload %#v, run at %v", a.Priority, a.Payload, a.RunAt)
		}
		if b.Priority != math.MaxInt || string(b.Payload) != "\x00\xff" || !b.RunAt.Equal(end) {
			t.Errorf("got priority %d, payload %q, run at %v", b.Priority, b.Payload, b.RunAt)
		}
		if d.VisibilityTimeout != year || d.MaxAttempts != math.MaxInt32 || d.BackoffBase != year ||
			d.DeadLetterRetention != math.MaxInt64/time.Second*time.Second || !d.RunAt.Equal(d.ExpiresAt) {
			t.Errorf("got %+v", d)
		}
		jobs, err := c.Claim(t.Context(), "q", "w", math.MaxInt)
		if err != nil || len(jobs) != 1 || jobs[0].ID != a.ID {
			t.Errorf("claimed %v, %v; want the job of 1970", jobs, err)
		}
	})
	t.Run("K88_texts", func(t *testing.T) {
		c, _, _ := openFile(t)
		for _, text := range []string{"a\x00b", "a\xffb", strings.Repeat("\x00\xff€", 1<<17)} {
			id := enqueue(t, c, queue.EnqueueOptions{MaxAttempts: 1})
			verdicts, err := c.Retry(t.Context(), queue.Retry{Job: claim(t, c), Err: text, Stack: text})
			only(t, "retry", verdicts, err, queue.Buried)
			j := get(t, c, id)
			for _, got := range []string{j.LastError, j.Failures[0].Error, j.Failures[0].Stack} {
				if len(got) < 3 || !utf8.ValidString(got) || strings.ContainsRune(got, 0) {
					t.Errorf("got %.20q of %d bytes for %.10q", got, len(got), text)
				}
			}
		}
	})
	t.Run("K92_whole_payloads_on_request", func(t *testing.T) {
		c, _, _ := openFile(t)
		_, err := c.Enqueue(t.Context(), queue.NewJob{Queue: "q", Payload: make([]byte, 100_000)})
		must(t, err)
		for limit, want := range map[int]int{0: 256, -1: 100_000} {
			jobs, err := c.List(t.Context(), queue.Filter{PayloadLimit: limit})
			if err != nil || len(jobs[0].Payload) != want || jobs[0].PayloadSize != 100_000 {
				t.Errorf("limit %d: got %d bytes of %d, %v; want %d", limit, len(jobs[0].Payload), jobs[0].PayloadSize, err, want)
			}
		}
	})
	t.Run("D4_bulk_in_bites", func(t *testing.T) {
		c, _, clock := openFile(t)
		buryMany(t, c, 1001)
		clock.advance(time.Hour)
		bury(t, c, "")
		if n, err := c.RequeueAll(t.Context(), queue.DeadFilter{Queue: "q", OlderThan: time.Hour}); n != 1001 || err != nil {
			t.Errorf("requeue: got %d, %v; want 1001", n, err)
		}
		if n, err := c.PurgeAll(t.Context(), queue.DeadFilter{}); n != 1 || err != nil {
			t.Errorf("purge: got %d, %v; want 1", n, err)
		}
		if got, want := count(t, c), "1001 ready, 0 dead"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

func TestOpen(t *testing.T) {
	t.Run("path_is_literal", func(t *testing.T) {
		dir := t.TempDir()
		t.Chdir(dir)
		for dsn, file := range map[string]string{
			"jobs.db": "jobs.db", "sqlite:other.db": "other.db", "./:memory:": ":memory:",
			"a b?mode=ro&x#y%20.db": "a b?mode=ro&x#y%20.db", "file:f.db": "file:f.db",
		} {
			c, err := queue.Open(t.Context(), dsn, &queue.Config{Synchronous: queue.Normal})
			must(t, err)
			enqueue(t, c, queue.EnqueueOptions{})
			must(t, c.Close())
			info, err := os.Stat(filepath.Join(dir, file))
			must(t, err)
			if info.Size() == 0 {
				t.Errorf("%s: %s is empty", dsn, file)
			}
		}
	})
	t.Run("T5_refusals", func(t *testing.T) {
		for dsn, want := range map[string]error{"": queue.ErrInvalid, ":memory:": queue.ErrInvalid} {
			_, err := queue.Open(t.Context(), dsn, nil)
			wantError(t, err, "open", "", 0, want)
		}
		_, err := queue.Open(t.Context(), "", &queue.Config{MaxPayload: -1, BusyTimeout: -1})
		wantError(t, err, "open", "", 0, queue.ErrInvalid)
		for _, part := range []string{"no database given", "max payload", "busy timeout"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("got %v, want also %q", err, part)
			}
		}
	})
	t.Run("K61_error_names_path_and_cause", func(t *testing.T) {
		dir := t.TempDir()
		text := filepath.Join(dir, "text")
		must(t, os.WriteFile(text, []byte(strings.Repeat("no database\n", 100)), 0o600))
		for path, want := range map[string]error{
			text: queue.ErrCorrupt, dir: queue.ErrUnavailable, filepath.Join(dir, "none", "jobs.db"): queue.ErrUnavailable,
		} {
			_, err := queue.Open(t.Context(), path, nil)
			var e *queue.Error
			if !errors.As(err, &e) || !errors.Is(err, want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want %v and the path", err, want)
			}
		}
	})
	t.Run("ErrBusy_is_transient", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "jobs.db")
		c, err := queue.Open(t.Context(), path, &queue.Config{BusyTimeout: time.Millisecond})
		must(t, err)
		tx := begin(t, openPool(t, path)) // immediate: it holds the write lock
		_, err = c.Enqueue(t.Context(), queue.NewJob{Queue: "q"})
		wantError(t, err, "enqueue", "q", 0, queue.ErrBusy)
		if !queue.Transient(err) {
			t.Errorf("%v is not transient", err)
		}
		must(t, tx.Rollback())
		enqueue(t, c, queue.EnqueueOptions{})
		must(t, c.Close())
	})
	t.Run("T5_closed", func(t *testing.T) {
		c, err := queue.Open(t.Context(), filepath.Join(t.TempDir(), "jobs.db"), nil)
		must(t, err)
		must(t, c.Close())
		must(t, c.Close())
		_, err = c.Claim(t.Context(), "q", "w", 1)
		wantError(t, err, "claim", "q", 0, queue.ErrClosed)
	})
}

func TestOpenDB(t *testing.T) {
	t.Run("shares_the_file_and_leaves_the_pool_open", func(t *testing.T) {
		db := openPool(t, filepath.Join(t.TempDir(), "app.db"))
		_, err := db.ExecContext(t.Context(), "CREATE TABLE users (id INTEGER PRIMARY KEY)")
		must(t, err)
		c, err := queue.OpenDB(t.Context(), db, &queue.Config{Synchronous: queue.Normal})
		must(t, err)
		tx := begin(t, db)
		ids, err := c.EnqueueTx(t.Context(), tx, queue.NewJob{Queue: "q"})
		must(t, err)
		must(t, tx.Commit())
		if j := get(t, c, ids[0]); j.State != queue.Pending {
			t.Errorf("got %s, want pending", j.State)
		}
		must(t, c.Close())
		must(t, db.PingContext(t.Context()))
	})
	t.Run("refusals", func(t *testing.T) {
		_, err := queue.OpenDB(t.Context(), nil, nil)
		wantError(t, err, "open", "", 0, queue.ErrInvalid)
		db, err := sql.Open("sqlite", ":memory:")
		must(t, err)
		_, err = queue.OpenDB(t.Context(), db, nil) // K68
		wantError(t, err, "open", "", 0, queue.ErrUnsupported)
		must(t, db.Close())
	})
	t.Run("K49_dsn_sets_every_connection", func(t *testing.T) {
		db := openPool(t, filepath.Join(t.TempDir(), "a b?c#d%20.db"))
		var connections []*sql.Conn
		for range 3 {
			conn, err := db.Conn(t.Context())
			must(t, err)
			connections = append(connections, conn)
		}
		for _, conn := range connections {
			var got []string
			for _, pragma := range []string{"journal_mode", "synchronous", "foreign_keys", "busy_timeout"} {
				var v string
				must(t, conn.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&v))
				got = append(got, v)
			}
			if fmt.Sprint(got) != "[wal 2 1 5000]" {
				t.Errorf("got %v, want WAL, FULL, foreign keys and 5 s", got)
			}
			must(t, conn.Close())
		}
	})
}

func TestSQLiteCancelled(t *testing.T) {
	t.Run("T6_a_cancelled_call_changes_nothing", func(t *testing.T) {
		c, _, _ := openFile(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := c.Enqueue(ctx, queue.NewJob{Queue: "q"})
		wantError(t, err, "enqueue", "q", 0, context.Canceled)
		if got, want := count(t, c), "0 ready, 0 dead"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		enqueue(t, c, queue.EnqueueOptions{})
	})
}
