package handlers_test

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
)

// explode is where the handlers of this test panic: the first function of every stack.
//
//go:noinline
func explode(v any) { panic(v) }

//go:noinline
func exitGoroutine() { goruntime.Goexit() }

//go:noinline
func readNil(p *int) int { return *p }

//go:noinline
func recurse(depth int) {
	if depth == 0 {
		explode("deep")
	}
	recurse(depth - 1)
}

func panicOf(t *testing.T, h handlers.Handler) *handlers.PanicError {
	t.Helper()
	err := handlers.Invoke(t.Context(), h, &queue.Job{})
	p, ok := errors.AsType[*handlers.PanicError](err)
	if !ok {
		t.Fatalf("got %v, want a *PanicError", err)
	}
	return p
}

func TestInvoke(t *testing.T) {
	t.Run("returns_what_the_handler_returns", func(t *testing.T) {
		want := errors.New("no")
		if got := handlers.Invoke(t.Context(), returning(want), &queue.Job{}); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
		if got := handlers.Invoke(t.Context(), returning(nil), &queue.Job{}); got != nil {
			t.Errorf("got %v, want nil", got)
		}
	})
	t.Run("passes_context_and_job_on", func(t *testing.T) {
		type key struct{}
		ctx, want := context.WithValue(t.Context(), key{}, 1), &queue.Job{ID: 7}
		err := handlers.Invoke(ctx, handlers.HandlerFunc(func(ctx context.Context, got *queue.Job) error {
			if ctx.Value(key{}) != 1 || got != want {
				return fmt.Errorf("got %v and job %p, want 1 and %p", ctx.Value(key{}), got, want)
			}
			return nil
		}), want)
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("waits_for_a_handler_that_ignores_its_context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		ended := false
		_ = handlers.Invoke(ctx, doing(func() { ended = true }), &queue.Job{})
		if !ended {
			t.Error("returned before the handler")
		}
	})
}

func TestInvokePanics(t *testing.T) {
	var nilError *hostile
	tests := []struct {
		name  string
		do    func()
		value string // the PanicError's begins with it
		frame string // the stack begins with it
	}{
		{"K27_text", func() { explode("boom") }, "boom", "explode"},
		{"K27_error", func() { explode(errors.New("no route")) }, "no route", "explode"},
		{"K27_any_value", func() { explode([]int{1, 2}) }, "[1 2]", "explode"},
		{"K27_runtime_error", func() { readNil(nil) }, "runtime error: invalid memory address", "readNil"},
		{"K27_panic_nil", func() { explode(nil) }, "nil", "explode"},
		{"K27_goexit", exitGoroutine, "the handler called runtime.Goexit", "exitGoroutine"},
		{"K27_error_that_panics", func() { explode(hostile{"Error"}) },
			"no error text: formatting a handlers_test.hostile panicked: boom in Error", "explode"},
		{"K27_nil_error_pointer", func() { explode(nilError) },
			"no error text: formatting a *handlers_test.hostile panicked: value method", "explode"},
		{"K27_error_whose_panic_panics", func() { explode(doubly{}) },
			"no error text: formatting a handlers_test.doubly panicked", "explode"},
		{"K27_panic_in_a_deferred_call", func() { defer explode("second"); panic("first") }, "second", "explode"},
		{"K27_answer_as_panic_value", func() { explode(handlers.Cancel(nil)) }, "cancelled by its handler", "explode"},
	}
	for _, tt := range tests {
		// As it is and as the registry hands it out, which goes through one more recover.
		for _, through := range []string{"plain", "registry"} {
			t.Run(tt.name+"/"+through, func(t *testing.T) {
				h := doing(tt.do)
				if through == "registry" {
					r := handlers.NewRegistry()
					r.Register("q", h, handlers.Options{})
					reg, _ := r.Lookup("q")
					h = reg.Handler
				}
				p := panicOf(t, h)
				if !strings.HasPrefix(p.Value, tt.value) {
					t.Errorf("value: got %q, want it to begin with %q", p.Value, tt.value)
				}
				if want := "panic: " + p.Value; p.Error() != want {
					t.Errorf("text: got %q, want %q", p.Error(), want)
				}
				first, rest, _ := strings.Cut(p.Stack, "\n")
				if !strings.HasSuffix(first, "handlers_test."+tt.frame+"(...)") || !strings.Contains(rest, "invoke_test.go:") {
					t.Errorf("stack: want it to begin with %s and to name this file, got\n%s", tt.frame, p.Stack)
				}
				if got := handlers.Resolve(p); got.Kind != handlers.KindRetry || got.Stack != p.Stack {
					t.Errorf("resolve: got %v with a stack of %d bytes, want retry with %d", got.Kind, len(got.Stack), len(p.Stack))
				}
			})
		}
	}
}

func TestPanicErrorIsBounded(t *testing.T) {
	const limit = 32 << 10
	p := panicOf(t, doing(func() { recurse(100_000) }))
	if len(p.Stack) > limit || !strings.Contains(p.Stack, "recurse") || !strings.HasSuffix(p.Stack, "\n") {
		t.Errorf("stack: got %d bytes, want whole lines of at most %d", len(p.Stack), limit)
	}
	p = panicOf(t, doing(func() { explode("x" + strings.Repeat("é", limit)) }))
	if len(p.Value) != limit-1 || !utf8.ValidString(p.Value) {
		t.Errorf("value: got %d bytes, valid %v; want %d, cut between runes", len(p.Value), utf8.ValidString(p.Value), limit-1)
	}
}

func TestPanicNilOfOldPrograms(t *testing.T) {
	t.Setenv("GODEBUG", "panicnil=1")
	for _, through := range []string{"plain", "registry"} {
		h := doing(func() { explode(nil) })
		if through == "registry" {
			r := handlers.NewRegistry()
			r.Register("q", h, handlers.Options{})
			reg, _ := r.Lookup("q")
			h = reg.Handler
		}
		if p := panicOf(t, h); p.Value != "nil" {
			t.Errorf("%s: got %q, want nil", through, p.Value)
		}
	}
}
