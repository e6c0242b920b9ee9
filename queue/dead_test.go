package queue_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/memory"
	"github.com/alkstore/alkworker/queue"
)

// buryMany makes n dead jobs in queue "q".
func buryMany(t *testing.T, c *queue.Client, n int) {
	t.Helper()
	_, err := c.Enqueue(t.Context(), newJobs(n)...)
	must(t, err)
	jobs, err := c.Claim(t.Context(), "q", "w", n)
	must(t, err)
	failures := make([]queue.Failed, len(jobs))
	for i, j := range jobs {
		failures[i].Handle = j.Handle()
	}
	_, err = c.Fail(t.Context(), failures...)
	must(t, err)
}

func newJobs(n int) []queue.NewJob {
	jobs := make([]queue.NewJob, n)
	for i := range jobs {
		jobs[i].Queue = "q"
	}
	return jobs
}

func count(t *testing.T, c *queue.Client) string {
	t.Helper()
	stats, err := c.Stats(t.Context())
	must(t, err)
	var ready, dead int
	for _, s := range stats {
		ready, dead = ready+s.Ready, dead+s.Dead
	}
	return fmt.Sprintf("%d ready, %d dead", ready, dead)
}

func TestRequeue(t *testing.T) {
	t.Run("D4_pending_ready_now_fresh_budget", func(t *testing.T) {
		c, clock := open(t, nil)
		id := enqueue(t, c, queue.EnqueueOptions{
			Priority: 3, MaxAttempts: 1, Expires: time.Hour, VisibilityTimeout: time.Minute, DeadLetterRetention: queue.KeepForever,
		})
		verdicts, err := c.Retry(t.Context(), queue.Retry{Job: claim(t, c), Err: "boom"})
		only(t, "retry", verdicts, err, queue.Buried)
		clock.advance(time.Minute)
		found, err := c.Requeue(t.Context(), id, 99, id)
		must(t, err)
		if got, want := fmt.Sprint(found), "[true false false]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		j := get(t, c, id)
		if j.State != queue.Pending || j.Attempt != 0 || j.Fence != 1 || !j.RunAt.Equal(start.Add(time.Minute)) || !j.ExpiresAt.IsZero() {
			t.Errorf("got %s, attempt %d, fence %d, ready at %v, expires at %v", j.State, j.Attempt, j.Fence, j.RunAt, j.ExpiresAt)
		}
		if j.Priority != 3 || j.MaxAttempts != 1 || j.VisibilityTimeout != time.Minute || j.DeadLetterRetention != queue.KeepForever {
			t.Errorf("E2: stamps changed: %+v", j)
		}
		if len(j.Failures) != 1 || j.Failures[0].Error != "boom" {
			t.Errorf("H10: got history %+v, want it kept", j.Failures)
		}
	})
}

func TestPurge(t *testing.T) {
	t.Run("D4_dead_jobs_only", func(t *testing.T) {
		c, _ := open(t, nil)
		dead, live := bury(t, c, ""), enqueue(t, c, queue.EnqueueOptions{})
		found, err := c.Purge(t.Context(), live, dead, dead)
		must(t, err)
		if got, want := fmt.Sprint(found), "[false true false]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got, want := count(t, c), "1 ready, 0 dead"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

func TestDeadInBulk(t *testing.T) {
	type bulk func(context.Context, queue.DeadFilter) (int, error)
	operations := map[string]func(*queue.Client) bulk{
		"requeue": func(c *queue.Client) bulk { return c.RequeueAll },
		"purge":   func(c *queue.Client) bulk { return c.PurgeAll },
	}
	for op, of := range operations {
		t.Run("D4_"+op+"_all_sizes", func(t *testing.T) {
			for _, n := range []int{0, 1, 999, 1000, 1001, 2500} {
				c, _ := open(t, nil)
				if n > 0 {
					buryMany(t, c, n)
				}
				got, err := of(c)(t.Context(), queue.DeadFilter{})
				if err != nil || got != n {
					t.Errorf("got %d, %v; want %d", got, err, n)
				}
				want := "0 ready, 0 dead"
				if op == "requeue" {
					want = fmt.Sprintf("%d ready, 0 dead", n)
				}
				if got := count(t, c); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			}
		})
		t.Run("D4_"+op+"_partial_result_with_the_error", func(t *testing.T) {
			store := &faulty{Store: memory.New(memory.Options{Clock: newClock().unix}), failAt: 3}
			c := queue.NewClient(store, nil)
			buryMany(t, c, 2500)
			got, err := of(c)(t.Context(), queue.DeadFilter{Queue: "q"})
			wantError(t, err, op, "q", 0, errInjected)
			if got != 2000 || store.calls != 3 {
				t.Errorf("got %d in %d calls, want 2000 in 3", got, store.calls)
			}
			store.failAt = math.MaxInt
			if got, err := of(c)(t.Context(), queue.DeadFilter{Queue: "q"}); got != 500 || err != nil {
				t.Errorf("the rest: got %d, %v; want 500", got, err)
			}
			must(t, c.Close())
		})
		t.Run("D4_"+op+"_filter", func(t *testing.T) {
			c, clock := open(t, nil)
			bury(t, c, "old")
			clock.advance(time.Minute)
			bury(t, c, "new")
			steps := []struct {
				f    queue.DeadFilter
				want int
			}{
				{queue.DeadFilter{Queue: "other"}, 0},
				{queue.DeadFilter{OlderThan: time.Minute + 1}, 0}, // rounds up
				{queue.DeadFilter{OlderThan: math.MaxInt64}, 0},
				{queue.DeadFilter{Queue: "q", OlderThan: time.Minute}, 1},
				{queue.DeadFilter{}, 1},
			}
			for _, s := range steps {
				if got, err := of(c)(t.Context(), s.f); err != nil || got != s.want {
					t.Errorf("%+v: got %d, %v; want %d", s.f, got, err, s.want)
				}
			}
		})
		t.Run("K42_"+op+"_age_negative", func(t *testing.T) {
			c, _ := open(t, nil)
			_, err := of(c)(t.Context(), queue.DeadFilter{Queue: "q", OlderThan: -1})
			wantError(t, err, op, "q", 0, queue.ErrInvalid)
		})
		t.Run("D4_"+op+"_ends_with_the_context", func(t *testing.T) {
			c, _ := open(t, nil)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := of(c)(ctx, queue.DeadFilter{})
			wantError(t, err, op, "", 0, context.Canceled)
		})
	}
}

// reburying fails, between two bites, all that the bite has requeued, while time goes on.
type reburying struct {
	sqlstore.Store
	between func()
}

func (r *reburying) RequeueMatching(ctx context.Context, f sqlstore.DeadFilter, n int64) (int64, error) {
	done, err := r.Store.RequeueMatching(ctx, f, n)
	r.between()
	return done, err
}

func TestRequeueAllEnds(t *testing.T) {
	t.Run("D4_jobs_that_die_meanwhile_are_left_alone", func(t *testing.T) {
		clock := newClock()
		store := &reburying{Store: memory.New(memory.Options{Clock: clock.unix})}
		c := queue.NewClient(store, nil)
		buryMany(t, c, 1500)
		bites := 0
		store.between = func() {
			if bites++; bites > 5 {
				t.Fatal("RequeueAll goes on for ever")
			}
			clock.advance(time.Second)
			jobs, err := c.Claim(t.Context(), "q", "w", 2000)
			must(t, err)
			for _, j := range jobs {
				_, err := c.Fail(t.Context(), queue.Failed{Handle: j.Handle()})
				must(t, err)
			}
		}
		if got, err := c.RequeueAll(t.Context(), queue.DeadFilter{}); got != 1500 || err != nil || bites != 2 {
			t.Errorf("got %d in %d bites, %v; want 1500 in 2", got, bites, err)
		}
		must(t, c.Close())
	})
}

func TestSweep(t *testing.T) {
	t.Run("D2_expired_and_past_retention", func(t *testing.T) {
		c, clock := open(t, nil)
		waiting := enqueue(t, c, queue.EnqueueOptions{Expires: time.Minute, Delay: time.Minute})
		running := enqueue(t, c, queue.EnqueueOptions{Expires: time.Minute})
		claim(t, c)
		enqueue(t, c, queue.EnqueueOptions{DeadLetterRetention: time.Second})
		gone := claim(t, c)
		held, err := c.Fail(t.Context(), queue.Failed{Handle: gone.Handle()})
		only(t, "fail", held, err, true)
		clock.advance(time.Minute + time.Second)

		swept, err := c.Sweep(t.Context(), "q")
		if err != nil || swept != (queue.Swept{Expired: 2, Dropped: 1}) {
			t.Errorf("got %+v, %v; want 2 expired, 1 dropped", swept, err)
		}
		for _, id := range []int64{waiting, running} {
			if j := get(t, c, id); j.State != queue.Dead || j.LastError != "expired" {
				t.Errorf("job %d: got %s, %q; want dead, expired", id, j.State, j.LastError)
			}
		}
		if j, err := c.Get(t.Context(), gone.ID); j != nil || err != nil {
			t.Errorf("got %v, %v; want no job", j, err)
		}
	})
	t.Run("D2_partial_result_with_the_error", func(t *testing.T) {
		clock := newClock()
		c := queue.NewClient(&faulty{Store: memory.New(memory.Options{Clock: clock.unix}), failAt: 1}, nil)
		enqueue(t, c, queue.EnqueueOptions{Expires: time.Minute})
		clock.advance(time.Minute + time.Second)
		swept, err := c.Sweep(t.Context(), "q")
		wantError(t, err, "sweep", "q", 0, errInjected)
		if swept != (queue.Swept{Expired: 1}) {
			t.Errorf("got %+v, want 1 expired", swept)
		}
		must(t, c.Close())
	})
}
