package runtime_test

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/runtime"
	"github.com/alkstore/alkworker/scheduler"
)

// TestOverStores runs workers over the databases that users have, in real time and with a second process beside them: what
// the bubbles prove over the store in memory rests on nothing that only that one does.
func TestOverStores(t *testing.T) {
	t.Parallel()
	for store, address := range map[string]func(t *testing.T) (dsn string, ok bool){
		"sqlite": func(t *testing.T) (string, bool) { return filepath.Join(t.TempDir(), "jobs.db"), true },
		"postgres": func(t *testing.T) (string, bool) {
			db, ok := pgtest.New(t)
			return db.DSN(), ok
		},
	} {
		for _, scenario := range scenarios {
			t.Run(store+"/"+scenario.name, func(t *testing.T) {
				t.Parallel()
				if dsn, ok := address(t); ok {
					scenario.run(t, reopen(t, dsn), reopen(t, dsn))
				}
			})
		}
	}
}

// scenarios have a client for the worker and one of another process.
var scenarios = []struct {
	name string
	run  func(t *testing.T, c, other *queue.Client)
}{
	{"a_job_of_another_process_runs", func(t *testing.T, c, other *queue.Client) {
		ran := make(chan int64, 1)
		background(t, c, serve("q", func(_ context.Context, j *queue.Job) error { ran <- j.ID; return nil }, handlers.Options{}),
			runtime.Config{PollInterval: 5 * time.Millisecond})
		for range 5 {
			id := enqueue(t, other, "q", 1, queue.EnqueueOptions{})[0]
			if got := receive(t, ran); got != id {
				t.Errorf("job %d ran, want %d", got, id)
			}
		}
	}},
	{"a_worker_that_runs_until_idle_leaves_nothing", func(t *testing.T, c, other *queue.Client) {
		l := new(ledger)
		ids := enqueue(t, other, "q", 300, queue.EnqueueOptions{})
		untilIdle(t, c, serve("q", l.taking(0), handlers.Options{}), 0)
		l.wantOnce(t, ids...)
		left, err := other.List(t.Context(), queue.Filter{})
		must(t, err)
		if len(left) != 0 {
			t.Errorf("%d jobs are left", len(left))
		}
	}},
	{"K3_a_job_from_before_all_time_holds_up_no_other", func(t *testing.T, c, other *queue.Client) {
		l := new(ledger)
		ids, err := other.Store().Enqueue(t.Context(), []sqlstore.NewJob{{
			Queue: "q", RunAt: new(int64(math.MinInt64)), Stamps: sqlstore.Stamps{VisibilityTimeoutS: 30, MaxAttempts: 3},
		}})
		must(t, err)
		ids = append(ids, enqueue(t, other, "q", 5, queue.EnqueueOptions{})...)
		untilIdle(t, c, serve("q", l.taking(0), handlers.Options{}), 0)
		l.wantOnce(t, ids...)
	}},
	{"two_workers_share_the_jobs", func(t *testing.T, c, other *queue.Client) { share(t, c, other, 2000, 0) }},
	{"and_so_they_do_with_many_slots_each", func(t *testing.T, c, other *queue.Client) { share(t, c, other, 6000, 400) }},
	{"what_fails_for_good_is_dead_with_its_attempts", func(t *testing.T, c, other *queue.Client) {
		id := enqueue(t, other, "q", 1, queue.EnqueueOptions{MaxAttempts: 2})[0]
		untilIdle(t, c, serve("q", func(_ context.Context, j *queue.Job) error {
			return handlers.RetryAfter(0, errors.New([]string{"first", "second"}[j.Attempt-1]))
		}, handlers.Options{}), 0)
		job, err := other.Get(t.Context(), id)
		must(t, err)
		var history []string
		for _, f := range job.Failures {
			history = append(history, f.Error)
		}
		if job.State != queue.Dead || !slices.Equal(history, []string{"first", "second"}) {
			t.Errorf("got a %s job with %q, want a dead one with both attempts", job.State, history)
		}
	}},
	{"a_claim_of_a_process_that_is_gone_is_taken_over", func(t *testing.T, c, other *queue.Client) {
		id := enqueue(t, other, "q", 1, queue.EnqueueOptions{VisibilityTimeout: time.Second})[0]
		if jobs, err := other.Claim(t.Context(), "q", "vanished", 1); err != nil || len(jobs) != 1 {
			t.Fatalf("claimed %d, %v", len(jobs), err)
		}
		ran := make(chan *queue.Job, 1)
		background(t, c, serve("q", func(_ context.Context, j *queue.Job) error { ran <- j; return nil }, handlers.Options{}),
			runtime.Config{})
		if j := receive(t, ran); j.ID != id || j.Attempt != 2 {
			t.Errorf("job %d ran as attempt %d, want %d as the second", j.ID, j.Attempt, id)
		}
	}},
	{"H8_a_cancelled_job_ends_the_context_of_its_handler", func(t *testing.T, c, other *queue.Client) {
		id := enqueue(t, other, "q", 1, queue.EnqueueOptions{VisibilityTimeout: realLease})[0]
		began, ended := make(chan struct{}), make(chan error, 1)
		background(t, c, serve("q", func(ctx context.Context, _ *queue.Job) error {
			close(began)
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return nil
		}, handlers.Options{}), runtime.Config{})
		receive(t, began)
		if was, err := other.Cancel(t.Context(), id); err != nil || !was[0] {
			t.Fatalf("cancel: %v, %v", was, err)
		}
		if cause := receive(t, ended); !errors.Is(cause, handlers.ErrCancelled) {
			t.Errorf("the handler's context ended for %v, want %v", cause, handlers.ErrCancelled)
		}
	}},
	{"a_pause_by_another_process_holds_until_the_resume", func(t *testing.T, c, other *queue.Client) {
		must(t, other.Pause(t.Context(), "paused"))
		held := enqueue(t, other, "paused", 1, queue.EnqueueOptions{})[0]
		open := enqueue(t, other, "open", 1, queue.EnqueueOptions{})[0]
		ran := make(chan int64, 2)
		h := handlers.HandlerFunc(func(_ context.Context, j *queue.Job) error { ran <- j.ID; return nil })
		r := serve("paused", h, handlers.Options{})
		r.Register("open", h, handlers.Options{})
		background(t, c, r, runtime.Config{})
		if got := receive(t, ran); got != open {
			t.Errorf("job %d ran first, want %d of the queue that is not paused", got, open)
		}
		must(t, other.Resume(t.Context(), "paused"))
		if got := receive(t, ran); got != held {
			t.Errorf("job %d ran, want %d", got, held)
		}
	}},
	{"H1_H3_a_claim_holds_for_as_long_as_its_handler_runs", func(t *testing.T, c, other *queue.Client) {
		enqueue(t, other, "q", 1, queue.EnqueueOptions{VisibilityTimeout: realLease})
		l, done := new(ledger), make(chan struct{})
		r := serve("q", l.handler(func(ctx context.Context, _ *queue.Job) error {
			defer close(done)
			return outlast(ctx, c)
		}), handlers.Options{})
		background(t, c, r, runtime.Config{})
		background(t, other, r, runtime.Config{PollInterval: 10 * time.Millisecond})
		receive(t, done)
		if runs := l.all(); len(runs) != 1 || runs[0].cause != nil {
			t.Errorf("ran as %+v, want one run whose context did not end", runs)
		}
	}},
	{"every_answer_is_recorded", func(t *testing.T, c, other *queue.Client) {
		var jobs []queue.NewJob
		for _, a := range outcomes {
			jobs = append(jobs, queue.NewJob{Queue: "q", Payload: []byte(a.name), EnqueueOptions: queue.EnqueueOptions{BackoffBase: time.Hour}})
		}
		ids, err := other.Enqueue(t.Context(), jobs...)
		must(t, err)
		var began sync.WaitGroup
		began.Add(len(jobs))
		w, ended := launch(t, c, serve("q", func(_ context.Context, j *queue.Job) error {
			began.Done()
			return outcomes[slices.Index(ids, j.ID)].handler(j)
		}, handlers.Options{}), runtime.Config{})
		began.Wait()
		w.Stop()
		must(t, receive(t, ended))
		for i, id := range ids {
			job, err := other.Get(t.Context(), id)
			must(t, err)
			t.Run(outcomes[i].name, func(t *testing.T) { outcomes[i].check(t, job, time.Minute) })
		}
	}},
	{"an_attempt_that_takes_too_long_is_repeated", func(t *testing.T, c, other *queue.Client) {
		id := enqueue(t, other, "q", 1, queue.EnqueueOptions{BackoffBase: queue.NoBackoff})[0]
		l := new(ledger)
		untilIdle(t, c, serve("q", l.handler(func(ctx context.Context, j *queue.Job) error {
			if j.Attempt == 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil // be it too late as well: it counts
		}), handlers.Options{Timeout: 10 * time.Millisecond}), 0)
		if runs := l.of(id); len(runs) != 2 || !errors.Is(runs[0].cause, handlers.ErrTimeout) {
			t.Errorf("ran as %+v, want a timeout and a second attempt", runs)
		}
	}},
	{"S1_a_schedule_of_another_process_is_fired", func(t *testing.T, c, other *queue.Client) {
		ran := make(chan *queue.Job, 100)
		background(t, c, serve("q", func(_ context.Context, j *queue.Job) error { ran <- j; return nil }, handlers.Options{}),
			runtime.Config{})
		must(t, scheduler.Set(t.Context(), other, scheduler.Schedule{Name: "s", Queue: "q", Spec: "@every 1s"}))
		first, second := receive(t, ran), receive(t, ran)
		if first.Schedule != "s" || !second.ScheduledFor.After(first.ScheduledFor) {
			t.Errorf("ran for %v and %v of %q", first.ScheduledFor, second.ScheduledFor, first.Schedule)
		}
	}},
	{"a_worker_counts_from_its_start_to_its_stop", func(t *testing.T, c, other *queue.Client) {
		enqueue(t, other, "q", 1, queue.EnqueueOptions{})
		workers := func() int {
			all, err := other.Stats(t.Context())
			must(t, err)
			for _, q := range all {
				if q.Queue == "q" {
					return q.Workers
				}
			}
			return 0
		}
		seen := make(chan int, 1)
		w, ended := launch(t, c, serve("q", func(ctx context.Context, _ *queue.Job) error {
			n := workers()
			for n == 0 && within(ctx, time.Millisecond) == nil { // to announce is another loop
				n = workers()
			}
			seen <- n
			return nil
		}, handlers.Options{}), runtime.Config{})
		if n := receive(t, seen); n != 1 {
			t.Errorf("%d workers while it runs, want 1", n)
		}
		w.Stop()
		must(t, receive(t, ended))
		if n := workers(); n != 0 {
			t.Errorf("%d workers after the stop, want none", n)
		}
	}},
	{"what_is_not_done_at_a_stop_is_handed_back", func(t *testing.T, c, other *queue.Client) {
		id := enqueue(t, other, "q", 1, queue.EnqueueOptions{})[0]
		began := make(chan struct{})
		w, ended := launch(t, c, serve("q", func(ctx context.Context, _ *queue.Job) error {
			close(began)
			<-ctx.Done()
			return context.Cause(ctx)
		}, handlers.Options{}), runtime.Config{Drain: runtime.NoDrain})
		receive(t, began)
		w.Stop()
		must(t, receive(t, ended))
		jobs, err := other.Claim(t.Context(), "q", "next", 1)
		must(t, err)
		if len(jobs) != 1 || jobs[0].ID != id || jobs[0].Attempt != 1 || jobs[0].Suspect {
			t.Errorf("claimed %+v, want job %d at once, with its attempt", jobs, id)
		}
	}},
	{"a_stop_waits_for_what_runs", func(t *testing.T, c, other *queue.Client) {
		id := enqueue(t, other, "q", 1, queue.EnqueueOptions{})[0]
		began, finish := make(chan struct{}), make(chan struct{})
		w, ended := launch(t, c, serve("q", func(context.Context, *queue.Job) error {
			close(began)
			<-finish
			return nil
		}, handlers.Options{}), runtime.Config{})
		receive(t, began)
		w.Stop()
		if job, err := other.Get(t.Context(), id); err != nil || job == nil || job.State != queue.Processing {
			t.Errorf("while it runs: got %v, %v, want a processing job", job, err)
		}
		close(finish)
		must(t, receive(t, ended))
		if job, err := other.Get(t.Context(), id); err != nil || job != nil {
			t.Errorf("afterwards: got %v, %v, want no job", job, err)
		}
	}},
}

// realLease is for claims that have to be kept in real time: two of three heartbeats may be late by as long as the machine has
// other things to do.
const realLease = 5 * time.Second

// outlast is a handler that takes until the lease that its job came with is over, by the clock that counts.
func outlast(ctx context.Context, c *queue.Client) error {
	for end := handlers.JobFromContext(ctx).ClaimExpiresAt; ; {
		if now, err := c.Now(ctx); err != nil || now.After(end) {
			return err
		}
		if err := within(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// launch runs a worker. What Run returns is sent to ended.
func launch(t *testing.T, c *queue.Client, r *handlers.Registry, config runtime.Config) (w *runtime.Worker, ended <-chan error) {
	t.Helper()
	config.Logger = new(logbook).logger()
	w, err := runtime.New(c, r, config)
	must(t, err)
	result := make(chan error, 1)
	go func() { result <- w.Run(t.Context()) }()
	return w, result
}

// share has two workers run so many jobs.
func share(t *testing.T, c, other *queue.Client, jobs, slots int) {
	t.Helper()
	l := new(ledger)
	ids := enqueue(t, c, "q", jobs, queue.EnqueueOptions{})
	r := serve("q", l.taking(time.Millisecond), handlers.Options{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		untilIdle(t, other, r, slots)
	}()
	untilIdle(t, c, r, slots)
	<-ended
	l.wantOnce(t, ids...)
}

// untilIdle runs a worker until nothing is left to do. No slots are as many as a worker has by default.
func untilIdle(t *testing.T, c *queue.Client, r *handlers.Registry, slots int) {
	t.Helper()
	w, err := runtime.New(c, r, runtime.Config{UntilIdle: true, Concurrency: slots, Logger: new(logbook).logger()})
	if err == nil {
		err = w.Run(t.Context())
	}
	if err != nil {
		t.Error(err)
	}
}
