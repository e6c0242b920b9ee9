package torture

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/memory"
	"github.com/alkstore/alkworker/internal/sqlstore/storetest"
)

// TestHistoryChecker proves that the checker sees what it is for: a store that is right passes, and each that breaks a
// rule is found out.
func TestHistoryChecker(t *testing.T) {
	t.Parallel()
	const (
		most  = 200
		right = "a_store_that_is_right"
	)
	for name, broken := range map[string]func(*memory.Store) sqlstore.Store{
		right:                                 func(s *memory.Store) sqlstore.Store { return s },
		"H1_an_ack_that_ignores_the_fence":    func(s *memory.Store) sqlstore.Store { return unfenced{s} },
		"C7_an_ack_after_the_deadline":        func(s *memory.Store) sqlstore.Store { return late{s} },
		"C1_a_claim_that_is_handed_out_twice": func(s *memory.Store) sqlstore.Store { return &twice{Store: s} },
		"H8_a_cancel_that_forgets_to_delete":  func(s *memory.Store) sqlstore.Store { return forgetful{s} },
		"C6_a_claim_above_the_budget":         func(s *memory.Store) sqlstore.Store { return generous{s} },
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(most) {
				clock := storetest.NewClock()
				h := newHistory(clock, []sqlstore.Store{broken(memory.New(memory.Options{Clock: clock.Now}))}, seed)
				h.run(t)
				trouble := h.check(false)
				if trouble != "" && name == right {
					t.Fatalf("seed %d: %s", seed, trouble)
				}
				if trouble != "" {
					t.Logf("found in history %d", seed+1)
					return
				}
			}
			if name != right {
				t.Errorf("the checker has noticed nothing in %d histories", most)
			}
		})
	}
}

// unfenced acks whatever claim of the job holds.
type unfenced struct{ sqlstore.Store }

func (s unfenced) AckBatch(ctx context.Context, handles []sqlstore.Handle) ([]bool, error) {
	for i, h := range handles {
		if r, err := s.GetJob(ctx, h.ID); err == nil && r != nil {
			handles[i].Fence = r.Fence
		}
	}
	return s.Store.AckBatch(ctx, handles)
}

// late acks a claim that has lapsed, as long as nobody else has the job.
type late struct{ sqlstore.Store }

func (s late) AckBatch(ctx context.Context, handles []sqlstore.Handle) ([]bool, error) {
	r, err := s.GetJob(ctx, handles[0].ID)
	if err == nil && r != nil && r.State == sqlstore.Processing && r.Fence == handles[0].Fence {
		return s.Cancel(ctx, []int64{r.ID})
	}
	return s.Store.AckBatch(ctx, handles)
}

// twice now and then hands out what it handed out before.
type twice struct {
	sqlstore.Store
	mu   sync.Mutex
	last []sqlstore.Row
}

func (s *twice) ClaimBatch(ctx context.Context, c sqlstore.Claim) ([]sqlstore.Row, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.last) > 0 {
		rows := s.last
		s.last = nil
		return rows, nil
	}
	rows, err := s.Store.ClaimBatch(ctx, c)
	s.last = rows
	return rows, err
}

// forgetful cancels in words only.
type forgetful struct{ sqlstore.Store }

func (s forgetful) Cancel(ctx context.Context, ids []int64) ([]bool, error) {
	r, err := s.GetJob(ctx, ids[0])
	return []bool{r != nil && r.State != sqlstore.Dead}, err
}

// generous gives each job one attempt more than it was enqueued with.
type generous struct{ sqlstore.Store }

func (s generous) Enqueue(ctx context.Context, jobs []sqlstore.NewJob) ([]int64, error) {
	more := slices.Clone(jobs)
	for i := range more {
		more[i].Stamps.MaxAttempts++
	}
	return s.Store.Enqueue(ctx, more)
}

// TestHistoriesTellProcesses proves that there are several: a store that is right as long as one process has the database
// passes in one, and is found out in two.
func TestHistoriesTellProcesses(t *testing.T) {
	t.Parallel()
	for _, s := range stores {
		t.Run("H1_"+s.name, func(t *testing.T) {
			t.Parallel()
			d, ok := s.create(t, nil)
			if !ok {
				return
			}
			clock := newSharedClock(t)
			d.clock = clock
			find := func(most int, handles ...sqlstore.Store) (trouble string, n int) {
				for trouble == "" && n < most {
					if err := d.empty(t.Context()); err != nil {
						t.Fatal(err)
					}
					h := newHistory(clock, handles, uint64(n))
					h.run(t)
					trouble = h.check(s.parallel)
					n++
				}
				return trouble, n
			}
			known := newProcessMemory()
			one := []sqlstore.Store{known.over(d.handle(t)), known.over(d.handle(t))}
			if trouble, _ := find(10, one...); trouble != "" {
				t.Fatalf("one process: %s", trouble)
			}
			other := newRemote(t, site{Store: s.name, Address: d.address, Clock: clock.file.Name(), Memory: true})
			trouble, n := find(200, one[0], other)
			if trouble == "" {
				t.Errorf("two processes: the checker has noticed nothing in %d histories", n)
			}
			t.Logf("found in history %d", n)
		})
	}
}

// processMemory is what a process knows of its claims.
type processMemory struct {
	mu     sync.Mutex // also while the store works: what is known is true, unless another process has claimed
	fences map[int64]int64
}

func newProcessMemory() *processMemory { return &processMemory{fences: make(map[int64]int64)} }

// over is a store whose acks go by the memory: the newest claim that it knows of is the one that holds.
func (m *processMemory) over(s sqlstore.Store) sqlstore.Store { return remembering{s, m} }

type remembering struct {
	sqlstore.Store
	memory *processMemory
}

func (s remembering) ClaimBatch(ctx context.Context, c sqlstore.Claim) ([]sqlstore.Row, error) {
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	rows, err := s.Store.ClaimBatch(ctx, c)
	for _, r := range rows {
		s.memory.fences[r.ID] = r.Fence
	}
	return rows, err
}

func (s remembering) AckBatch(ctx context.Context, handles []sqlstore.Handle) ([]bool, error) {
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	if h := handles[0]; s.memory.fences[h.ID] == h.Fence {
		return unfenced{s.Store}.AckBatch(ctx, handles)
	}
	return s.Store.AckBatch(ctx, handles)
}
