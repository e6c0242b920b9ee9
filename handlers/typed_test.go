package handlers_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
)

type email struct{ To string }

func TestHandle(t *testing.T) {
	emails := queue.Define[email]("emails", queue.Options{MaxAttempts: 7})
	var got []email
	answer := errors.New("no route")
	r := handlers.NewRegistry()
	handlers.Handle(r, emails, func(_ context.Context, e email) error {
		got = append(got, e)
		return answer
	}, handlers.Options{Concurrency: 2, Timeout: time.Second})
	reg := lookup(t, r, "emails")

	t.Run("E2_stamps_are_those_of_the_queue", func(t *testing.T) {
		if reg.Options.Stamps != emails.Options() || reg.Options.Concurrency != 2 || reg.Options.Timeout != time.Second {
			t.Errorf("got %+v, want the stamps %+v and the other options as given", reg.Options, emails.Options())
		}
	})
	t.Run("decodes_the_payload", func(t *testing.T) {
		job, err := emails.Job(email{To: "ada@example.org"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := reg.Handler.Handle(t.Context(), &queue.Job{Payload: job.Payload}); err != answer {
			t.Errorf("got %v, want what the function returns", err)
		}
		if len(got) != 1 || got[0].To != "ada@example.org" {
			t.Errorf("got %+v, want the one email", got)
		}
	})
	t.Run("payload_that_does_not_decode_fails_for_good", func(t *testing.T) {
		got = nil
		a := handlers.Resolve(reg.Handler.Handle(t.Context(), &queue.Job{Payload: []byte("{")}))
		if a.Kind != handlers.KindFail || !strings.Contains(a.Text, "emails") || len(got) != 0 {
			t.Errorf("got %+v and %d calls, want fail with the queue's name and no call", a, len(got))
		}
	})
	t.Run("raw_bytes", func(t *testing.T) {
		r := handlers.NewRegistry()
		var got []byte
		handlers.Handle(r, queue.DefineRaw("raw", queue.Options{}), func(_ context.Context, b []byte) error {
			got = b
			return nil
		}, handlers.Options{})
		err := lookup(t, r, "raw").Handler.Handle(t.Context(), &queue.Job{Payload: []byte("\x00\xff")})
		if err != nil || string(got) != "\x00\xff" {
			t.Errorf("got %q, %v, want the bytes themselves", got, err)
		}
	})
}
