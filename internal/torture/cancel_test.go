package torture

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/faultdriver"
)

const (
	leavers   = 8   // goroutines that work on a queue each
	loops     = 125 // of each in one round
	leave     = 5 * time.Millisecond
	leaveRows = 20 // jobs of a call at most
)

// TestContextsEndAtRandom ends the context of each call at a random moment within its first five milliseconds. Whatever a
// call answered is so, and afterwards no connection is poisoned and no transaction open. // K51
func TestContextsEndAtRandom(t *testing.T) {
	t.Parallel()
	for _, s := range stores {
		if !s.wraps {
			continue
		}
		t.Run("K51_"+s.name, func(t *testing.T) {
			t.Parallel()
			var d *faultdriver.Driver
			db, _ := s.create(t, func(under driver.Driver) driver.Driver {
				d = faultdriver.New(under)
				return d
			})
			store := db.handle(t)
			made, cut := 0, 0
			n := rounds(t, 4, func(t *testing.T, seed uint64) {
				if err := db.empty(t.Context()); err != nil {
					t.Fatal(err)
				}
				all := make([]*leaver, leavers)
				var group sync.WaitGroup
				for i := range all {
					all[i] = &leaver{
						T: t, store: store, queue: fmt.Sprint("q", i), random: rand.New(rand.NewPCG(seed, uint64(i))),
						enqueued: make(map[int64]bool), acked: make(map[int64]bool),
					}
					group.Go(all[i].work)
				}
				group.Wait()
				for _, l := range all {
					made += l.made
					cut += l.cut
				}
				judgeLeavers(t, store, all)
				if open := d.Settled(); open.Rows != 0 || open.Txs != 0 || open.Conns > 10 {
					t.Errorf("left in use: %+v", open)
				}
				if err := db.quiet(t.Context()); err != nil {
					t.Error(err)
				}
				normalTraffic(t, store)
			})
			t.Logf("%d loops: %d calls, %d of them cut short", n*leavers*loops, made, cut)
			if cut*20 < made || cut == made {
				t.Errorf("%d of %d calls were cut short: the test shows nothing", cut, made)
			}
		})
	}
}

// leaver works on one queue with contexts that end at random, and keeps book of what it was told.
type leaver struct {
	*testing.T
	store    sqlstore.Store
	queue    string
	random   *rand.Rand
	enqueued map[int64]bool
	acked    map[int64]bool
	made     int // calls
	cut      int // calls that ended early
}

func (l *leaver) work() {
	for range loops {
		l.during(func(ctx context.Context) error {
			batch := make([]sqlstore.NewJob, 1+l.random.IntN(leaveRows))
			for i := range batch {
				batch[i] = sqlstore.NewJob{
					Queue: l.queue, Payload: make([]byte, l.random.IntN(3000)),
					Stamps: sqlstore.Stamps{VisibilityTimeoutS: 1000, MaxAttempts: 3},
				}
			}
			ids, err := l.store.Enqueue(ctx, batch)
			for _, id := range ids {
				l.enqueued[id] = true
			}
			return err
		})
		var claimed []sqlstore.Row
		l.during(func(ctx context.Context) (err error) {
			claimed, err = l.store.ClaimBatch(ctx, claimOf(l.queue, 1+l.random.Int64N(leaveRows)))
			return err
		})
		handles := make([]sqlstore.Handle, len(claimed))
		extensions := make([]sqlstore.Extension, len(claimed))
		for i, r := range claimed {
			handles[i] = sqlstore.Handle{ID: r.ID, Fence: r.Fence}
			extensions[i].Handle = handles[i]
		}
		l.during(func(ctx context.Context) error { _, err := l.store.Heartbeat(ctx, extensions); return err })
		switch l.random.IntN(5) {
		case 0:
			l.during(func(ctx context.Context) error {
				_, err := l.store.ListJobs(ctx, sqlstore.Filter{Limit: 5, PayloadLimit: 9})
				return err
			})
		case 1:
			l.during(func(ctx context.Context) error { _, err := l.store.Stats(ctx); return err })
		case 2:
			l.during(func(ctx context.Context) error { _, err := l.store.GetJob(ctx, 1); return err })
		}
		l.during(func(ctx context.Context) error {
			acked, err := l.store.AckBatch(ctx, handles)
			for i, ok := range acked {
				l.acked[handles[i].ID] = ok
			}
			return err
		})
	}
}

func (l *leaver) during(call func(ctx context.Context) error) {
	u := l.random.Float64() // cubed, since most calls take a fraction of a millisecond
	ctx, cancel := context.WithTimeout(l.Context(), time.Duration(u*u*u*float64(leave)))
	defer cancel()
	l.made++
	switch err := call(ctx); {
	case err == nil:
	case errors.Is(err, context.DeadlineExceeded):
		l.cut++
	default:
		l.Errorf("got %v, want nil or the end of the context", err)
	}
}

// judgeLeavers compares what the callers were told with what is there. D5
func judgeLeavers(t *testing.T, store sqlstore.Store, all []*leaver) {
	t.Helper()
	left := make(map[int64]bool)
	for _, l := range all {
		for id := range l.enqueued {
			if !l.acked[id] {
				left[id] = true
			}
		}
	}
	rows, err := store.ListJobs(t.Context(), sqlstore.Filter{Limit: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if !left[r.ID] {
			t.Errorf("job %d is there, though its enqueue failed or its ack returned nil", r.ID)
		}
		delete(left, r.ID)
	}
	if len(left) > 0 {
		t.Errorf("%d jobs are gone, though nobody was told that they were acked", len(left))
	}
	if problems, err := store.Check(t.Context()); err != nil || len(problems) > 0 {
		t.Errorf("Check: %+v, %v", problems, err)
	}
}

// normalTraffic is one job from its beginning to its end.
func normalTraffic(t *testing.T, store sqlstore.Store) {
	t.Helper()
	job := sqlstore.NewJob{Queue: "normal", Stamps: sqlstore.Stamps{VisibilityTimeoutS: 1000, MaxAttempts: 1}}
	ids, err := store.Enqueue(t.Context(), []sqlstore.NewJob{job})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := store.ClaimBatch(t.Context(), claimOf("normal", 1))
	if err != nil || len(rows) != 1 || rows[0].ID != ids[0] {
		t.Fatalf("claim of normal traffic: got %+v, %v, want job %d", rows, err, ids[0])
	}
	acked, err := store.AckBatch(t.Context(), []sqlstore.Handle{{ID: rows[0].ID, Fence: rows[0].Fence}})
	if err != nil || !acked[0] {
		t.Errorf("ack of normal traffic: got %v, %v", acked, err)
	}
}
