package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
)

// tracing is middleware that notes when it is entered and left, and with which error.
func tracing(log *[]string, name string) handlers.Middleware {
	return func(next handlers.Handler) handlers.Handler {
		return handlers.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
			*log = append(*log, "> "+name)
			err := next.Handle(ctx, job)
			*log = append(*log, fmt.Sprintf("< %s: %v", name, err))
			return err
		})
	}
}

func lookup(t *testing.T, r *handlers.Registry, name string) handlers.Registration {
	t.Helper()
	reg, ok := r.Lookup(name)
	if !ok {
		t.Fatalf("queue %q: got none, want its registration", name)
	}
	return reg
}

func TestRegistry(t *testing.T) {
	t.Run("hands_out_what_was_registered", func(t *testing.T) {
		r := handlers.NewRegistry()
		o := handlers.Options{Concurrency: 3, Timeout: time.Minute, Stamps: queue.Options{MaxAttempts: 4}}
		want := errors.New("mine")
		r.Register("mail", returning(want), o)
		reg := lookup(t, r, "mail")
		if reg.Name != "mail" || reg.Options.Concurrency != 3 || reg.Options.Timeout != time.Minute ||
			reg.Options.Stamps.MaxAttempts != 4 {
			t.Errorf("got %+v, want the name and options of the registration", reg)
		}
		if got := reg.Handler.Handle(t.Context(), &queue.Job{}); got != want {
			t.Errorf("handler: got %v, want %v", got, want)
		}
	})
	t.Run("zero_value_is_empty_and_usable", func(t *testing.T) {
		var r handlers.Registry
		if _, ok := r.Lookup("mail"); ok || len(r.Queues()) != 0 {
			t.Error("got a queue in an empty registry")
		}
		r.Register("mail", returning(nil), handlers.Options{})
		lookup(t, &r, "mail")
	})
	t.Run("queues_are_sorted", func(t *testing.T) {
		r := handlers.NewRegistry()
		for _, name := range []string{"b", "c", "a"} {
			r.Register(name, returning(nil), handlers.Options{})
		}
		if got, want := r.Queues(), []string{"a", "b", "c"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
	t.Run("the_callers_slices_are_its_own", func(t *testing.T) {
		var log []string
		mw := []handlers.Middleware{tracing(&log, "a")}
		r := handlers.NewRegistry()
		r.Register("q", returning(nil), handlers.Options{Middleware: mw})
		mw[0] = nil
		lookup(t, r, "q").Options.Middleware[0] = nil
		if err := lookup(t, r, "q").Handler.Handle(t.Context(), &queue.Job{}); err != nil || len(log) != 2 {
			t.Errorf("got %v and %v, want the middleware as it was registered", err, log)
		}
	})
	t.Run("concurrent_use", func(t *testing.T) {
		r := handlers.NewRegistry()
		pass := func(next handlers.Handler) handlers.Handler { return next }
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				name := fmt.Sprint("q", i)
				r.Register(name, returning(nil), handlers.Options{})
				r.Use(pass)
				if reg, ok := r.Lookup(name); !ok || reg.Handler.Handle(t.Context(), &queue.Job{}) != nil {
					t.Errorf("queue %s: not found right after its registration", name)
				}
				r.Queues()
			})
		}
		wg.Wait()
		if got := len(r.Queues()); got != 8 {
			t.Errorf("got %d queues, want 8", got)
		}
	})
}

func TestMiddleware(t *testing.T) {
	t.Run("outermost_first_and_all_queues_around_one", func(t *testing.T) {
		var log []string
		r := handlers.NewRegistry()
		r.Use(tracing(&log, "all 1"), tracing(&log, "all 2"))
		r.Register("q", doing(func() { log = append(log, "handler") }), handlers.Options{
			Middleware: []handlers.Middleware{tracing(&log, "q 1"), tracing(&log, "q 2")},
		})
		r.Register("other", returning(nil), handlers.Options{})
		_ = lookup(t, r, "q").Handler.Handle(t.Context(), &queue.Job{})
		want := []string{"> all 1", "> all 2", "> q 1", "> q 2", "handler",
			"< q 2: <nil>", "< q 1: <nil>", "< all 2: <nil>", "< all 1: <nil>"}
		if !slices.Equal(log, want) {
			t.Errorf("got  %q\nwant %q", log, want)
		}
		log = nil
		_ = lookup(t, r, "other").Handler.Handle(t.Context(), &queue.Job{})
		if len(log) != 4 {
			t.Errorf("other queue: got %q, want the middleware of all queues only", log)
		}
	})
	t.Run("use_after_register_applies", func(t *testing.T) {
		var log []string
		r := handlers.NewRegistry()
		r.Register("q", returning(nil), handlers.Options{})
		before := lookup(t, r, "q")
		r.Use(tracing(&log, "late"))
		_ = before.Handler.Handle(t.Context(), &queue.Job{})
		if len(log) != 0 {
			t.Errorf("looked up before: got %q, want no middleware", log)
		}
		_ = lookup(t, r, "q").Handler.Handle(t.Context(), &queue.Job{})
		if len(log) != 2 {
			t.Errorf("looked up after: got %q, want the middleware", log)
		}
	})
	t.Run("K27_sees_a_panic_as_an_error", func(t *testing.T) {
		var log []string
		r := handlers.NewRegistry()
		r.Use(tracing(&log, "outer"))
		r.Register("q", doing(func() { panic("boom") }), handlers.Options{})
		err := handlers.Invoke(t.Context(), lookup(t, r, "q").Handler, &queue.Job{})
		if want := []string{"> outer", "< outer: panic: boom"}; !slices.Equal(log, want) {
			t.Errorf("got %q, want %q", log, want)
		}
		if _, ok := errors.AsType[*handlers.PanicError](err); !ok {
			t.Errorf("got %v, want a *PanicError", err)
		}
	})
	t.Run("K27_panic_of_inner_middleware_reaches_the_outer", func(t *testing.T) {
		var log []string
		r := handlers.NewRegistry()
		r.Use(tracing(&log, "outer"), func(handlers.Handler) handlers.Handler {
			return doing(func() { panic("in middleware") })
		})
		r.Register("q", returning(nil), handlers.Options{})
		_ = lookup(t, r, "q").Handler.Handle(t.Context(), &queue.Job{})
		if want := []string{"> outer", "< outer: panic: in middleware"}; !slices.Equal(log, want) {
			t.Errorf("got %q, want %q", log, want)
		}
	})
	t.Run("can_change_the_answer", func(t *testing.T) {
		r := handlers.NewRegistry()
		r.Register("q", returning(errors.New("no")), handlers.Options{Middleware: []handlers.Middleware{
			func(next handlers.Handler) handlers.Handler {
				return handlers.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
					return handlers.Fail(next.Handle(ctx, job))
				})
			},
		}})
		got := handlers.Resolve(lookup(t, r, "q").Handler.Handle(t.Context(), &queue.Job{}))
		if want := (handlers.Answer{Kind: handlers.KindFail, Text: "no"}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

func TestRegistrationMistakesPanic(t *testing.T) {
	h, o := returning(nil), handlers.Options{}
	tests := []struct {
		name string
		do   func(r *handlers.Registry)
		want []string
	}{
		{"nil_handler", func(r *handlers.Registry) { r.Register("q", nil, o) }, []string{"nil handler"}},
		{"nil_handler_func", func(r *handlers.Registry) { r.Register("q", handlers.HandlerFunc(nil), o) },
			[]string{"nil handler"}},
		{"E8_name", func(r *handlers.Registry) { r.Register("a\x00b", h, o) }, []string{`queue "a\x00b"`}},
		{"E8_empty_name", func(r *handlers.Registry) { r.Register("", h, o) }, []string{`queue ""`}},
		{"K42_all_problems_together", func(r *handlers.Registry) {
			r.Register("q", nil, handlers.Options{Concurrency: -1, Timeout: -time.Second,
				Stamps: queue.Options{MaxAttempts: -1}, Middleware: []handlers.Middleware{nil}})
		}, []string{"nil handler", "concurrency -1", "timeout -1s", "max attempts -1", "nil middleware"}},
		{"nil_middleware", func(r *handlers.Registry) { r.Use(nil) }, []string{"nil middleware"}},
		{"typed_nil_function", func(r *handlers.Registry) {
			handlers.Handle(r, queue.Define[int]("q", queue.Options{}), nil, o)
		}, []string{"nil handler"}},
		{"typed_nil_queue", func(r *handlers.Registry) {
			handlers.Handle(r, nil, func(context.Context, int) error { return nil }, o)
		}, []string{"nil registry or queue"}},
		{"typed_with_stamps", func(r *handlers.Registry) {
			handlers.Handle(r, queue.Define[int]("q", queue.Options{}),
				func(context.Context, int) error { return nil },
				handlers.Options{Stamps: queue.Options{MaxAttempts: 3}})
		}, []string{"Options.Stamps is set"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := handlers.NewRegistry()
			got := fmt.Sprint(recovered(t, func() { tt.do(r) }))
			for _, want := range append(tt.want, "registry_test.go:") {
				if !strings.Contains(got, want) {
					t.Errorf("got %q, want it to contain %q", got, want)
				}
			}
			if n := len(r.Queues()); n != 0 {
				t.Errorf("got %d queues after the panic, want none", n)
			}
		})
	}
	t.Run("twice_names_both_places", func(t *testing.T) {
		r := handlers.NewRegistry()
		first := errors.New("the first")
		r.Register("q", returning(first), o)
		got := fmt.Sprint(recovered(t, func() {
			handlers.Handle(r, queue.Define[int]("q", queue.Options{}), func(context.Context, int) error { return nil }, o)
		}))
		if strings.Count(got, "registry_test.go:") != 2 || !strings.Contains(got, `queue "q"`) {
			t.Errorf("got %q, want it to name the queue and both places", got)
		}
		if err := lookup(t, r, "q").Handler.Handle(t.Context(), &queue.Job{}); err != first {
			t.Errorf("got %v, want the first registration to stand", err)
		}
	})
	t.Run("middleware_that_returns_nil", func(t *testing.T) {
		r := handlers.NewRegistry()
		r.Register("q", returning(nil), handlers.Options{Middleware: []handlers.Middleware{
			func(handlers.Handler) handlers.Handler { return nil },
		}})
		got := fmt.Sprint(recovered(t, func() { r.Lookup("q") }))
		if !strings.Contains(got, "returned nil") || !strings.Contains(got, "registry_test.go:") {
			t.Errorf("got %q, want it to say so and where the queue was registered", got)
		}
	})
}
