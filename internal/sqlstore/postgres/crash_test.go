package postgres_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
)

// K87: the server dies under load and comes back. What was acknowledged is there, and work goes on by itself.
func TestServerDies(t *testing.T) {
	server, ok := pgtest.NewServer(t)
	if !ok {
		return
	}
	t.Run("K87_nothing_acknowledged_is_lost_and_claims_resume", func(t *testing.T) {
		const crashes, producers, workers = 3, 3, 3
		db := server.New(t)
		var mu sync.Mutex
		enqueued, acked := make(map[int64]bool), make(map[int64]int)
		maybe := make(map[int64]bool) // the answer to their ack was lost
		var lastClaim atomic.Int64
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		transient := func(err error) {
			if ctx.Err() == nil && !sqlstore.Transient(err) {
				t.Errorf("got %v, want an error that may pass", err)
			}
		}
		var all sync.WaitGroup
		var stores []*postgres.Store
		for range producers {
			s := open(t, db.DSN(), postgres.Options{})
			stores = append(stores, s)
			all.Go(func() {
				j := newJob("q")
				j.Stamps.VisibilityTimeoutS, j.Stamps.MaxAttempts = 2, 1000
				for ctx.Err() == nil {
					ids, err := s.Enqueue(ctx, jobs(5, j))
					if err != nil {
						transient(err)
						<-time.After(10 * time.Millisecond)
						continue
					}
					mu.Lock()
					for _, id := range ids {
						enqueued[id] = true
					}
					mu.Unlock()
				}
			})
		}
		working, finish := context.WithCancel(context.WithoutCancel(t.Context()))
		defer finish()
		for range workers {
			s := open(t, db.DSN(), postgres.Options{})
			stores = append(stores, s)
			all.Go(func() {
				for working.Err() == nil {
					rows, err := s.ClaimBatch(working, claimOf("q", 20))
					if err != nil || len(rows) == 0 {
						<-time.After(10 * time.Millisecond)
						continue
					}
					lastClaim.Store(time.Now().UnixNano())
					answers, err := s.AckBatch(working, handles(rows))
					mu.Lock()
					for i, r := range rows {
						if err != nil {
							maybe[r.ID] = true
						} else if answers[i] {
							acked[r.ID]++
						}
					}
					mu.Unlock()
				}
			})
		}
		count := func() int {
			mu.Lock()
			defer mu.Unlock()
			return len(acked)
		}
		for range crashes {
			before := count()
			until(t, "load", func() bool { return count() > before+200 })
			if err := server.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
			back := time.Now()
			until(t, "claims resume", func() bool { return lastClaim.Load() > back.UnixNano() })
			took := time.Duration(lastClaim.Load() - back.UnixNano())
			t.Logf("first claim %v after the server was back", took.Round(time.Millisecond))
			if took > 10*time.Second {
				t.Errorf("claims resumed after %v", took)
			}
		}
		stop()
		s := stores[0]
		until(t, "all is done", func() bool {
			stats, err := s.Stats(t.Context())
			return err == nil && len(stats) == 0
		})
		finish()
		all.Wait()
		lost := 0
		for id := range enqueued {
			if acked[id] == 0 && !maybe[id] {
				lost++
			}
		}
		for id, n := range acked {
			if n > 1 {
				t.Errorf("job %d was acked %d times", id, n)
			}
		}
		t.Logf("%d enqueued, %d acked, %d with an unknown answer", len(enqueued), len(acked), len(maybe))
		if lost > 0 {
			t.Errorf("%d jobs were acknowledged and are gone", lost)
		}
		for _, s := range stores {
			healthy(t, s)
		}
	})
	t.Run("K38_goroutines_and_connections_are_flat_while_the_server_is_away", func(t *testing.T) {
		db := server.New(t)
		s := open(t, db.DSN(), postgres.Options{})
		enqueue(t, s, newJob("q"))
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		until(t, "its children have noticed", func() bool { return second(s.ClaimBatch(t.Context(), claimOf("none", 1))) != nil })
		for range 300 {
			_, err := s.ClaimBatch(t.Context(), claimOf("q", 1))
			var typed *sqlstore.Error
			if !errors.Is(err, sqlstore.ErrUnavailable) || !errors.As(err, &typed) || typed.Queue != "q" {
				t.Fatalf("claim: got %v, want ErrUnavailable about the queue", err)
			}
		}
		shared, reserved := s.Pools()
		if shared.TotalConns() > 0 || reserved.TotalConns() > 0 {
			t.Errorf("connections: got %d and %d, want none", shared.TotalConns(), reserved.TotalConns())
		}
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		if n := len(claim(t, s, "q", 1)); n != 1 {
			t.Errorf("claimed: got %d jobs, want 1", n)
		}
	})
	t.Run("K87_a_server_that_was_demoted_may_be_replaced", func(t *testing.T) {
		db := server.New(t)
		s := open(t, db.DSN(), postgres.Options{})
		enqueue(t, s, newJob("q"))
		beside := pool(t, db)
		execute(t, beside, "ALTER SYSTEM SET default_transaction_read_only = on")
		execute(t, beside, "SELECT pg_reload_conf()")
		until(t, "the server takes no writes", func() bool { return second(s.Enqueue(t.Context(), jobs(1, newJob("q")))) != nil })
		_, err := s.ClaimBatch(t.Context(), claimOf("q", 1))
		if !errors.Is(err, sqlstore.ErrReadOnly) || !sqlstore.Transient(err) {
			t.Errorf("claim: got %v, want an ErrReadOnly that may pass", err)
		}
		conn := must(beside.Conn(t.Context()))(t)
		defer func() { _ = conn.Close() }()
		for _, statement := range []string{"SET default_transaction_read_only = off", "ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()"} {
			if _, err := conn.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		until(t, "claims resume", func() bool {
			rows, err := s.ClaimBatch(t.Context(), claimOf("q", 1))
			return err == nil && len(rows) == 1
		})
	})
}
