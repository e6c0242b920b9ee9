package queue_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/alkstore/alkworker/queue"
)

func TestAck(t *testing.T) {
	t.Run("H2_deletes_and_answers_for_each", func(t *testing.T) {
		c, _ := open(t, nil)
		enqueue(t, c, queue.EnqueueOptions{})
		enqueue(t, c, queue.EnqueueOptions{})
		a, b := claim(t, c), claim(t, c)
		held, err := c.Ack(t.Context(), b.Handle(), queue.Handle{ID: 99, Fence: 1}, a.Handle(), a.Handle())
		must(t, err)
		if got, want := fmt.Sprint(held), "[true false true false]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if j, err := c.Get(t.Context(), a.ID); j != nil || err != nil {
			t.Errorf("got %v, %v; want no job", j, err)
		}
	})
	t.Run("H2_nil_transaction_is_refused", func(t *testing.T) {
		_, err := noStore().AckTx(t.Context(), nil, queue.Handle{ID: 7, Fence: 1})
		wantError(t, err, "ack", "", 7, queue.ErrInvalid)
	})
}

// K2: after a reclaim, or a cancel, nothing that the first holder does has an effect.
func TestStaleHandle(t *testing.T) {
	operations := map[string]func(*testing.T, *queue.Client, *queue.Job) bool{
		"ack": func(t *testing.T, c *queue.Client, j *queue.Job) bool {
			held, err := c.Ack(t.Context(), j.Handle())
			must(t, err)
			return held[0]
		},
		"heartbeat": func(t *testing.T, c *queue.Client, j *queue.Job) bool {
			held, err := c.Heartbeat(t.Context(), j.Handle())
			must(t, err)
			return held[0]
		},
		"extend": func(t *testing.T, c *queue.Client, j *queue.Job) bool {
			held, err := c.Extend(t.Context(), j.Handle(), time.Hour)
			must(t, err)
			return held
		},
		"retry": func(t *testing.T, c *queue.Client, j *queue.Job) bool {
			verdicts, err := c.Retry(t.Context(), queue.Retry{Job: j, Err: "late"})
			must(t, err)
			return verdicts[0] != queue.Refused
		},
		"fail": func(t *testing.T, c *queue.Client, j *queue.Job) bool {
			held, err := c.Fail(t.Context(), queue.Failed{Handle: j.Handle(), Err: "late"})
			must(t, err)
			return held[0]
		},
		"release": func(t *testing.T, c *queue.Client, j *queue.Job) bool {
			held, err := c.Release(t.Context(), queue.Released{Handle: j.Handle()})
			must(t, err)
			return held[0]
		},
	}
	for name, operate := range operations {
		t.Run("H1_"+name+"_holds_at_the_deadline", func(t *testing.T) {
			c, clock := open(t, nil)
			enqueue(t, c, queue.EnqueueOptions{VisibilityTimeout: 10 * time.Second})
			j := claim(t, c)
			clock.advance(10 * time.Second)
			if !operate(t, c, j) {
				t.Error("refused")
			}
		})
		t.Run("H1_"+name+"_refused_after_the_deadline", func(t *testing.T) {
			c, clock := open(t, nil)
			enqueue(t, c, queue.EnqueueOptions{VisibilityTimeout: 10 * time.Second})
			j := claim(t, c)
			clock.advance(11 * time.Second)
			before := fmt.Sprintf("%+v", *get(t, c, j.ID))
			if operate(t, c, j) {
				t.Error("held")
			}
			if after := fmt.Sprintf("%+v", *get(t, c, j.ID)); after != before {
				t.Errorf("changed: %s, was %s", after, before)
			}
		})
		t.Run("H1_"+name+"_refused_after_a_reclaim", func(t *testing.T) {
			c, clock := open(t, nil)
			enqueue(t, c, queue.EnqueueOptions{VisibilityTimeout: 10 * time.Second})
			stale := claim(t, c)
			clock.advance(11 * time.Second)
			fresh := claim(t, c)
			if operate(t, c, stale) {
				t.Error("held")
			}
			held, err := c.Ack(t.Context(), fresh.Handle())
			only(t, "ack of the new claim", held, err, true)
		})
		t.Run("H8_"+name+"_refused_after_a_cancel", func(t *testing.T) {
			c, _ := open(t, nil)
			enqueue(t, c, queue.EnqueueOptions{})
			j := claim(t, c)
			found, err := c.Cancel(t.Context(), j.ID)
			only(t, "cancel", found, err, true)
			if operate(t, c, j) {
				t.Error("held")
			}
		})
	}
}

func TestHeartbeat(t *testing.T) {
	t.Run("H3_by_the_visibility_timeout", func(t *testing.T) {
		c, clock := open(t, nil)
		id := enqueue(t, c, queue.EnqueueOptions{VisibilityTimeout: 10 * time.Second})
		j := claim(t, c)
		clock.advance(5 * time.Second)
		held, err := c.Heartbeat(t.Context(), j.Handle())
		only(t, "heartbeat", held, err, true)
		if got, want := get(t, c, id).ClaimExpiresAt, start.Add(15*time.Second); !got.Equal(want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
	t.Run("H3_by_an_extension_that_rounds_up", func(t *testing.T) {
		c, _ := open(t, nil)
		id := enqueue(t, c, queue.EnqueueOptions{})
		held, err := c.Extend(t.Context(), claim(t, c).Handle(), time.Hour+1)
		if err != nil || !held {
			t.Fatalf("got %v, %v", held, err)
		}
		if got, want := get(t, c, id).ClaimExpiresAt, start.Add(time.Hour+time.Second); !got.Equal(want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
	for _, d := range []time.Duration{0, -1, math.MinInt64, year + 1, math.MaxInt64} {
		t.Run(fmt.Sprintf("K42_extension_%d", d), func(t *testing.T) {
			_, err := noStore().Extend(t.Context(), queue.Handle{ID: 7, Fence: 1}, d)
			wantError(t, err, "extend", "", 7, queue.ErrInvalid)
		})
	}
}

func TestRetry(t *testing.T) {
	delay := func(d time.Duration) *time.Duration { return &d }

	t.Run("H4_pending_again_after_the_delay", func(t *testing.T) {
		tests := map[string]struct{ delay, want time.Duration }{
			"K42_zero":          {0, 0},
			"K42_negative":      {-time.Hour, 0},
			"K42_most_negative": {math.MinInt64, 0},
			"rounds_up":         {time.Minute + 1, 61 * time.Second},
		}
		for name, tt := range tests {
			t.Run(name, func(t *testing.T) {
				c, _ := open(t, nil)
				id := enqueue(t, c, queue.EnqueueOptions{})
				verdicts, err := c.Retry(t.Context(), queue.Retry{Job: claim(t, c), Err: "boom", Delay: delay(tt.delay)})
				only(t, "retry", verdicts, err, queue.Retrying)
				j := get(t, c, id)
				if j.State != queue.Pending || j.Attempt != 1 || j.Claimant != "" || j.LastError != "boom" {
					t.Errorf("got %s, attempt %d, claimant %q, error %q", j.State, j.Attempt, j.Claimant, j.LastError)
				}
				if want := start.Add(tt.want); !j.RunAt.Equal(want) {
					t.Errorf("ready at %v, want %v", j.RunAt, want)
				}
			})
		}
	})
	t.Run("B1_delay_from_the_curve", func(t *testing.T) {
		c, clock := open(t, &queue.Config{MaxBackoff: 10 * time.Minute})
		id := enqueue(t, c, queue.EnqueueOptions{BackoffBase: 100 * time.Second, MaxAttempts: 100})
		for _, want := range []time.Duration{100, 200, 400, 600, 600} {
			verdicts, err := c.Retry(t.Context(), queue.Retry{Job: claim(t, c)})
			only(t, "retry", verdicts, err, queue.Retrying)
			now, err := c.Now(t.Context())
			must(t, err)
			got := get(t, c, id).RunAt.Sub(now)
			if low, high := want*time.Second*8/10, want*time.Second*12/10; got < low || got > high {
				t.Errorf("got %v, want %v to %v", got, low, high)
			}
			clock.advance(got)
		}
	})
	t.Run("B1_no_backoff", func(t *testing.T) {
		c, _ := open(t, nil)
		id := enqueue(t, c, queue.EnqueueOptions{BackoffBase: queue.NoBackoff})
		verdicts, err := c.Retry(t.Context(), queue.Retry{Job: claim(t, c)})
		only(t, "retry", verdicts, err, queue.Retrying)
		if got := get(t, c, id).RunAt; !got.Equal(start) {
			t.Errorf("ready at %v, want now", got)
		}
	})
	for name, tt := range map[string]struct{ err, want, history string }{
		"H7_text_of_the_handler": {"boom", "boom", "boom"},
		"H7_no_text":             {"", "max attempts exceeded", "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := open(t, nil)
			id := enqueue(t, c, queue.EnqueueOptions{MaxAttempts: 1})
			verdicts, err := c.Retry(t.Context(), queue.Retry{Job: claim(t, c), Err: tt.err, Stack: "stack"})
			only(t, "retry", verdicts, err, queue.Buried)
			j := get(t, c, id)
			if j.State != queue.Dead || j.LastError != tt.want {
				t.Errorf("got %s, %q; want dead, %q", j.State, j.LastError, tt.want)
			}
			if got, want := fmt.Sprint(j.Failures), fmt.Sprintf("[{1 %v %s stack}]", start, tt.history); got != want {
				t.Errorf("H10: got history %s, want %s", got, want)
			}
		})
	}
	t.Run("no_job_is_refused_and_nothing_done", func(t *testing.T) {
		c, _ := open(t, nil)
		enqueue(t, c, queue.EnqueueOptions{})
		j := claim(t, c)
		_, err := c.Retry(t.Context(), queue.Retry{Job: j}, queue.Retry{})
		wantError(t, err, "retry", "", 0, queue.ErrInvalid)
		if got := get(t, c, j.ID).State; got != queue.Processing {
			t.Errorf("got %s, want processing", got)
		}
	})
	t.Run("batch_answers_for_each", func(t *testing.T) {
		c, _ := open(t, nil)
		enqueue(t, c, queue.EnqueueOptions{})
		enqueue(t, c, queue.EnqueueOptions{MaxAttempts: 1})
		a, b := claim(t, c), claim(t, c)
		verdicts, err := c.Retry(t.Context(), queue.Retry{Job: b}, queue.Retry{Job: a}, queue.Retry{Job: a})
		must(t, err)
		if got, want := fmt.Sprint(verdicts), "[buried retrying refused]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

func TestFail(t *testing.T) {
	for text, want := range map[string]string{"boom": "boom", "": "failed"} {
		t.Run("H5_H7_text_"+want, func(t *testing.T) {
			c, _ := open(t, nil)
			id := bury(t, c, text)
			j := get(t, c, id)
			if j.State != queue.Dead || j.LastError != want || !j.DiedAt.Equal(start) || j.Attempt != 1 {
				t.Errorf("got %s, %q, died at %v, attempt %d", j.State, j.LastError, j.DiedAt, j.Attempt)
			}
		})
	}
}

func TestRelease(t *testing.T) {
	for name, tt := range map[string]struct{ delay, want time.Duration }{
		"H6_now": {0, 0}, "H6_snooze": {time.Minute, time.Minute}, "K42_negative": {-1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := open(t, nil)
			id := enqueue(t, c, queue.EnqueueOptions{MaxAttempts: 1})
			held, err := c.Release(t.Context(), queue.Released{Handle: claim(t, c).Handle(), Delay: tt.delay})
			only(t, "release", held, err, true)
			j := get(t, c, id)
			if j.State != queue.Pending || j.Attempt != 0 || j.Fence != 1 || !j.RunAt.Equal(start.Add(tt.want)) {
				t.Errorf("got %s, attempt %d, fence %d, ready at %v", j.State, j.Attempt, j.Fence, j.RunAt)
			}
		})
	}
}

// K88: whatever a handler says, its job changes state.
func TestTexts(t *testing.T) {
	texts := map[string]string{
		"nul":          "a\x00b",
		"invalid_utf8": "a\xffb",
		"both_long":    strings.Repeat("\x00\xff", 1<<20),
		"runes_long":   strings.Repeat("€", 1<<20),
	}
	for name, text := range texts {
		t.Run("K88_"+name, func(t *testing.T) {
			c, _ := open(t, nil)
			a, b := enqueue(t, c, queue.EnqueueOptions{}), enqueue(t, c, queue.EnqueueOptions{})
			x, y := claim(t, c), claim(t, c)
			verdicts, err := c.Retry(t.Context(), queue.Retry{Job: x, Err: text, Stack: text})
			only(t, "retry", verdicts, err, queue.Retrying)
			held, err := c.Fail(t.Context(), queue.Failed{Handle: y.Handle(), Err: text, Stack: text})
			only(t, "fail", held, err, true)
			for _, id := range []int64{a, b} {
				j := get(t, c, id)
				for what, got := range map[string]string{
					"last error": j.LastError, "error": j.Failures[0].Error, "stack": j.Failures[0].Stack,
				} {
					limit := 64 << 10
					if what == "stack" {
						limit = 32 << 10
					}
					if got == "" || len(got) > limit || !utf8.ValidString(got) || strings.ContainsRune(got, 0) {
						t.Errorf("%s: %d bytes, valid UTF-8 %v", what, len(got), utf8.ValidString(got))
					}
				}
			}
		})
	}
}

func TestNoJobsIsNoCall(t *testing.T) {
	c := noStore()
	for name, call := range map[string]func() (int, error){
		"ack":       func() (int, error) { r, err := c.Ack(t.Context()); return len(r), err },
		"ack_tx":    func() (int, error) { r, err := c.AckTx(t.Context(), nil); return len(r), err },
		"heartbeat": func() (int, error) { r, err := c.Heartbeat(t.Context()); return len(r), err },
		"retry":     func() (int, error) { r, err := c.Retry(t.Context()); return len(r), err },
		"fail":      func() (int, error) { r, err := c.Fail(t.Context()); return len(r), err },
		"release":   func() (int, error) { r, err := c.Release(t.Context()); return len(r), err },
		"cancel":    func() (int, error) { r, err := c.Cancel(t.Context()); return len(r), err },
		"requeue":   func() (int, error) { r, err := c.Requeue(t.Context()); return len(r), err },
		"purge":     func() (int, error) { r, err := c.Purge(t.Context()); return len(r), err },
	} {
		if n, err := call(); n != 0 || err != nil {
			t.Errorf("%s: got %d answers, %v; want none", name, n, err)
		}
	}
}
