package handlers_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// returning is a handler that does nothing but return err.
func returning(err error) handlers.Handler {
	return handlers.HandlerFunc(func(context.Context, *queue.Job) error { return err })
}

// doing is a handler that calls f.
func doing(f func()) handlers.Handler {
	return handlers.HandlerFunc(func(context.Context, *queue.Job) error { f(); return nil })
}

// recovered returns what f panics with.
func recovered(t *testing.T, f func()) (v any) {
	t.Helper()
	defer func() {
		if v = recover(); v == nil {
			t.Fatal("got no panic")
		}
	}()
	f()
	return nil
}
