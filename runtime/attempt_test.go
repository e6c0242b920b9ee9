package runtime_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/runtime"
)

// badError panics when it is asked for its text.
type badError struct{}

func (*badError) Error() string { panic("no text") }

// badChain panics when it is compared or unwrapped.
type badChain struct{}

func (badChain) Error() string { return "bad chain" }
func (badChain) Is(error) bool { panic("no chain") }
func (badChain) Unwrap() error { panic("no chain") }

func nothing() any { return nil }

var errBoom = errors.New("boom")

// outcome is a handler, and what becomes of its job while a minute passes and the backoff takes an hour.
type outcome struct {
	name    string
	handler func(j *queue.Job) error
	state   queue.State
	attempt int
	runIn   time.Duration // pending: from the answer on, with ten percent to either side
	err     string        // last error
	history int           // failed attempts kept
	log     []string
}

var outcomes = []outcome{
	{name: "nil_acks", handler: func(*queue.Job) error { return nil }, state: gone, log: []string{"level=DEBUG", "job done"}},
	{name: "H4_an_error_retries", handler: func(*queue.Job) error { return errBoom },
		state: queue.Pending, attempt: 1, runIn: time.Hour, err: "boom", history: 1, log: []string{"level=WARN", "will be retried", "boom"}},
	{name: "B2_RetryAfter", handler: func(*queue.Job) error { return handlers.RetryAfter(90*time.Second, errBoom) },
		state: queue.Pending, attempt: 1, runIn: 90 * time.Second, err: "boom", history: 1},
	{name: "B2_RetryAfter_rounds_up", handler: func(*queue.Job) error { return handlers.RetryAfter(99_001*time.Millisecond, nil) },
		state: queue.Pending, attempt: 1, runIn: 100 * time.Second, err: "failed", history: 1},
	{name: "H5_Fail", handler: func(*queue.Job) error { return handlers.Fail(errBoom) },
		state: queue.Dead, attempt: 1, err: "boom", history: 1, log: []string{"level=ERROR", "failed the job for good"}},
	{name: "H7_Fail_without_a_text", handler: func(*queue.Job) error { return handlers.Fail(nil) },
		state: queue.Dead, attempt: 1, err: "failed", history: 1},
	{name: "H6_Snooze", handler: func(*queue.Job) error { return handlers.Snooze(90 * time.Second) },
		state: queue.Pending, attempt: 0, runIn: 90 * time.Second},
	{name: "Cancel", handler: func(*queue.Job) error { return handlers.Cancel(errBoom) },
		state: gone, log: []string{"level=INFO", "cancelled by its handler", "boom"}},
	{name: "K27_panic", handler: func(*queue.Job) error { panic("oh no") },
		state: queue.Pending, attempt: 1, runIn: time.Hour, err: "panic: oh no", history: 1},
	{name: "K27_panic_nil", handler: func(*queue.Job) error { panic(nothing()) },
		state: queue.Pending, attempt: 1, runIn: time.Hour, err: "panic: nil", history: 1},
	{name: "K27_Goexit", handler: func(*queue.Job) error { goruntime.Goexit(); return nil },
		state: queue.Pending, attempt: 1, runIn: time.Hour, err: "panic: the handler called runtime.Goexit", history: 1},
	{name: "K27_an_error_whose_text_panics", handler: func(*queue.Job) error { return &badError{} },
		state: queue.Pending, attempt: 1, runIn: time.Hour, err: "no error text: formatting a *runtime_test.badError panicked: no text", history: 1},
	{name: "K27_an_error_whose_chain_panics", handler: func(*queue.Job) error { return badChain{} },
		state: queue.Pending, attempt: 1, runIn: time.Hour, err: "bad chain", history: 1},
	{name: "K27_a_panic_with_a_value_whose_text_panics", handler: func(*queue.Job) error { panic(&badError{}) },
		state: queue.Pending, attempt: 1, runIn: time.Hour, err: "panic: no error text: formatting a *runtime_test.badError panicked: no text", history: 1},
	{name: "K27_a_megabyte_of_panic", handler: func(*queue.Job) error { panic(strings.Repeat("x", 1<<20)) },
		state: queue.Pending, attempt: 1, runIn: time.Hour, err: "panic: xxx", history: 1},
	{name: "K27_a_megabyte_of_error", handler: func(*queue.Job) error { return errors.New(strings.Repeat("ä", 1<<19)) },
		state: queue.Pending, attempt: 1, runIn: time.Hour, err: "äää", history: 1},
}

// check fails unless that has become of the job, which was answered within some time after it was enqueued.
func (a *outcome) check(t *testing.T, j *queue.Job, within time.Duration) {
	t.Helper()
	if (j == nil) != (a.state == gone) {
		t.Errorf("got %+v, want it %s", j, a.state)
	}
	if j == nil || a.state == gone {
		return
	}
	if j.State != a.state || j.Attempt != a.attempt || !strings.HasPrefix(j.LastError, a.err) ||
		(a.err == "") != (j.LastError == "") || len(j.Failures) != a.history {
		t.Errorf("got %s, attempt %d, error %.99q, %d failures; want %s, %d, %q, %d",
			j.State, j.Attempt, j.LastError, len(j.Failures), a.state, a.attempt, a.err, a.history)
	}
	if len(j.LastError) > 64<<10 {
		t.Errorf("the error has %d bytes", len(j.LastError))
	}
	in := j.RunAt.Sub(j.CreatedAt)
	if a.runIn == time.Hour { // the curve and its jitter
		if in < 48*time.Minute || in > 72*time.Minute+within {
			t.Errorf("ready after %v, want about an hour", in)
		}
	} else if j.State == queue.Pending && (in < a.runIn || in > a.runIn+within) {
		t.Errorf("ready after %v, want %v", in, a.runIn)
	}
	if panicked := strings.HasPrefix(a.err, "panic"); panicked != (a.history > 0 && j.Failures[0].Stack != "") {
		t.Errorf("failures %.300v, want a stack exactly for a panic", j.Failures)
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()

	for _, tt := range outcomes {
		bubble(t, tt.name, func(w *world) {
			ids := w.enqueue("q", 1, queue.EnqueueOptions{BackoffBase: time.Hour})
			p := w.start(runtime.Config{Concurrency: 1}, serve("q", func(_ context.Context, j *queue.Job) error {
				if j.ID == ids[0] {
					return tt.handler(j)
				}
				return nil
			}, handlers.Options{}))
			w.pass(time.Second)
			after := w.enqueue("q", 1, queue.EnqueueOptions{})
			w.pass(time.Second)
			w.wantState(gone, after...) // the slot is free
			tt.check(w.T, w.get(ids[0]), 0)
			if len(tt.log) > 0 {
				w.log.want(w.T, 1, append(tt.log, "job=1")...)
			}
			for _, line := range w.log.lines() {
				if len(line) > 3000 {
					w.Errorf("a line of %d bytes in the log: %.100s…", len(line), line)
				}
			}
			w.stop(p)
		})
	}

	bubble(t, "H4_the_last_attempt_goes_to_the_dead_letters", func(w *world) {
		ids := w.enqueue("q", 1, queue.EnqueueOptions{MaxAttempts: 3, BackoffBase: queue.NoBackoff})
		p := w.start(runtime.Config{}, serve("q", w.ledger.handler(func(context.Context, *queue.Job) error { return errBoom }),
			handlers.Options{}))
		w.pass(time.Minute)
		if j := w.get(ids[0]); j.State != queue.Dead || j.LastError != "boom" || len(j.Failures) != 3 || len(w.ledger.all()) != 3 {
			w.Errorf("got %+v after %d runs, want it dead after three", j, len(w.ledger.all()))
		}
		w.log.want(w.T, 1, "level=ERROR", "last attempt failed", "attempt=3/3")
		w.stop(p)
	})

	bubble(t, "K27_middleware_sees_a_panic_as_an_error", func(w *world) {
		w.enqueue("q", 1, queue.EnqueueOptions{})
		var seen error
		r := serve("q", func(context.Context, *queue.Job) error { panic("oh no") }, handlers.Options{})
		r.Use(func(next handlers.Handler) handlers.Handler {
			return handlers.HandlerFunc(func(ctx context.Context, j *queue.Job) error {
				seen = next.Handle(ctx, j)
				return seen
			})
		})
		p := w.start(runtime.Config{}, r)
		w.pass(time.Second)
		if e := new(handlers.PanicError); !errors.As(seen, &e) {
			w.Errorf("the middleware saw %v, want a panic", seen)
		}
		w.stop(p)
	})

	bubble(t, "the_context_carries_the_job_and_the_values_of_Runs_context", func(w *world) {
		type key struct{}
		ids := w.enqueue("q", 1, queue.EnqueueOptions{})
		var value any
		var job *queue.Job
		p := w.prepare(runtime.Config{}, serve("q", func(ctx context.Context, _ *queue.Job) error {
			value, job = ctx.Value(key{}), handlers.JobFromContext(ctx)
			return nil
		}, handlers.Options{}))
		ctx, cancel := context.WithCancel(context.WithValue(w.Context(), key{}, "value"))
		done := make(chan error)
		go func() { done <- p.Run(ctx) }()
		w.pass(time.Second)
		cancel()
		must(w.T, <-done)
		if value != "value" || job == nil || job.ID != ids[0] || job.Claimant != p.Name() {
			w.Errorf("got value %v and job %+v", value, job)
		}
	})
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	const timeout = 5 * time.Second

	tests := []struct {
		name   string
		answer func(cause error) error
		state  queue.State
		err    string
	}{
		{"an_error_is_a_failed_attempt", func(cause error) error { return cause }, queue.Pending, "handler timed out after 5s"},
		{"an_error_of_its_own_is_kept", func(error) error { return errors.New("half done") }, queue.Pending,
			"handler timed out after 5s: half done"},
		{"nil_is_acked", func(error) error { return nil }, gone, ""},
		{"fail_fails", handlers.Fail, queue.Dead, "handler timed out"},
		{"an_error_whose_chain_panics", func(error) error { return badChain{} }, queue.Pending,
			"handler timed out after 5s: bad chain"},
		{"a_panic_is_a_panic", func(error) error { panic("oh no") }, queue.Pending, "panic: oh no"},
	}
	for _, tt := range tests {
		bubble(t, tt.name, func(w *world) {
			ids := w.enqueue("q", 1, queue.EnqueueOptions{BackoffBase: time.Hour})
			p := w.start(runtime.Config{}, serve("q", w.ledger.handler(func(ctx context.Context, _ *queue.Job) error {
				<-ctx.Done()
				return tt.answer(context.Cause(ctx))
			}), handlers.Options{Timeout: timeout}))
			w.pass(time.Minute)
			runs := w.ledger.of(ids[0])
			if len(runs) != 1 || (tt.name != "a_panic_is_a_panic" && (runs[0].end != timeout || !errors.Is(runs[0].cause, handlers.ErrTimeout))) {
				w.Errorf("got %+v, want one run that ErrTimeout ended after %v", runs, timeout)
			}
			w.wantState(tt.state, ids...)
			if j := w.get(ids[0]); j != nil && j.LastError != tt.err {
				w.Errorf("error %q, want %q", j.LastError, tt.err)
			}
			w.stop(p)
		})
	}

	bubble(t, "none_without_one", func(w *world) {
		ids := w.enqueue("q", 1, queue.EnqueueOptions{})
		p := w.start(runtime.Config{}, serve("q", w.ledger.taking(5*time.Hour), handlers.Options{}))
		w.pass(6 * time.Hour)
		w.wantState(gone, ids...)
		w.ledger.wantCause(w.T, ids[0], nil)
		w.stop(p)
	})
}

func TestAckTx(t *testing.T) {
	t.Parallel()

	tests := []struct {
		name   string
		commit bool
		err    error
		runs   int
		orders int // written by the handler and committed
	}{
		{name: "H2_committed_and_nil", commit: true, runs: 1, orders: 1},
		{name: "H2_rolled_back_and_nil_is_retried", runs: 2, orders: 1},
		{name: "H2_committed_and_an_error_is_done", commit: true, err: errBoom, runs: 1, orders: 1},
		{name: "H2_rolled_back_and_an_error_is_retried", err: errBoom, runs: 2, orders: 1},
		{name: "H2_committed_and_Fail_is_done", commit: true, err: handlers.Fail(errBoom), runs: 1, orders: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			db, err := sql.Open("sqlite", queue.SQLiteDSN(filepath.Join(t.TempDir(), "jobs.db")))
			must(t, err)
			defer func() { must(t, db.Close()) }()
			c, err := queue.OpenDB(t.Context(), db, &queue.Config{Synchronous: queue.Normal})
			must(t, err)
			defer func() { must(t, c.Close()) }()
			_, err = db.ExecContext(t.Context(), `CREATE TABLE orders (job INTEGER PRIMARY KEY)`)
			must(t, err)
			enqueue(t, c, "q", 1, queue.EnqueueOptions{BackoffBase: queue.NoBackoff})

			l, log := new(ledger), new(logbook)
			r := serve("q", l.handler(func(ctx context.Context, j *queue.Job) error {
				tx, err := db.BeginTx(ctx, nil)
				if err != nil {
					return err
				}
				defer func() { _ = tx.Rollback() }()
				if _, err := tx.ExecContext(ctx, `INSERT INTO orders (job) VALUES (?)`, j.ID); err != nil {
					return err
				}
				if err := handlers.AckTx(ctx, tx); err != nil {
					return err
				}
				if j.Attempt == 1 && !tt.commit {
					return tt.err
				}
				return errors.Join(tx.Commit(), tt.err)
			}), handlers.Options{})
			w, err := runtime.New(c, r, runtime.Config{UntilIdle: true, Logger: log.logger()})
			must(t, err)
			must(t, w.Run(t.Context()))

			if got := len(l.all()); got != tt.runs {
				t.Errorf("%d runs, want %d", got, tt.runs)
			}
			var orders int
			must(t, db.QueryRowContext(t.Context(), `SELECT count(*) FROM orders`).Scan(&orders))
			left, err := c.List(t.Context(), queue.Filter{})
			must(t, err)
			if orders != tt.orders || len(left) != 0 {
				t.Errorf("%d orders and %d jobs, want %d and none", orders, len(left), tt.orders)
			}
			log.want(t, 1, "done in the handler's transaction")
			log.want(t, 0, "level=ERROR") // K107
			if tt.runs == 2 {
				log.want(t, 1, "level=WARN", "will be retried")
			}
		})
	}
}

func TestHands(t *testing.T) {
	t.Parallel()
	// That none is left when Run has returned is seen by every bubble.
	bubble(t, "K27_a_goroutine_that_ends_takes_no_slot_with_it", func(w *world) {
		ids := w.enqueue("q", 20, queue.EnqueueOptions{MaxAttempts: 1})
		p := w.start(runtime.Config{Concurrency: 2}, serve("q", func(_ context.Context, j *queue.Job) error {
			sleep(time.Second)
			if j.ID%2 == 0 {
				goruntime.Goexit()
			}
			return nil
		}, handlers.Options{}))
		w.pass(11 * time.Second) // two at a time, to the end
		for _, id := range ids {
			if id%2 == 0 {
				w.wantState(queue.Dead, id)
			} else {
				w.wantState(gone, id)
			}
		}
		w.stop(p)
	})
}
