package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/sqlite"
)

// tally is what the calls of one goroutine have said, which the database must agree with.
type tally struct {
	enqueued map[int64]bool
	acked    map[int64]bool
	cut      int // calls that ended early
}

// cancelAtRandom works on one queue with contexts that end at random moments.
func cancelAtRandom(t *testing.T, s sqlstore.Store, queue string, loops int, seed uint64) tally {
	random := rand.New(rand.NewPCG(seed, 51))
	got := tally{enqueued: make(map[int64]bool), acked: make(map[int64]bool)}
	big := newJob(queue)
	big.Payload = make([]byte, 3000)
	during := func(call func(ctx context.Context) error) {
		u := random.Float64() // cubed, since most calls take a fraction of a millisecond
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(u*u*u*float64(5*time.Millisecond)))
		defer cancel()
		switch err := call(ctx); {
		case err == nil:
		case errors.Is(err, context.DeadlineExceeded):
			got.cut++
		default:
			t.Errorf("seed %d: got %v, want nil or the end of the context", seed, err)
		}
	}
	for i := range loops {
		during(func(ctx context.Context) error {
			ids, err := s.Enqueue(ctx, []sqlstore.NewJob{newJob(queue), big})
			for _, id := range ids {
				got.enqueued[id] = true
			}
			return err
		})
		var claimed []sqlstore.Row
		during(func(ctx context.Context) (err error) {
			claimed, err = s.ClaimBatch(ctx, claimOf(queue, 2))
			return err
		})
		handles := make([]sqlstore.Handle, len(claimed))
		extensions := make([]sqlstore.Extension, len(claimed))
		for k, r := range claimed {
			handles[k], extensions[k].Handle = handle(r), handle(r)
		}
		during(func(ctx context.Context) error { return second(s.Heartbeat(ctx, extensions)) })
		switch i % 5 {
		case 0:
			during(func(ctx context.Context) error {
				return second(s.ListJobs(ctx, sqlstore.Filter{Limit: 5, PayloadLimit: 9}))
			})
		case 1:
			during(func(ctx context.Context) error { return second(s.Stats(ctx)) })
		case 2:
			during(func(ctx context.Context) error { return second(s.GetJob(ctx, 1)) })
		}
		if len(handles) > 0 {
			during(func(ctx context.Context) error {
				acked, err := s.AckBatch(ctx, handles)
				for k, ok := range acked {
					got.acked[handles[k].ID] = ok
				}
				return err
			})
		}
	}
	return got
}

func TestContextsEndAtRandom(t *testing.T) {
	t.Run("K51_no_connection_is_poisoned_and_no_answer_is_wrong", func(t *testing.T) {
		const goroutines, loops = 8, 625 / sqlite.Slowness // 5,000 in all
		path := newFile(t)
		s, beside := open(t, path, quick), pool(t, path)
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		tallies := make([]tally, goroutines)
		var all sync.WaitGroup
		for i := range tallies {
			all.Go(func() { tallies[i] = cancelAtRandom(t, s, fmt.Sprint("q", i), loops, seed+uint64(i)) })
		}
		all.Wait()

		cut, left := 0, make(map[int64]bool)
		for _, one := range tallies {
			cut += one.cut
			for id := range one.enqueued {
				if !one.acked[id] {
					left[id] = true
				}
			}
		}
		if cut < loops {
			t.Errorf("only %d calls were cut short: the test shows nothing", cut)
		}
		execute(t, beside, "BEGIN IMMEDIATE; ROLLBACK")
		if w, r := s.Pools(); w.OpenConnections > 1 || w.InUse > 1 || r.InUse > 0 {
			t.Errorf("connections: got %+v and %+v, want one writer and no reader in use", w, r)
		}
		for _, r := range must(s.ListJobs(t.Context(), sqlstore.Filter{Limit: 1 << 30}))(t) {
			if !left[r.ID] {
				t.Errorf("job %d is there, though its enqueue failed or its ack returned nil", r.ID)
			}
			delete(left, r.ID)
		}
		if len(left) > 0 {
			t.Errorf("%d jobs are gone, though nobody was told that they were acked", len(left))
		}
		healthy(t, s)
		enqueue(t, s, newJob("normal"))
		if acked := must(s.AckBatch(t.Context(), []sqlstore.Handle{hold(t, s, "normal")}))(t); !acked[0] {
			t.Error("ack of normal traffic was refused")
		}
	})
}
