package handlers_test

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/alkstore/alkworker/handlers"
)

// hostile panics in whatever of its methods is named.
type hostile struct{ method string }

func (h hostile) Error() string {
	if h.method == "Error" {
		panic("boom in Error")
	}
	return "hostile"
}

func (h hostile) Unwrap() error {
	if h.method == "Unwrap" {
		panic("boom in Unwrap")
	}
	return nil
}

// doubly panics with a value whose own text panics.
type doubly struct{}

func (doubly) Error() string { panic(hostile{"Error"}) }

func TestResolve(t *testing.T) {
	cause := errors.New("no route")
	tests := []struct {
		name string
		err  error
		want handlers.Answer
	}{
		{"nil_acks", nil, handlers.Answer{Kind: handlers.KindAck}},
		{"B2_error_retries", cause, handlers.Answer{Kind: handlers.KindRetry, Text: "no route"}},
		{"B2_own_delay", handlers.RetryAfter(time.Minute, cause),
			handlers.Answer{Kind: handlers.KindRetryAfter, Delay: time.Minute, Text: "no route"}},
		{"B2_snooze", handlers.Snooze(time.Hour), handlers.Answer{Kind: handlers.KindSnooze, Delay: time.Hour}},
		{"B2_fail", handlers.Fail(cause), handlers.Answer{Kind: handlers.KindFail, Text: "no route"}},
		{"cancel", handlers.Cancel(cause), handlers.Answer{Kind: handlers.KindCancel, Text: "no route"}},

		{"H7_fail_without_text", handlers.Fail(nil), handlers.Answer{Kind: handlers.KindFail}},
		{"H7_retry_without_text", handlers.RetryAfter(time.Second, nil),
			handlers.Answer{Kind: handlers.KindRetryAfter, Delay: time.Second}},
		{"cancel_without_text", handlers.Cancel(nil), handlers.Answer{Kind: handlers.KindCancel}},

		{"K42_negative_retry_delay_is_zero", handlers.RetryAfter(-time.Hour, cause),
			handlers.Answer{Kind: handlers.KindRetryAfter, Text: "no route"}},
		{"K42_negative_snooze_is_zero", handlers.Snooze(math.MinInt64), handlers.Answer{Kind: handlers.KindSnooze}},
		{"K42_longest_snooze", handlers.Snooze(math.MaxInt64),
			handlers.Answer{Kind: handlers.KindSnooze, Delay: math.MaxInt64}},

		{"wrapped_keeps_the_answer_and_all_text", fmt.Errorf("send: %w", handlers.Fail(cause)),
			handlers.Answer{Kind: handlers.KindFail, Text: "send: no route"}},
		{"wrapped_without_text", fmt.Errorf("send: %w", handlers.Fail(nil)),
			handlers.Answer{Kind: handlers.KindFail, Text: "send: failed for good"}},
		{"joined_keeps_the_answer", errors.Join(cause, handlers.Snooze(time.Minute)),
			handlers.Answer{Kind: handlers.KindSnooze, Delay: time.Minute, Text: "no route\nsnoozed for 1m0s"}},
		{"outermost_wins", handlers.Fail(fmt.Errorf("x: %w", handlers.RetryAfter(time.Minute, cause))),
			handlers.Answer{Kind: handlers.KindFail, Text: "x: no route"}},
		{"outermost_wins_either_way", handlers.RetryAfter(time.Minute, handlers.Fail(cause)),
			handlers.Answer{Kind: handlers.KindRetryAfter, Delay: time.Minute, Text: "no route"}},
		{"first_of_joined_wins", errors.Join(handlers.Cancel(nil), handlers.Fail(cause)),
			handlers.Answer{Kind: handlers.KindCancel, Text: "cancelled by its handler\nno route"}},
		{"empty_text_stays", errors.New(""), handlers.Answer{Kind: handlers.KindRetry}},

		{"K27_panic_keeps_its_stack", fmt.Errorf("x: %w", &handlers.PanicError{Value: "v", Stack: "s"}),
			handlers.Answer{Kind: handlers.KindRetry, Text: "x: panic: v", Stack: "s"}},
		{"panic_made_final", handlers.Fail(&handlers.PanicError{Value: "v", Stack: "s"}),
			handlers.Answer{Kind: handlers.KindFail, Text: "panic: v", Stack: "s"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := handlers.Resolve(tt.err); got != tt.want {
				t.Errorf("Resolve(%v)\n got %+v\nwant %+v", tt.err, got, tt.want)
			}
		})
	}
}

func TestResolveSurvivesErrorsThatPanic(t *testing.T) {
	var nilURLError *url.Error
	tests := []struct {
		name     string
		err      error
		kind     handlers.Kind
		contains string
	}{
		{"Error", hostile{"Error"}, handlers.KindRetry, "formatting a handlers_test.hostile panicked: boom in Error"},
		{"Unwrap", hostile{"Unwrap"}, handlers.KindRetry, "hostile"},
		{"nil_pointer", nilURLError, handlers.KindRetry, "formatting a *url.Error panicked: runtime error"},
		{"panic_value_panics_too", doubly{}, handlers.KindRetry, "formatting a handlers_test.doubly panicked"},
		{"inside_an_answer", handlers.Fail(hostile{"Error"}), handlers.KindFail, "panicked: boom in Error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := handlers.Resolve(tt.err)
			if got.Kind != tt.kind || !strings.Contains(got.Text, tt.contains) {
				t.Errorf("got %v %q, want %v with %q", got.Kind, got.Text, tt.kind, tt.contains)
			}
		})
	}
}

func TestAnswersWrapTheirCause(t *testing.T) {
	cause := errors.New("no route")
	for _, err := range []error{handlers.RetryAfter(0, cause), handlers.Fail(cause), handlers.Cancel(cause)} {
		if !errors.Is(err, cause) || err.Error() != cause.Error() {
			t.Errorf("got %q, want an error that is and reads as its cause", err)
		}
	}
	for want, err := range map[string]error{
		"retry after 1m0s": handlers.RetryAfter(time.Minute, nil),
		"snoozed for 0s":   handlers.Snooze(-1),
	} {
		if err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
	}
}

func TestKindString(t *testing.T) {
	want := []string{"ack", "retry", "retry_after", "snooze", "fail", "cancel", "Kind(6)"}
	for i, w := range want {
		if got := handlers.Kind(i).String(); got != w {
			t.Errorf("Kind %d: got %q, want %q", i, got, w)
		}
	}
}
