package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	goruntime "runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// crowd is a store whose writer is held up, so that calls gather in line.
type crowd struct {
	*Store
	t       *testing.T
	release chan struct{}
	first   sync.WaitGroup
}

func newCrowd(t *testing.T) *crowd {
	t.Helper()
	return holdUp(t, openStore(t, Options{Synchronous: "NORMAL"}))
}

// holdUp occupies the writer of a store until release is closed.
func holdUp(t *testing.T, s *Store) *crowd {
	t.Helper()
	c := &crowd{Store: s, t: t, release: make(chan struct{})}
	holds := make(chan struct{})
	c.first.Go(func() {
		err := s.writing(context.Background(), ordinary, alone, func(context.Context, *tx) error {
			close(holds)
			<-c.release
			return nil
		})
		if err != nil {
			t.Errorf("first write: %v", err)
		}
	})
	<-holds
	return c
}

// waits is how many calls are in line, without the turn that a checkpoint waits for.
func (c *crowd) waits() (n int) {
	c.write.line.mu.Lock()
	defer c.write.line.mu.Unlock()
	for _, l := range c.write.line.waiting {
		for _, call := range l {
			if call.work != nil || call.jobs != nil {
				n++
			}
		}
	}
	return n
}

// joins starts a call and returns once it is in line.
func (c *crowd) joins(all *sync.WaitGroup, l lane, size int, work func(t *tx) error, check func(err error)) {
	before := c.waits()
	all.Go(func() {
		check(c.writing(c.t.Context(), l, size, func(_ context.Context, t *tx) error { return work(t) }))
	})
	c.awaits(before + 1)
}

// awaits returns once n calls are in line.
func (c *crowd) awaits(n int) {
	for c.waits() < n {
		goruntime.Gosched()
	}
}

func (c *crowd) wantNil(err error) {
	if err != nil {
		c.t.Errorf("write: %v", err)
	}
}

func TestLine(t *testing.T) {
	t.Run("K6_the_urgent_go_first_each_in_the_order_of_arrival", func(t *testing.T) {
		c := newCrowd(t)
		var all sync.WaitGroup
		var through []string // guarded by the transaction
		for _, name := range []string{"o1", "o2", "u1", "o3", "u2", "u3"} {
			l := ordinary
			if name[0] == 'u' {
				l = urgent
			}
			c.joins(&all, l, alone, func(*tx) error { through = append(through, name); return nil }, c.wantNil)
		}
		close(c.release)
		all.Wait()
		if want := []string{"u1", "u2", "u3", "o1", "o2", "o3"}; !slices.Equal(through, want) {
			t.Errorf("order: got %v, want %v", through, want)
		}
	})
	t.Run("calls_that_wait_share_a_transaction_as_far_as_their_sizes_allow", func(t *testing.T) {
		c := newCrowd(t)
		var all sync.WaitGroup
		seen := make(map[*tx][]int) // guarded by the transaction
		for i, size := range []int{1, most - 10, 9, 1, alone, 5} {
			c.joins(&all, ordinary, size, func(t *tx) error { seen[t] = append(seen[t], i); return nil }, c.wantNil)
		}
		close(c.release)
		all.Wait()
		var batches []string
		for _, calls := range seen {
			batches = append(batches, fmt.Sprint(calls))
		}
		slices.Sort(batches)
		if want := []string{"[0 1 2]", "[3 5]", "[4]"}; !slices.Equal(batches, want) {
			t.Errorf("transactions: got %v, want %v", batches, want)
		}
	})
	t.Run("a_call_that_wants_to_be_alone_is_alone_whatever_the_size_of_the_others", func(t *testing.T) {
		c := newCrowd(t)
		var all sync.WaitGroup
		seen := make(map[*tx]int) // guarded by the transaction
		for _, size := range []int{0, alone, 0, -1, alone} {
			c.joins(&all, ordinary, size, func(t *tx) error {
				if seen[t]++; size == alone && seen[t] > 1 {
					return errors.New("is not alone")
				}
				return nil
			}, c.wantNil)
		}
		close(c.release)
		all.Wait()
		for _, calls := range seen {
			if calls > 3 {
				t.Errorf("%d calls in one transaction, want the small ones at most", calls)
			}
		}
	})
	t.Run("T6_one_that_fails_takes_nothing_of_the_others_with_it", func(t *testing.T) {
		c := newCrowd(t)
		var all sync.WaitGroup
		refuse := errors.New("refused")
		for i := range 5 {
			queue := fmt.Sprint("q", i)
			work := func(t *tx) error {
				_, err := t.enqueue(context.Background(), []sqlstore.NewJob{{Queue: queue, Stamps: sqlstore.Stamps{MaxAttempts: 1}}})
				if i == 2 {
					return errors.Join(err, refuse)
				}
				return err
			}
			c.joins(&all, ordinary, 1, work, func(err error) {
				if got := errors.Is(err, refuse); got != (i == 2) {
					t.Errorf("call %d: got %v", i, err)
				}
			})
		}
		close(c.release)
		all.Wait()
		queues, err := c.Queues(t.Context())
		if want := []string{"q0", "q1", "q3", "q4"}; err != nil || !slices.Equal(queues, want) {
			t.Errorf("queues: got %v, %v; want %v", queues, err, want)
		}
	})
	t.Run("T1_a_claim_and_an_enqueue_of_one_transaction_have_the_same_time", func(t *testing.T) {
		s := openStore(t, Options{Synchronous: "NORMAL"})
		job := []sqlstore.NewJob{{Queue: "q", Stamps: sqlstore.Stamps{MaxAttempts: 1, VisibilityTimeoutS: 60}}}
		if _, err := s.Enqueue(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		before, err := s.Now(t.Context())
		c := holdUp(t, s)
		c.wantNil(err)
		var all sync.WaitGroup
		all.Go(func() {
			_, err := s.ClaimBatch(t.Context(), sqlstore.Claim{Queue: "q", Claimant: "w", Limit: 1})
			c.wantNil(err)
		})
		c.awaits(1)
		all.Go(func() {
			_, err := s.Enqueue(t.Context(), job)
			c.wantNil(err)
		})
		c.awaits(2)
		close(c.release)
		all.Wait()
		after, err := s.Now(t.Context())
		c.wantNil(err)
		rows, err := s.ListJobs(t.Context(), sqlstore.Filter{Limit: 9})
		if err != nil || len(rows) != 2 {
			t.Fatalf("got %d jobs, %v", len(rows), err)
		}
		enqueued, claimed := rows[0], rows[1]
		if claimed.ClaimedAt == nil || *claimed.ClaimedAt != enqueued.CreatedAt || *claimed.ClaimExpiresAt != enqueued.CreatedAt+60 ||
			enqueued.RunAt != enqueued.CreatedAt || enqueued.CreatedAt < before || enqueued.CreatedAt > after {
			t.Errorf("from %d to %d: got %+v and %+v", before, after, claimed, enqueued)
		}
	})
	t.Run("a_panic_reaches_its_caller_and_strands_nobody", func(t *testing.T) {
		c := newCrowd(t)
		var all sync.WaitGroup
		started := make(chan struct{})
		all.Go(func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic did not reach the caller")
				}
			}()
			close(started)
			_ = c.writing(t.Context(), urgent, alone, func(context.Context, *tx) error { panic("boom") })
		})
		<-started
		for c.waits() == 0 {
			goruntime.Gosched()
		}
		c.joins(&all, ordinary, 1, func(t *tx) error {
			_, err := t.enqueue(context.Background(), []sqlstore.NewJob{{Queue: "q", Stamps: sqlstore.Stamps{MaxAttempts: 1}}})
			return err
		}, c.wantNil)
		close(c.release)
		all.Wait()
	})
	t.Run("K51_calls_that_give_up_at_any_moment_lose_no_turn", func(t *testing.T) {
		c := newCrowd(t)
		close(c.release)
		var inside, done, gaveUp atomic.Int64
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				random := rand.New(rand.NewPCG(1, uint64(i)))
				for range 200 {
					ctx, cancel := context.WithCancel(t.Context())
					if random.IntN(2) == 0 {
						go cancel() // at about the moment of the turn
					}
					size := []int{1, alone}[random.IntN(2)]
					err := c.writing(ctx, lane(random.IntN(int(lanes))), size, func(context.Context, *tx) error {
						if n := inside.Add(1); n != 1 {
							t.Errorf("%d writers at once", n)
						}
						inside.Add(-1)
						return nil
					})
					cancel()
					switch {
					case err == nil:
						done.Add(1)
					case errors.Is(err, context.Canceled):
						gaveUp.Add(1)
					default:
						t.Errorf("write: %v", err)
					}
				}
			})
		}
		all.Wait() // for ever, if a turn were lost
		if got := done.Load() + gaveUp.Load(); got != 3200 {
			t.Errorf("done or given up: got %d, want 3200", got)
		}
	})
}

func TestHurry(t *testing.T) {
	for name, tt := range map[string]struct {
		size   int
		shared bool
	}{
		"K6_a_heartbeat_takes_part_in_the_transaction_that_is_open": {1, true},
		"T6_but_not_in_one_that_may_not_be_run_again":               {alone, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, Options{})
			var first, second *tx
			holds, release := make(chan struct{}), make(chan struct{})
			var all sync.WaitGroup
			all.Go(func() {
				err := s.writing(t.Context(), ordinary, tt.size, func(_ context.Context, tx *tx) error {
					first = tx
					close(holds)
					<-release
					return nil
				})
				if err != nil {
					t.Errorf("first: %v", err)
				}
			})
			<-holds
			c := &crowd{Store: s, t: t}
			c.joins(&all, urgent, 1, func(tx *tx) error { second = tx; return nil }, c.wantNil)
			close(release)
			all.Wait()
			if shared := first == second; shared != tt.shared || second == nil {
				t.Errorf("in one transaction: %v, want %v", shared, tt.shared)
			}
		})
	}
}

// T6: whoever gives up while another process holds the lock is not kept by those who wait on.
func TestLeaveBeforeBegin(t *testing.T) {
	s := openStore(t, Options{})
	beside := openPool(s.path, s.options, callers, 1)
	defer func() { _ = beside.Close() }()
	lock, err := beside.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	jobs := []sqlstore.NewJob{{Queue: "q", Stamps: sqlstore.Stamps{MaxAttempts: 1}}}
	enqueue := func(ctx context.Context) (ended chan error) {
		ended = make(chan error, 1)
		go func() {
			_, err := s.Enqueue(ctx, jobs)
			ended <- err
		}()
		return ended
	}
	until := func(what func(q *line) bool) {
		q := &s.write.line
		for done := false; !done; goruntime.Gosched() {
			q.mu.Lock()
			done = what(q)
			q.mu.Unlock()
		}
	}
	first, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	leads := enqueue(first)
	until(func(q *line) bool { return q.led })
	second, leave := context.WithCancel(t.Context())
	defer leave()
	leaves, stays := enqueue(second), enqueue(t.Context())
	until(func(q *line) bool { return len(q.waiting[ordinary]) == 2 })
	leave()
	if err := <-leaves; !errors.Is(err, context.Canceled) {
		t.Errorf("one that waited in line: got %v, want context.Canceled", err)
	}
	giveUp()
	if err := <-leads; !errors.Is(err, context.Canceled) {
		t.Errorf("the one that waited for the lock: got %v, want context.Canceled", err)
	}
	if err := errors.Join(lock.Rollback(), <-stays); err != nil { // only now is there no lock any more
		t.Error(err)
	}
}

func TestPause(t *testing.T) {
	t.Run("K6_heartbeats_go_on_while_a_checkpoint_holds_others_back", func(t *testing.T) {
		c := &crowd{Store: openStore(t, Options{}), t: t}
		var all sync.WaitGroup
		var order []string
		note := func(what string) func(*tx) error {
			return func(*tx) error { order = append(order, what); return nil }
		}
		err := c.write.pause(func() error {
			c.joins(&all, ordinary, 1, note("enqueue"), c.wantNil)
			if err := c.writing(t.Context(), urgent, 1, func(_ context.Context, t *tx) error { return note("heartbeat")(t) }); err != nil {
				return err
			}
			return note("checkpoint")(nil)
		})
		all.Wait()
		if want := []string{"heartbeat", "checkpoint", "enqueue"}; err != nil || !slices.Equal(order, want) {
			t.Errorf("got %v, %v, want %v", order, err, want)
		}
	})
}

// T6: when the wait for the lock is over, it is over for all who have waited as long.
func TestBusyTogether(t *testing.T) {
	s := openStore(t, Options{BusyTimeout: 100 * time.Millisecond})
	beside := openPool(s.path, s.options, callers, 1)
	defer func() { _ = beside.Close() }()
	lock, err := beside.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	q := &s.write.line
	q.led = true // by this test
	var all sync.WaitGroup
	calls := make([]*call, 20)
	for i := range calls {
		calls[i] = &call{ctx: t.Context(), size: 1, work: func(context.Context, *tx) error { return nil }}
		all.Go(func() {
			if err := s.write.do(calls[i], ordinary); !errors.Is(kind(err), sqlstore.ErrBusy) {
				t.Errorf("got %v, want ErrBusy", err)
			}
		})
	}
	(&crowd{Store: s, t: t}).awaits(len(calls))
	q.handOver()
	all.Wait()
	waits := 0
	for _, c := range calls {
		if c.leads {
			waits++
		}
	}
	if waits != 1 {
		t.Errorf("%d calls waited one after the other, want one for all", waits)
	}
	if err := lock.Rollback(); err != nil {
		t.Error(err)
	}
}
