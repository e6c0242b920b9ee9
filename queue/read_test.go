package queue_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore/memory"
	"github.com/alkstore/alkworker/queue"
)

func TestGet(t *testing.T) {
	t.Run("D3_no_such_job_is_a_value", func(t *testing.T) {
		c, _ := open(t, nil)
		for _, id := range []int64{0, -1, 1, math.MaxInt64} {
			if j, err := c.Get(t.Context(), id); j != nil || err != nil {
				t.Errorf("%d: got %v, %v; want nothing", id, j, err)
			}
		}
	})
}

func TestList(t *testing.T) {
	c, _ := open(t, nil)
	dead := bury(t, c, "boom")
	var ids []int64
	for range 3 {
		ids = append(ids, enqueue(t, c, queue.EnqueueOptions{}))
	}
	running := claim(t, c).ID
	other, err := c.Enqueue(t.Context(), queue.NewJob{Queue: "r", Payload: []byte(strings.Repeat("x", 300))})
	must(t, err)

	tests := []struct {
		name string
		f    queue.Filter
		want []int64
	}{
		{"all_newest_first", queue.Filter{}, []int64{other[0], ids[2], ids[1], ids[0], dead}},
		{"queue", queue.Filter{Queue: "r"}, other},
		{"dead", queue.Filter{State: queue.Dead}, []int64{dead}},
		{"processing", queue.Filter{State: queue.Processing}, []int64{running}},
		{"pending_of_queue", queue.Filter{State: queue.Pending, Queue: "q"}, []int64{ids[2], ids[1]}},
		{"limit", queue.Filter{Limit: 2}, []int64{other[0], ids[2]}},
		{"next_page", queue.Filter{Limit: 2, Before: ids[2]}, []int64{ids[1], ids[0]}},
		{"no_such_queue", queue.Filter{Queue: "\x00"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			jobs, err := c.List(t.Context(), tt.f)
			must(t, err)
			var got []int64
			for _, j := range jobs {
				got = append(got, j.ID)
			}
			if fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
	t.Run("K92_payloads_are_shortened", func(t *testing.T) {
		for limit, want := range map[int]int{0: 256, 5: 5, -1: 300, math.MaxInt: 300} {
			jobs, err := c.List(t.Context(), queue.Filter{Queue: "r", PayloadLimit: limit})
			must(t, err)
			if got := jobs[0]; len(got.Payload) != want || got.PayloadSize != 300 {
				t.Errorf("limit %d: got %d of %d bytes, want %d of 300", limit, len(got.Payload), got.PayloadSize, want)
			}
		}
	})
	t.Run("default_limit_is_100", func(t *testing.T) {
		c, _ := open(t, nil)
		_, err := c.Enqueue(t.Context(), newJobs(101)...)
		must(t, err)
		if jobs, err := c.List(t.Context(), queue.Filter{}); err != nil || len(jobs) != 100 {
			t.Errorf("got %d jobs, %v; want 100", len(jobs), err)
		}
	})
	t.Run("K42_wrong_filter", func(t *testing.T) {
		_, err := noStore().List(t.Context(), queue.Filter{Queue: "q", State: "gone", Before: -1, Limit: -1})
		wantError(t, err, "list", "q", 0, queue.ErrInvalid)
		for _, part := range []string{`state "gone"`, "before -1", "limit -1"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("got %v, want also %q", err, part)
			}
		}
	})
}

func TestStats(t *testing.T) {
	c, clock := open(t, nil)
	bury(t, c, "")
	enqueue(t, c, queue.EnqueueOptions{})
	claim(t, c)
	enqueue(t, c, queue.EnqueueOptions{})
	enqueue(t, c, queue.EnqueueOptions{Delay: time.Hour})
	must(t, c.Pause(t.Context(), "p"))
	clock.advance(3 * time.Second)
	stats, err := c.Stats(t.Context())
	must(t, err)
	want := []queue.Stats{
		{Queue: "p", Paused: true},
		{Queue: "q", Ready: 1, Delayed: 1, Processing: 1, Dead: 1, OldestReady: 3 * time.Second},
	}
	if fmt.Sprint(stats) != fmt.Sprint(want) {
		t.Errorf("got %+v, want %+v", stats, want)
	}
	queues, err := c.Queues(t.Context())
	if err != nil || fmt.Sprint(queues) != "[q]" {
		t.Errorf("got queues %v, %v; want [q]", queues, err)
	}
}

func TestPause(t *testing.T) {
	c, _ := open(t, nil)
	enqueue(t, c, queue.EnqueueOptions{})
	enqueue(t, c, queue.EnqueueOptions{})
	running := claim(t, c)
	must(t, c.Pause(t.Context(), "q"))
	must(t, c.Pause(t.Context(), "q"))
	if jobs, err := c.Claim(t.Context(), "q", "w", 1); err != nil || len(jobs) != 0 {
		t.Errorf("paused: got %d jobs, %v; want none", len(jobs), err)
	}
	held, err := c.Ack(t.Context(), running.Handle())
	only(t, "ack while paused", held, err, true)
	must(t, c.Resume(t.Context(), "q"))
	must(t, c.Resume(t.Context(), "q"))
	claim(t, c)

	wantError(t, noStore().Pause(t.Context(), ""), "pause", "", 0, queue.ErrInvalid)
	wantError(t, noStore().Resume(t.Context(), "\n"), "resume", "\n", 0, queue.ErrInvalid)
}

// T5: a failure of the store reaches the caller with the operation and its object, and never as a value.
func TestErrors(t *testing.T) {
	c := queue.NewClient(memory.New(memory.Options{Clock: newClock().unix}), nil)
	must(t, c.Close())
	must(t, c.Close())
	job, one := &queue.Job{ID: 7, Queue: "q", Fence: 1}, queue.Handle{ID: 7, Fence: 1}
	tests := []struct {
		op, queue string
		id        int64
		call      func(context.Context) error
	}{
		{"enqueue", "q", 0, func(ctx context.Context) error { _, err := c.Enqueue(ctx, queue.NewJob{Queue: "q"}); return err }},
		{"enqueue", "", 0, func(ctx context.Context) error {
			_, err := c.Enqueue(ctx, queue.NewJob{Queue: "q"}, queue.NewJob{Queue: "r"})
			return err
		}},
		{"claim", "q", 0, func(ctx context.Context) error { _, err := c.Claim(ctx, "q", "w", 1); return err }},
		{"next ready", "q", 0, func(ctx context.Context) error { _, err := c.NextReady(ctx, []string{"q"}); return err }},
		{"idle", "q", 0, func(ctx context.Context) error { _, err := c.Idle(ctx, []string{"q"}); return err }},
		{"ack", "", 7, func(ctx context.Context) error { _, err := c.Ack(ctx, one); return err }},
		{"ack", "", 0, func(ctx context.Context) error { _, err := c.Ack(ctx, one, one); return err }},
		{"heartbeat", "", 7, func(ctx context.Context) error { _, err := c.Heartbeat(ctx, one); return err }},
		{"extend", "", 7, func(ctx context.Context) error { _, err := c.Extend(ctx, one, 1); return err }},
		{"retry", "q", 7, func(ctx context.Context) error { _, err := c.Retry(ctx, queue.Retry{Job: job}); return err }},
		{"fail", "", 7, func(ctx context.Context) error { _, err := c.Fail(ctx, queue.Failed{Handle: one}); return err }},
		{"release", "", 7, func(ctx context.Context) error { _, err := c.Release(ctx, queue.Released{Handle: one}); return err }},
		{"cancel", "", 7, func(ctx context.Context) error { _, err := c.Cancel(ctx, 7); return err }},
		{"get", "", 7, func(ctx context.Context) error { _, err := c.Get(ctx, 7); return err }},
		{"list", "q", 0, func(ctx context.Context) error { _, err := c.List(ctx, queue.Filter{Queue: "q"}); return err }},
		{"stats", "", 0, func(ctx context.Context) error { _, err := c.Stats(ctx); return err }},
		{"queues", "", 0, func(ctx context.Context) error { _, err := c.Queues(ctx); return err }},
		{"requeue", "", 7, func(ctx context.Context) error { _, err := c.Requeue(ctx, 7); return err }},
		{"requeue", "q", 0, func(ctx context.Context) error { _, err := c.RequeueAll(ctx, queue.DeadFilter{Queue: "q"}); return err }},
		{"purge", "", 7, func(ctx context.Context) error { _, err := c.Purge(ctx, 7); return err }},
		{"purge", "q", 0, func(ctx context.Context) error { _, err := c.PurgeAll(ctx, queue.DeadFilter{Queue: "q"}); return err }},
		{"sweep", "q", 0, func(ctx context.Context) error { _, err := c.Sweep(ctx, "q"); return err }},
		{"pause", "q", 0, func(ctx context.Context) error { return c.Pause(ctx, "q") }},
		{"resume", "q", 0, func(ctx context.Context) error { return c.Resume(ctx, "q") }},
		{"watch", "", 0, func(ctx context.Context) error { return c.Watch(ctx, 1, func(string) {}) }},
		{"announce", "", 0, func(ctx context.Context) error { return c.Announce(ctx, "w", nil, 1) }},
		{"withdraw", "", 0, func(ctx context.Context) error { return c.Withdraw(ctx, "w") }},
		{"read clock", "", 0, func(ctx context.Context) error { _, err := c.Now(ctx); return err }},
		{"check", "", 0, func(ctx context.Context) error { _, err := c.Check(ctx); return err }},
		{"backup", "", 0, func(ctx context.Context) error { return c.Backup(ctx, "file") }},
	}
	for _, tt := range tests {
		t.Run("T5_"+tt.op, func(t *testing.T) {
			wantError(t, tt.call(t.Context()), tt.op, tt.queue, tt.id, queue.ErrClosed)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			wantError(t, tt.call(ctx), tt.op, tt.queue, tt.id, context.Canceled)
		})
	}
	t.Run("backup_without_a_path", func(t *testing.T) {
		wantError(t, noStore().Backup(t.Context(), ""), "backup", "", 0, queue.ErrInvalid)
	})
}

func TestTransient(t *testing.T) {
	for err, want := range map[error]bool{
		queue.ErrBusy: true, queue.ErrFull: true, queue.ErrNoID: true, queue.ErrUnavailable: true,
		queue.ErrInvalid: false, queue.ErrClosed: false, queue.ErrReadOnly: false, queue.ErrCorrupt: false, context.Canceled: false,
	} {
		if got := queue.Transient(&queue.Error{Op: "claim", Err: fmt.Errorf("wrapped: %w", err)}); got != want {
			t.Errorf("%v: got %v, want %v", err, got, want)
		}
	}
	if queue.Transient(nil) || errors.Is(nil, queue.ErrInvalid) {
		t.Error("nil is no error")
	}
}

func TestCheck(t *testing.T) {
	c, _ := open(t, nil)
	enqueue(t, c, queue.EnqueueOptions{})
	if problems, err := c.Check(t.Context()); problems == nil || len(problems) != 0 || err != nil {
		t.Errorf("got %v, %v; want an empty slice", problems, err)
	}
}
