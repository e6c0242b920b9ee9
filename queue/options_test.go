package queue_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/alkstore/alkworker/queue"
)

const year = 365 * 24 * time.Hour

func TestValidateName(t *testing.T) {
	tests := []struct {
		name  string
		queue string
		want  string // a part of the error; empty if the name is fine
	}{
		{"E8_one_byte", "a", ""},
		{"E8_128_bytes", strings.Repeat("a", 128), ""},
		{"E8_129_bytes", strings.Repeat("a", 129), "129 bytes is over 128"},
		{"E8_length_is_in_bytes", strings.Repeat("ä", 65), "130 bytes is over 128"},
		{"E8_empty", "", "empty"},
		{"E8_spaces_and_punctuation", "mail to: <all>/'*' \\ %s", ""},
		{"E8_any_script", "письма 邮件 📮", ""},
		{"E8_invalid_utf8", "a\xffb", "not valid UTF-8"},
		{"E8_surrogate", "\xed\xa0\x80", "not valid UTF-8"},
		{"E8_nul", "a\x00b", "control character U+0000"},
		{"E8_newline", "a\n", "control character U+000A"},
		{"E8_delete", "a\x7f", "control character U+007F"},
		{"E8_c1_control", "a\u0085", "control character U+0085"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := queue.ValidateName(tt.queue)
			if tt.want == "" {
				if err != nil {
					t.Fatalf("got %v, want nil", err)
				}
				return
			}
			if !errors.Is(err, queue.ErrInvalid) || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want an ErrInvalid with %q", err, tt.want)
			}
		})
	}
}

func TestOptionsValidate(t *testing.T) {
	tests := []struct {
		name string
		o    queue.Options
		want []string // parts of the error; none if the options are fine
	}{
		{"zero", queue.Options{}, nil},
		{"least", queue.Options{VisibilityTimeout: 1, MaxAttempts: 1, BackoffBase: 1, DeadLetterRetention: 1}, nil},
		{"most", queue.Options{
			VisibilityTimeout: year, MaxAttempts: math.MaxInt32, BackoffBase: year, DeadLetterRetention: math.MaxInt64,
		}, nil},
		{"none", queue.Options{BackoffBase: queue.NoBackoff, DeadLetterRetention: queue.KeepForever}, nil},
		{"K42_visibility_negative", queue.Options{VisibilityTimeout: -time.Second}, []string{"visibility timeout -1s"}},
		{"K42_visibility_minus_one", queue.Options{VisibilityTimeout: -1}, []string{"visibility timeout -1ns"}},
		{"K42_visibility_huge", queue.Options{VisibilityTimeout: math.MaxInt64}, []string{"over one year"}},
		{"K41_attempts_negative", queue.Options{MaxAttempts: -1}, []string{"max attempts -1"}},
		{"K41_attempts_2_31", queue.Options{MaxAttempts: 1 << 31}, []string{"max attempts 2147483648"}},
		{"K42_backoff_negative", queue.Options{BackoffBase: -time.Second}, []string{"backoff base -1s"}},
		{"K42_backoff_huge", queue.Options{BackoffBase: year + 1}, []string{"over one year"}},
		{"K42_retention_negative", queue.Options{DeadLetterRetention: -time.Hour}, []string{"retention -1h0m0s"}},
		{"K42_most_negative", queue.Options{
			VisibilityTimeout: math.MinInt64, MaxAttempts: math.MinInt, BackoffBase: math.MinInt64,
			DeadLetterRetention: math.MinInt64,
		}, []string{"visibility timeout", "max attempts", "backoff base", "retention"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.o.Validate()
			if (err != nil) != (tt.want != nil) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			for _, part := range tt.want {
				if !errors.Is(err, queue.ErrInvalid) || !strings.Contains(err.Error(), part) {
					t.Errorf("got %v, want an ErrInvalid with %q", err, part)
				}
			}
		})
	}
}

func TestOptionsStamps(t *testing.T) {
	t.Run("E2_defaults", func(t *testing.T) {
		s := queue.Options{}.Stamps()
		if s.VisibilityTimeoutS != 30 || s.MaxAttempts != 20 || s.BackoffBaseS != 5 ||
			s.DeadLetterRetentionS == nil || *s.DeadLetterRetentionS != 90*24*60*60 {
			t.Errorf("got %+v, want 30 s, 20, 5 s, 90 days", s)
		}
		if got, want := queue.OptionsOf(s), (queue.Options{}).Resolved(); got != want {
			t.Errorf("back again: got %+v, want %+v", got, want)
		}
	})
	t.Run("T1_durations_round_up", func(t *testing.T) {
		s := queue.Options{VisibilityTimeout: 1, BackoffBase: time.Second + 1, DeadLetterRetention: 1500 * time.Millisecond}.Stamps()
		if s.VisibilityTimeoutS != 1 || s.BackoffBaseS != 2 || *s.DeadLetterRetentionS != 2 {
			t.Errorf("got %+v (retention %d), want 1 s, 2 s, 2 s", s, *s.DeadLetterRetentionS)
		}
	})
	t.Run("none_is_kept_apart_from_zero", func(t *testing.T) {
		o := queue.Options{BackoffBase: queue.NoBackoff, DeadLetterRetention: queue.KeepForever}
		s := o.Stamps()
		if s.BackoffBaseS != 0 || s.DeadLetterRetentionS != nil {
			t.Errorf("got %+v, want no backoff and no retention", s)
		}
		if got := queue.OptionsOf(s); got != o.Resolved() {
			t.Errorf("back again: got %+v, want %+v", got, o.Resolved())
		}
	})
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		0: 0, 1: 1, time.Second - 1: 1, time.Second: 1, time.Second + 1: 2, math.MaxInt64: 9223372037,
	} {
		if got := queue.Seconds(d); got != want {
			t.Errorf("%v: got %d s, want %d s", d, got, want)
		}
	}
}

func TestEnqueueOptionsValidate(t *testing.T) {
	tests := []struct {
		name string
		o    queue.EnqueueOptions
		want []string
	}{
		{"zero", queue.EnqueueOptions{}, nil},
		{"K42_priority_least", queue.EnqueueOptions{Priority: math.MinInt}, nil},
		{"K42_priority_most", queue.EnqueueOptions{Priority: math.MaxInt}, nil},
		{"K42_delay_longest", queue.EnqueueOptions{Delay: math.MaxInt64}, nil},
		{"E3_delay_negative", queue.EnqueueOptions{Delay: -1}, []string{"delay -1ns is negative"}},
		{"K42_expiry_negative", queue.EnqueueOptions{Expires: -time.Minute}, []string{"expiry -1m0s is negative"}},
		{"K42_run_at_1970", queue.EnqueueOptions{RunAt: time.Unix(0, 0)}, nil},
		{"K42_run_at_before_1970", queue.EnqueueOptions{RunAt: time.Unix(-1, 0)}, []string{"1969-12-31T23:59:59Z"}},
		{"K42_run_at_year_1", queue.EnqueueOptions{RunAt: time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC)}, []string{"0001-01-01"}},
		{"K42_run_at_year_9999", queue.EnqueueOptions{RunAt: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)}, nil},
		{
			"K42_run_at_rounds_beyond_9999",
			queue.EnqueueOptions{RunAt: time.Date(9999, 12, 31, 23, 59, 59, 1, time.UTC)},
			[]string{"not within"},
		},
		{"K42_run_at_beyond", queue.EnqueueOptions{RunAt: time.Unix(math.MaxInt64, 0)}, []string{"not within"}},
		{"K41_attempts_negative", queue.EnqueueOptions{MaxAttempts: -1}, []string{"max attempts -1"}},
		{"K42_visibility_negative", queue.EnqueueOptions{VisibilityTimeout: -1}, []string{"visibility timeout"}},
		{"none", queue.EnqueueOptions{BackoffBase: queue.NoBackoff, DeadLetterRetention: queue.KeepForever}, nil},
		{
			"all_problems_together",
			queue.EnqueueOptions{Delay: -1, RunAt: time.Unix(-9, 0), Expires: -1, MaxAttempts: -1, BackoffBase: -2},
			[]string{"delay", "run-at", "expiry", "max attempts", "backoff base"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.o.Validate()
			if (err != nil) != (tt.want != nil) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			for _, part := range tt.want {
				if !errors.Is(err, queue.ErrInvalid) || !strings.Contains(err.Error(), part) {
					t.Errorf("got %v, want an ErrInvalid with %q", err, part)
				}
			}
		})
	}
}

func TestConfigValidate(t *testing.T) {
	bad := queue.Config{MaxPayload: -1, MaxBackoff: -1, BusyTimeout: -1, Synchronous: 7}
	err := bad.Validate()
	for _, part := range []string{"max payload", "max backoff", "busy timeout", "Synchronous(7)"} {
		if !errors.Is(err, queue.ErrInvalid) || !strings.Contains(err.Error(), part) {
			t.Errorf("got %v, want an ErrInvalid with %q", err, part)
		}
	}
	if err := (queue.Config{MaxPayload: 1, MaxBackoff: 1, BusyTimeout: 1, Synchronous: queue.Normal}).Validate(); err != nil {
		t.Errorf("got %v, want nil", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("NewClient took an invalid configuration")
		}
	}()
	queue.NewClient(nil, &bad)
}
