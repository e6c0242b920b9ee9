package queue_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alkstore/alkworker/queue"
)

func TestEnqueue(t *testing.T) {
	t.Run("E1_new_job", func(t *testing.T) {
		c, _ := open(t, nil)
		j := get(t, c, enqueue(t, c, queue.EnqueueOptions{}))
		want := queue.Job{
			ID: j.ID, Queue: "q", State: queue.Pending, Payload: []byte("p"), PayloadSize: 1, MaxAttempts: 20,
			VisibilityTimeout: 30 * time.Second, BackoffBase: 5 * time.Second, DeadLetterRetention: 90 * 24 * time.Hour,
			CreatedAt: start, RunAt: start,
		}
		if got, want := fmt.Sprintf("%+v", *j), fmt.Sprintf("%+v", want); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
	t.Run("E2_call_overrides_queue", func(t *testing.T) {
		c, _ := open(t, nil)
		q := queue.DefineRaw("q", queue.Options{
			VisibilityTimeout: time.Minute, MaxAttempts: 3, BackoffBase: time.Second, DeadLetterRetention: time.Hour,
		})
		plain, err := q.Enqueue(t.Context(), c, nil, nil)
		must(t, err)
		own, err := q.Enqueue(t.Context(), c, nil, &queue.EnqueueOptions{
			VisibilityTimeout: 2 * time.Minute, MaxAttempts: 1,
			BackoffBase: queue.NoBackoff, DeadLetterRetention: queue.KeepForever,
		})
		must(t, err)
		stamps := func(j *queue.Job) string {
			return fmt.Sprint(j.VisibilityTimeout, j.MaxAttempts, j.BackoffBase, j.DeadLetterRetention)
		}
		if got, want := stamps(get(t, c, plain)), "1m0s 3 1s 1h0m0s"; got != want {
			t.Errorf("the queue's: got %s, want %s", got, want)
		}
		if got, want := stamps(get(t, c, own)), "2m0s 1 0s -1ns"; got != want {
			t.Errorf("the call's: got %s, want %s", got, want)
		}
	})
	t.Run("E6_all_or_none_ids_in_order", func(t *testing.T) {
		c, _ := open(t, nil)
		ids, err := c.Enqueue(t.Context(),
			queue.NewJob{Queue: "a", Payload: []byte("1")},
			queue.NewJob{Queue: "b", Payload: []byte("2")},
			queue.NewJob{Queue: "a", Payload: []byte("3")})
		must(t, err)
		for i, id := range ids {
			if got, want := string(get(t, c, id).Payload), fmt.Sprint(i+1); got != want {
				t.Errorf("ids[%d]: got payload %s, want %s", i, got, want)
			}
		}
		_, err = c.Enqueue(t.Context(),
			queue.NewJob{Queue: "a"},
			queue.NewJob{Queue: "a", EnqueueOptions: queue.EnqueueOptions{Delay: time.Hour, Expires: time.Minute}})
		wantError(t, err, "enqueue", "a", 0, queue.ErrExpiresFirst)
		if jobs, err := c.List(t.Context(), queue.Filter{}); err != nil || len(jobs) != 3 {
			t.Errorf("got %d jobs, %v; want the 3 of before", len(jobs), err)
		}
	})
	t.Run("E6_none_is_no_call", func(t *testing.T) {
		c := noStore()
		if ids, err := c.Enqueue(t.Context()); ids != nil || err != nil {
			t.Errorf("Enqueue: got %v, %v; want nothing", ids, err)
		}
		if ids, err := c.EnqueueTx(t.Context(), nil); ids != nil || err != nil {
			t.Errorf("EnqueueTx: got %v, %v; want nothing", ids, err)
		}
		if ids, err := queue.DefineRaw("q", queue.Options{}).EnqueueMany(t.Context(), c, nil, nil); ids != nil || err != nil {
			t.Errorf("EnqueueMany: got %v, %v; want nothing", ids, err)
		}
	})
	t.Run("E5_nil_transaction_is_refused", func(t *testing.T) {
		_, err := noStore().EnqueueTx(t.Context(), nil, queue.NewJob{Queue: "q"})
		wantError(t, err, "enqueue", "q", 0, queue.ErrInvalid)
	})
}

func TestEnqueueReadyTime(t *testing.T) {
	later := start.Add(time.Hour)
	tests := []struct {
		name string
		o    queue.EnqueueOptions
		want time.Time
	}{
		{"E3_neither_means_now", queue.EnqueueOptions{}, start},
		{"E3_delay", queue.EnqueueOptions{Delay: time.Minute}, start.Add(time.Minute)},
		{"E3_delay_rounds_up", queue.EnqueueOptions{Delay: 1}, start.Add(time.Second)},
		{"E3_run_at", queue.EnqueueOptions{RunAt: later}, later},
		{"E3_run_at_rounds_up", queue.EnqueueOptions{RunAt: later.Add(1)}, later.Add(time.Second)},
		{"E3_run_at_in_another_zone", queue.EnqueueOptions{RunAt: later.In(time.FixedZone("", -3600))}, later},
		{"E3_run_at_in_the_past", queue.EnqueueOptions{RunAt: time.Unix(0, 0)}, time.Unix(0, 0).UTC()},
		{"E3_delay_wins", queue.EnqueueOptions{Delay: time.Minute, RunAt: later}, start.Add(time.Minute)},
		{
			"K42_year_9999",
			queue.EnqueueOptions{RunAt: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)},
			time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		},
		{"E4_ready_at_the_expiry", queue.EnqueueOptions{Delay: time.Minute, Expires: time.Minute}, start.Add(time.Minute)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := open(t, nil)
			if got := get(t, c, enqueue(t, c, tt.o)).RunAt; !got.Equal(tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestEnqueueExpiry(t *testing.T) {
	t.Run("E4_counts_from_enqueue_whatever_the_delay", func(t *testing.T) {
		c, _ := open(t, nil)
		j := get(t, c, enqueue(t, c, queue.EnqueueOptions{Delay: time.Minute, Expires: time.Hour + 1}))
		if want := start.Add(time.Hour + time.Second); !j.ExpiresAt.Equal(want) {
			t.Errorf("got %v, want %v", j.ExpiresAt, want)
		}
	})
	for name, o := range map[string]queue.EnqueueOptions{
		"E4_run_at_past_expiry": {RunAt: start.Add(time.Hour), Expires: time.Minute},
		"E4_delay_past_expiry":  {Delay: time.Hour, Expires: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := open(t, nil)
			_, err := c.Enqueue(t.Context(), queue.NewJob{Queue: "q", EnqueueOptions: o})
			wantError(t, err, "enqueue", "q", 0, queue.ErrExpiresFirst)
		})
	}
}

func TestEnqueuePayload(t *testing.T) {
	t.Run("E7_any_bytes", func(t *testing.T) {
		c, _ := open(t, nil)
		q := queue.DefineRaw("q", queue.Options{})
		for _, payload := range []string{"", "\x00", "a\x00b", "\xff\xfe", "{}", strings.Repeat("\x00", 1<<20)} {
			id, err := q.Enqueue(t.Context(), c, []byte(payload), nil)
			must(t, err)
			if j := get(t, c, id); string(j.Payload) != payload || j.PayloadSize != len(payload) {
				t.Errorf("got %d bytes, size %d; want %d", len(j.Payload), j.PayloadSize, len(payload))
			}
		}
	})
	t.Run("E7_nil_is_empty", func(t *testing.T) {
		c, _ := open(t, nil)
		ids, err := c.Enqueue(t.Context(), queue.NewJob{Queue: "q"})
		must(t, err)
		if j := get(t, c, ids[0]); j.Payload == nil || len(j.Payload) != 0 {
			t.Errorf("got %#v, want an empty slice", j.Payload)
		}
	})
	t.Run("E7_limit", func(t *testing.T) {
		c, _ := open(t, &queue.Config{MaxPayload: 4})
		fits, over := queue.NewJob{Queue: "q", Payload: []byte("1234")}, queue.NewJob{Queue: "q", Payload: []byte("12345")}
		if _, err := c.Enqueue(t.Context(), fits); err != nil {
			t.Errorf("at the limit: %v", err)
		}
		_, err := c.Enqueue(t.Context(), over)
		wantError(t, err, "enqueue", "q", 0, queue.ErrPayloadTooLarge)
		_, err = c.Enqueue(t.Context(), fits, over, fits)
		wantError(t, err, "enqueue", "q", 0, queue.ErrPayloadTooLarge)
		if !strings.Contains(err.Error(), "jobs[1]: payload too large: 5 bytes, limit 4") {
			t.Errorf("got %v, want the job, its size and the limit", err)
		}
		if jobs, err := c.List(t.Context(), queue.Filter{}); err != nil || len(jobs) != 1 {
			t.Errorf("got %d jobs, %v; want only the one that fits", len(jobs), err)
		}
	})
	t.Run("E7_default_limit_is_16_MiB", func(t *testing.T) {
		c, _ := open(t, nil)
		payload := make([]byte, 16<<20+1)
		_, err := c.Enqueue(t.Context(), queue.NewJob{Queue: "q", Payload: payload})
		wantError(t, err, "enqueue", "q", 0, queue.ErrPayloadTooLarge)
		_, err = c.Enqueue(t.Context(), queue.NewJob{Queue: "q", Payload: payload[1:]})
		must(t, err)
	})
}

func TestEnqueueReportsAllProblems(t *testing.T) {
	bad := queue.NewJob{
		Queue: "a\nb", Payload: make([]byte, 9), Options: queue.Options{MaxAttempts: -1},
		EnqueueOptions: queue.EnqueueOptions{Delay: -1},
	}
	c, _ := open(t, &queue.Config{MaxPayload: 8})

	_, err := c.Enqueue(t.Context(), bad)
	wantError(t, err, "enqueue", "a\nb", 0, queue.ErrInvalid)
	for _, part := range []string{"control character", "max attempts -1", "delay -1ns", "9 bytes, limit 8"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("one job: got %v, want also %q", err, part)
		}
	}

	_, err = c.Enqueue(t.Context(), bad, queue.NewJob{Queue: "fine"}, queue.NewJob{Queue: ""})
	wantError(t, err, "enqueue", "", 0, queue.ErrInvalid)
	for _, part := range []string{"jobs[0]: ", "jobs[2]: queue name is empty"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("three jobs: got %v, want also %q", err, part)
		}
	}
	if strings.Contains(err.Error(), "jobs[1]") {
		t.Errorf("got %v, want nothing about jobs[1]", err)
	}

	_, err = c.Enqueue(t.Context(), slices.Repeat([]queue.NewJob{{}}, 5000)...)
	if n := strings.Count(err.Error(), "jobs["); n != 10 || !strings.Contains(err.Error(), "and more") {
		t.Errorf("5,000 jobs: got %d problems, want 10 and a word about the rest", n)
	}
}

func TestQueue(t *testing.T) {
	type email struct {
		To string `json:"to"`
	}
	emails := queue.Define[email]("emails", queue.Options{MaxAttempts: 3})

	t.Run("E7_typed_payload_is_JSON", func(t *testing.T) {
		c, _ := open(t, nil)
		id, err := emails.Enqueue(t.Context(), c, email{To: "a@example.com"}, &queue.EnqueueOptions{Priority: math.MinInt})
		must(t, err)
		j := get(t, c, id)
		if got, want := string(j.Payload), `{"to":"a@example.com"}`; got != want {
			t.Errorf("got payload %s, want %s", got, want)
		}
		if j.MaxAttempts != 3 || j.Priority != math.MinInt {
			t.Errorf("got %d attempts, priority %d; want 3 and the least int", j.MaxAttempts, j.Priority)
		}
		v, err := emails.Decode(j.Payload)
		if must(t, err); v.To != "a@example.com" {
			t.Errorf("got %+v", v)
		}
	})
	t.Run("decode_error_names_queue_and_type", func(t *testing.T) {
		for _, payload := range []string{"", "{", `{"to":5}`, `{}{}`} {
			v, err := emails.Decode([]byte(payload))
			var e *queue.Error
			if !errors.As(err, &e) || e.Op != "decode" || e.Queue != "emails" || !strings.Contains(err.Error(), "queue_test.email") {
				t.Errorf("%q: got %v, want an *Error with queue and type", payload, err)
			}
			if v != (email{}) {
				t.Errorf("%q: got %+v beside the error", payload, v)
			}
		}
	})
	t.Run("encode_error_names_queue_and_type", func(t *testing.T) {
		_, err := queue.Define[chan int]("pipes", queue.Options{}).Enqueue(t.Context(), noStore(), nil, nil)
		var e *queue.Error
		if !errors.As(err, &e) || e.Op != "encode" || e.Queue != "pipes" || !strings.Contains(err.Error(), "chan int") {
			t.Errorf("got %v, want an *Error with queue and type", err)
		}
	})
	t.Run("raw_decode_is_a_copy", func(t *testing.T) {
		payload := []byte("abc")
		v, err := queue.DefineRaw("q", queue.Options{}).Decode(payload)
		must(t, err)
		v[0] = 'x'
		if !bytes.Equal(payload, []byte("abc")) {
			t.Errorf("changing the value changed the payload: %s", payload)
		}
	})
	t.Run("options_are_resolved", func(t *testing.T) {
		want := queue.Options{
			VisibilityTimeout: 30 * time.Second, MaxAttempts: 3, BackoffBase: 5 * time.Second, DeadLetterRetention: 90 * 24 * time.Hour,
		}
		if got := emails.Options(); got != want || emails.Name() != "emails" {
			t.Errorf("got %s, %+v; want emails, %+v", emails.Name(), got, want)
		}
	})
	for name, define := range map[string]func(){
		"E8_invalid_name_panics":    func() { queue.Define[int]("a\tb", queue.Options{}) },
		"K41_invalid_options_panic": func() { queue.DefineRaw("q", queue.Options{MaxAttempts: -1}) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			define()
		})
	}
}
