package postgres_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres"
)

// load is producers and workers that go on whatever fails, each with a store of its own, and a ledger of what they were
// told.
type load struct {
	mu        sync.Mutex
	enqueued  map[int64]bool
	acked     map[int64]int
	maybe     map[int64]bool // the answer to their ack was lost
	lastClaim atomic.Int64

	stores       []*postgres.Store
	stop, finish context.CancelFunc // of the producers, and of the workers
	all          sync.WaitGroup
}

func startLoad(t *testing.T, dsn string) *load {
	t.Helper()
	const producers, workers = 3, 3
	l := &load{enqueued: make(map[int64]bool), acked: make(map[int64]int), maybe: make(map[int64]bool)}
	var producing, working context.Context
	producing, l.stop = context.WithCancel(context.WithoutCancel(t.Context()))
	working, l.finish = context.WithCancel(context.WithoutCancel(t.Context()))
	for i := range producers + workers {
		s := open(t, dsn, postgres.Options{})
		l.stores = append(l.stores, s)
		l.all.Go(func() {
			if i < producers {
				l.produce(producing, t, s)
			} else {
				l.work(working, s)
			}
		})
	}
	t.Cleanup(func() { // before the stores are closed
		l.stop()
		l.finish()
		l.all.Wait()
	})
	return l
}

func (l *load) produce(ctx context.Context, t *testing.T, s *postgres.Store) {
	j := newJob("q")
	j.Stamps.VisibilityTimeoutS, j.Stamps.MaxAttempts = 2, 1000
	for ctx.Err() == nil {
		ids, err := s.Enqueue(ctx, jobs(5, j))
		if err != nil {
			if ctx.Err() == nil && !sqlstore.Transient(err) {
				t.Errorf("got %v, want an error that may pass", err)
			}
			<-time.After(10 * time.Millisecond)
			continue
		}
		l.mu.Lock()
		for _, id := range ids {
			l.enqueued[id] = true
		}
		l.mu.Unlock()
	}
}

func (l *load) work(ctx context.Context, s *postgres.Store) {
	for ctx.Err() == nil {
		rows, err := s.ClaimBatch(ctx, claimOf("q", 20))
		if err != nil || len(rows) == 0 {
			<-time.After(10 * time.Millisecond)
			continue
		}
		l.lastClaim.Store(time.Now().UnixNano())
		answers, err := s.AckBatch(ctx, handles(rows))
		l.mu.Lock()
		for i, r := range rows {
			if err != nil {
				l.maybe[r.ID] = true
			} else if answers[i] {
				l.acked[r.ID]++
			}
		}
		l.mu.Unlock()
	}
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

// moves waits until work is being done.
func (l *load) moves(t *testing.T) {
	t.Helper()
	before := l.count()
	until(t, "load", func() bool { return l.count() > before+200 })
}

// resumes waits for the first claim after now.
func (l *load) resumes(t *testing.T, after string) {
	t.Helper()
	back := time.Now()
	until(t, "claims resume", func() bool { return l.lastClaim.Load() > back.UnixNano() })
	took := time.Duration(l.lastClaim.Load() - back.UnixNano())
	t.Logf("first claim %v after %s", took.Round(time.Millisecond), after)
	if took > 10*time.Second {
		t.Errorf("claims resumed after %v", took)
	}
}

// end stops the producers, waits until all is done, and judges.
func (l *load) end(t *testing.T) {
	t.Helper()
	l.stop()
	until(t, "all is done", func() bool {
		stats, err := l.stores[0].Stats(t.Context())
		return err == nil && len(stats) == 0
	})
	l.finish()
	l.all.Wait()
	lost := 0
	for id := range l.enqueued {
		if l.acked[id] == 0 && !l.maybe[id] {
			lost++
		}
	}
	for id, n := range l.acked {
		if n > 1 {
			t.Errorf("job %d was acked %d times", id, n)
		}
	}
	t.Logf("%d enqueued, %d acked, %d with an unknown answer", len(l.enqueued), len(l.acked), len(l.maybe))
	if lost > 0 {
		t.Errorf("%d jobs were acknowledged and are gone", lost)
	}
	for _, s := range l.stores {
		until(t, "connections that led nowhere are closed", func() bool { // over a silent network that takes its time
			shared, reserved := s.Pools()
			return shared.AcquiredConns()+reserved.AcquiredConns() == 0
		})
		healthy(t, s)
	}
}
