package sqlite

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// TestOwnWritesWake sees that the watches of this process are told before a write returns, and not by the look that is due
// every three seconds.
func TestOwnWritesWake(t *testing.T) {
	s := openStore(t, Options{Synchronous: "NORMAL"})
	told := s.signals.Listen()
	defer s.signals.Leave(told)
	job := func(queue string) []sqlstore.NewJob {
		return []sqlstore.NewJob{{Queue: queue, Stamps: sqlstore.Stamps{MaxAttempts: 9, VisibilityTimeoutS: 60}}}
	}
	claim := func(queue string) sqlstore.Handle {
		_, err := s.Enqueue(t.Context(), job(queue))
		rows, cerr := s.ClaimBatch(t.Context(), sqlstore.Claim{Queue: queue, Claimant: "w", Limit: 1})
		if err := errors.Join(err, cerr); err != nil || len(rows) != 1 {
			t.Fatalf("claimed %d jobs, %v", len(rows), err)
		}
		return sqlstore.Handle{ID: rows[0].ID, Fence: rows[0].Fence}
	}
	bury := func(queue string) int64 {
		h := claim(queue)
		if _, err := s.Fail(t.Context(), []sqlstore.Failing{{Handle: h, Error: "dead"}}); err != nil {
			t.Fatal(err)
		}
		return h.ID
	}
	schedule := func(_ int64, have *sqlstore.Schedule) (*sqlstore.Schedule, error) {
		return &sqlstore.Schedule{Queue: "q", Spec: "@every 1m", Fire: sqlstore.FireOptions{Stamps: sqlstore.Stamps{MaxAttempts: 9}}}, nil
	}
	ctx := t.Context()
	for _, w := range []struct {
		name    string
		queue   string // that has to be named
		prepare func() (change func(ctx context.Context) error)
	}{
		{"enqueue", "q", func() func(context.Context) error {
			return func(ctx context.Context) error { _, err := s.Enqueue(ctx, job("q")); return err }
		}},
		{"enqueue_with_a_reserved_id", "q", func() func(context.Context) error {
			for !s.write.ids.left() {
				if _, err := s.Enqueue(ctx, job("other")); err != nil {
					t.Fatal(err)
				}
			}
			return func(ctx context.Context) error { _, err := s.Enqueue(ctx, job("q")); return err }
		}},
		{"enqueue_of_many", "q", func() func(context.Context) error {
			return func(ctx context.Context) error { _, err := s.Enqueue(ctx, append(job("q"), job("q")...)); return err }
		}},
		{"retry", "", func() func(context.Context) error {
			h := claim("retry")
			return func(ctx context.Context) error {
				_, err := s.Retry(ctx, []sqlstore.Retrial{{Handle: h, Error: "again"}})
				return err
			}
		}},
		{"release", "", func() func(context.Context) error {
			h := claim("release")
			return func(ctx context.Context) error {
				_, err := s.Release(ctx, []sqlstore.Releasing{{Handle: h}})
				return err
			}
		}},
		{"requeue", "", func() func(context.Context) error {
			id := bury("requeue")
			return func(ctx context.Context) error { _, err := s.Requeue(ctx, []int64{id}); return err }
		}},
		{"requeue_by_filter", "", func() func(context.Context) error {
			bury("filter")
			return func(ctx context.Context) error {
				_, err := s.RequeueMatching(ctx, sqlstore.DeadFilter{Queue: "filter"}, 9)
				return err
			}
		}},
		{"resume", "q", func() func(context.Context) error {
			if err := s.SetPaused(ctx, "q", true); err != nil {
				t.Fatal(err)
			}
			return func(ctx context.Context) error { return s.SetPaused(ctx, "q", false) }
		}},
		{"register", "q", func() func(context.Context) error {
			return func(ctx context.Context) error { return s.Register(ctx, "s", schedule) }
		}},
		{"fire", "q", func() func(context.Context) error {
			return func(ctx context.Context) error {
				_, _, err := s.FireNow(ctx, "s", func(sqlstore.Schedule) error { return nil })
				return err
			}
		}},
		{"repair", "", func() func(context.Context) error {
			return func(ctx context.Context) error { _, err := s.Repair(ctx); return err }
		}},
	} {
		t.Run(w.name, func(t *testing.T) {
			change := w.prepare()
			select {
			case <-told.Ring():
				told.Take()
			default:
			}
			if err := change(t.Context()); err != nil {
				t.Fatal(err)
			}
			select {
			case <-told.Ring():
				if queues, _, _ := told.Take(); !slices.Equal(queues, []string{w.queue}) {
					t.Errorf("woke %q, want %q", queues, w.queue)
				}
			default:
				t.Error("woke nobody")
			}
		})
	}
}
