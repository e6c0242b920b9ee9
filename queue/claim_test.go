package queue_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/memory"
	"github.com/alkstore/alkworker/queue"
)

func TestClaim(t *testing.T) {
	t.Run("C2_order", func(t *testing.T) {
		c, clock := open(t, nil)
		var want []int64
		for _, o := range []queue.EnqueueOptions{
			{Priority: math.MaxInt},
			{Priority: 1, RunAt: start.Add(-time.Minute)},
			{Priority: 1},
			{},
			{},
			{Priority: math.MinInt, RunAt: start.Add(-time.Hour)},
		} {
			want = append(want, enqueue(t, c, o))
		}
		clock.advance(time.Second)
		jobs, err := c.Claim(t.Context(), "q", "w", 100)
		must(t, err)
		var got []int64
		for _, j := range jobs {
			got = append(got, j.ID)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
	t.Run("C4_claim_fields", func(t *testing.T) {
		c, _ := open(t, nil)
		enqueue(t, c, queue.EnqueueOptions{VisibilityTimeout: 10 * time.Second})
		j := claim(t, c)
		if j.State != queue.Processing || j.Claimant != "test" || j.Attempt != 1 || j.Fence != 1 {
			t.Errorf("got %s by %q, attempt %d, fence %d", j.State, j.Claimant, j.Attempt, j.Fence)
		}
		if !j.ClaimedAt.Equal(start) || !j.ClaimExpiresAt.Equal(start.Add(10*time.Second)) {
			t.Errorf("got claimed at %v until %v", j.ClaimedAt, j.ClaimExpiresAt)
		}
		if string(j.Payload) != "p" || j.Handle() != (queue.Handle{ID: j.ID, Fence: 1}) {
			t.Errorf("got payload %q, handle %v", j.Payload, j.Handle())
		}
	})
	t.Run("C7_reclaim_spends_an_attempt_and_is_remembered", func(t *testing.T) {
		c, clock := open(t, nil)
		enqueue(t, c, queue.EnqueueOptions{VisibilityTimeout: 10 * time.Second})
		first := claim(t, c)
		clock.advance(10 * time.Second)
		if jobs, err := c.Claim(t.Context(), "q", "w", 1); err != nil || len(jobs) != 0 {
			t.Fatalf("at the deadline: got %d jobs, %v", len(jobs), err)
		}
		clock.advance(time.Second)
		second := claim(t, c)
		if second.ID != first.ID || second.Attempt != 2 || second.Fence != 2 {
			t.Errorf("got job %d, attempt %d, fence %d", second.ID, second.Attempt, second.Fence)
		}
		failures := get(t, c, first.ID).Failures
		if len(failures) != 1 || failures[0].Error != "lease lapsed" || failures[0].Attempt != 1 {
			t.Errorf("got history %+v, want a lapsed lease", failures)
		}
	})
	t.Run("C6_exhausted_job_goes_to_dead_letters", func(t *testing.T) {
		c, clock := open(t, nil)
		id := enqueue(t, c, queue.EnqueueOptions{MaxAttempts: 1, VisibilityTimeout: time.Second})
		claim(t, c)
		clock.advance(2 * time.Second)
		if jobs, err := c.Claim(t.Context(), "q", "w", 1); err != nil || len(jobs) != 0 {
			t.Fatalf("got %d jobs, %v", len(jobs), err)
		}
		if j := get(t, c, id); j.State != queue.Dead || j.LastError != "max attempts exceeded" || !j.DiedAt.Equal(start.Add(2*time.Second)) {
			t.Errorf("got %s, %q, died at %v", j.State, j.LastError, j.DiedAt)
		}
	})
}

// K25: what may have killed its worker can be told apart, and claimed apart.
func TestClaimSuspects(t *testing.T) {
	c, clock := open(t, nil)
	lapsing := enqueue(t, c, queue.EnqueueOptions{VisibilityTimeout: time.Second})
	if claim(t, c).Suspect {
		t.Error("a first claim is a suspect")
	}
	clock.advance(2 * time.Second)
	fresh := enqueue(t, c, queue.EnqueueOptions{})

	proven, err := c.ClaimProven(t.Context(), "q", "w", 10)
	must(t, err)
	if len(proven) != 1 || proven[0].ID != fresh || proven[0].Suspect {
		t.Errorf("proven: got %v, want only job %d", proven, fresh)
	}
	suspects, err := c.ClaimSuspects(t.Context(), "q", "w", 10)
	must(t, err)
	if len(suspects) != 1 || suspects[0].ID != lapsing || !suspects[0].Suspect {
		t.Fatalf("suspects: got %v, want only job %d", suspects, lapsing)
	}
	verdicts, err := c.Retry(t.Context(), queue.Retry{Job: suspects[0], Delay: new(time.Duration)})
	only(t, "retry", verdicts, err, queue.Retrying)
	if claim(t, c).Suspect {
		t.Error("an answer does not clear the suspicion")
	}

	_, err = noStore().ClaimProven(t.Context(), "q", "w", 0)
	wantError(t, err, "claim", "q", 0, queue.ErrInvalid)
	_, err = noStore().ClaimSuspects(t.Context(), "", "w", 1)
	wantError(t, err, "claim", "", 0, queue.ErrInvalid)
	_, err = noStore().ClaimUnread(t.Context(), "q", "", 1)
	wantError(t, err, "claim", "q", 0, queue.ErrInvalid)
}

func TestIdle(t *testing.T) {
	if idle, err := noStore().Idle(t.Context(), nil); !idle || err != nil {
		t.Errorf("no queues: got %v, %v; want idle and no call", idle, err)
	}
	c, clock := open(t, nil)
	want := func(when string, want bool) {
		t.Helper()
		if got, err := c.Idle(t.Context(), []string{"q", "other"}); got != want || err != nil {
			t.Errorf("%s: got %v, %v; want %v", when, got, err, want)
		}
	}
	want("empty", true)
	enqueue(t, c, queue.EnqueueOptions{Delay: time.Minute})
	want("delayed", true)
	clock.advance(time.Minute)
	want("ready", false)
	must(t, c.Pause(t.Context(), "q"))
	want("paused", true)
	must(t, c.Resume(t.Context(), "q"))
	j := claim(t, c)
	want("processing", false)
	verdicts, err := c.Retry(t.Context(), queue.Retry{Job: j})
	only(t, "retry", verdicts, err, queue.Retrying)
	want("waiting for a retry", false)
	_, err = c.Cancel(t.Context(), j.ID)
	must(t, err)
	want("cancelled", true)
}

func TestClaimValidation(t *testing.T) {
	tests := []struct {
		name            string
		queue, claimant string
		n               int
		want            []string
	}{
		{"E8_name", "a\x00", "w", 1, []string{"control character"}},
		{"K42_n_0", "q", "w", 0, []string{"number of jobs 0"}},
		{"K42_n_negative", "q", "w", math.MinInt, []string{"is not positive"}},
		{"claimant_empty", "q", "", 1, []string{"claimant is empty"}},
		{"claimant_invalid", "q", "\xff", 1, []string{"claimant", "not valid UTF-8"}},
		{"claimant_control", "q", "a\nb", 1, []string{"claimant", "control character"}},
		{"claimant_long", "q", strings.Repeat("w", 513), 1, []string{"claimant", "513 bytes"}},
		{"all_problems_together", "", "", 0, []string{"queue name is empty", "claimant is empty", "number of jobs 0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := noStore().Claim(t.Context(), tt.queue, tt.claimant, tt.n)
			wantError(t, err, "claim", tt.queue, 0, queue.ErrInvalid)
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("got %v, want also %q", err, part)
				}
			}
		})
	}
	t.Run("K42_n_huge", func(t *testing.T) {
		c, _ := open(t, nil)
		enqueue(t, c, queue.EnqueueOptions{})
		if jobs, err := c.Claim(t.Context(), "q", strings.Repeat("w", 512), math.MaxInt); err != nil || len(jobs) != 1 {
			t.Errorf("got %d jobs, %v; want 1", len(jobs), err)
		}
	})
}

func TestNextReady(t *testing.T) {
	t.Run("none_is_no_call", func(t *testing.T) {
		if waits, err := noStore().NextReady(t.Context(), nil); err != nil || len(waits) != 0 {
			t.Errorf("got %v, %v; want nothing", waits, err)
		}
	})
	t.Run("C3_wait_for_each_queue", func(t *testing.T) {
		c, clock := open(t, nil)
		for name, o := range map[string]queue.EnqueueOptions{
			"now": {}, "past": {RunAt: start.Add(-time.Hour)}, "later": {Delay: 5 * time.Second}, "paused": {},
			"running": {VisibilityTimeout: 10 * time.Second},
		} {
			_, err := c.Enqueue(t.Context(), queue.NewJob{Queue: name, EnqueueOptions: o})
			must(t, err)
		}
		must(t, c.Pause(t.Context(), "paused"))
		_, err := c.Claim(t.Context(), "running", "w", 1)
		must(t, err)
		names := []string{"now", "past", "later", "paused", "running", "empty"}

		waits, err := c.NextReady(t.Context(), names)
		must(t, err)
		if got, want := fmt.Sprint(waits), "map[later:5s now:0s past:0s running:11s]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		clock.advance(20 * time.Second)
		waits, err = c.NextReady(t.Context(), names)
		must(t, err)
		if got, want := fmt.Sprint(waits), "map[later:0s now:0s past:0s running:0s]"; got != want {
			t.Errorf("later: got %s, want %s", got, want)
		}
	})
	t.Run("K3_a_time_that_was_edited_is_no_overflow", func(t *testing.T) {
		for _, at := range []int64{math.MinInt64, math.MaxInt64} {
			c, _ := open(t, nil)
			_, err := c.Store().Enqueue(t.Context(), []sqlstore.NewJob{{Queue: "q", RunAt: &at}})
			must(t, err)
			waits, err := c.NextReady(t.Context(), []string{"q"})
			if wait, ready := waits["q"], at < 0; err != nil || ready != (wait == 0) || wait < 0 {
				t.Errorf("ready at %d: got a wait of %v, %v", at, wait, err)
			}
		}
	})
	t.Run("K15_waiting_for_it_is_never_early", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := queue.NewClient(memory.New(memory.Options{Clock: func() int64 { return time.Now().Unix() }}), nil)
			enqueue(t, c, queue.EnqueueOptions{Delay: 90 * time.Second})
			began := time.Now()
			waits, err := c.NextReady(t.Context(), []string{"q"})
			must(t, err)
			<-time.After(waits["q"] - 1)
			if jobs, err := c.Claim(t.Context(), "q", "w", 1); err != nil || len(jobs) != 0 {
				t.Fatalf("after %v: got %d jobs, %v", time.Since(began), len(jobs), err)
			}
			<-time.After(1)
			claim(t, c)
			must(t, c.Close())
		})
	})
}

func TestWatch(t *testing.T) {
	t.Run("wakes_on_enqueue_and_ends_with_the_context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := queue.NewClient(memory.New(memory.Options{Clock: func() int64 { return time.Now().Unix() }}), nil)
			woken := make(chan string, 10)
			ended := make(chan error, 1)
			ctx, cancel := context.WithCancel(t.Context())
			go func() { ended <- c.Watch(ctx, 0, func(q string) { woken <- q }) }()
			synctest.Wait()
			for len(woken) > 0 {
				<-woken
			}
			enqueue(t, c, queue.EnqueueOptions{})
			if got := <-woken; got != "q" && got != "" {
				t.Errorf("woken for %q, want q", got)
			}
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want the context's error", err)
			}
			must(t, c.Close())
		})
	})
	t.Run("K42_poll", func(t *testing.T) {
		wantError(t, noStore().Watch(t.Context(), -1, func(string) {}), "watch", "", 0, queue.ErrInvalid)
		wantError(t, noStore().Watch(t.Context(), 1, nil), "watch", "", 0, queue.ErrInvalid)
	})
}

func TestAnnounce(t *testing.T) {
	c, clock := open(t, nil)
	must(t, c.Announce(t.Context(), "w1", []string{"q", "r"}, time.Minute))
	workers := func() string {
		stats, err := c.Stats(t.Context())
		must(t, err)
		var s string
		for _, q := range stats {
			s += fmt.Sprintf("%s:%d ", q.Queue, q.Workers)
		}
		return s
	}
	if got, want := workers(), "q:1 r:1 "; got != want {
		t.Errorf("announced: got %q, want %q", got, want)
	}
	must(t, c.Withdraw(t.Context(), "w1"))
	if got := workers(); got != "" {
		t.Errorf("withdrawn: got %q, want nothing", got)
	}
	must(t, c.Announce(t.Context(), "w1", []string{"q"}, 1))
	clock.advance(2 * time.Second)
	if got := workers(); got != "" {
		t.Errorf("lapsed: got %q, want nothing", got)
	}
	err := c.Announce(t.Context(), "", []string{"\x00"}, 0)
	wantError(t, err, "announce", "", 0, queue.ErrInvalid)
	for _, part := range []string{"worker is empty", "control character", "ttl 0s"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("got %v, want also %q", err, part)
		}
	}
}

// C2 C3: also where the store reads at once.
func TestClaimUnread(t *testing.T) {
	c, _ := open(t, nil)
	low, high := enqueue(t, c, queue.EnqueueOptions{}), enqueue(t, c, queue.EnqueueOptions{Priority: 1})
	for _, want := range [][]int64{{high, low}, nil} {
		unread, err := c.ClaimUnread(t.Context(), "q", "w", 10)
		must(t, err)
		jobs, err := unread.Read(t.Context())
		must(t, err)
		var got []int64
		for _, j := range jobs {
			got = append(got, j.ID)
		}
		if !slices.Equal(got, want) || unread.Len() != len(want) {
			t.Errorf("got jobs %d, %d in number, want %d", got, unread.Len(), want)
		}
	}
}
