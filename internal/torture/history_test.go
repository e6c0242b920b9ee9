package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"golang.org/x/sync/errgroup"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/storetest"
)

const (
	histories = 100 // of go test
	remotes   = 2   // other processes, each with one handle; that of the test has two
	callers   = 6
	calls     = 25 // by each caller
)

// TestHistories lets many callers at a few jobs at once, through handles in several processes, and wants an order of what
// they did in which each answer is the one that the contract gives. // C1
//
// All times are taken in this process, around the way to the other one and back: a call then seems longer than it was,
// which may hide a fault, but never makes one.
func TestHistories(t *testing.T) {
	t.Parallel()
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			d, ok := s.create(t, nil)
			if !ok {
				return
			}
			clock := newSharedClock(t)
			d.clock = clock
			handles := []sqlstore.Store{d.handle(t), d.handle(t)}
			at := site{Store: s.name, Address: d.address, Clock: clock.file.Name()}
			for range remotes {
				handles = append(handles, newRemote(t, at))
			}
			done := 0
			n := rounds(t, histories/s.part, func(t *testing.T, seed uint64) {
				if err := d.empty(t.Context()); err != nil {
					t.Fatal(err)
				}
				h := newHistory(d.clock, handles, seed)
				h.run(t)
				done += len(h.events)
				if trouble := h.check(s.parallel); trouble != "" {
					t.Fatalf("%s=%d: %s", seedVariable, seed, trouble)
				}
				storetest.CheckInvariants(t, handles[0], h.left())
			})
			served := int64(0)
			for _, h := range handles {
				if r, other := h.(*remote); other {
					if r.served.Load() <= 1 { // the one that newRemote makes
						t.Error("a process has done nothing")
					}
					served += r.served.Load()
				}
			}
			t.Logf("%d histories of %d calls in all, %d of them in %d other processes", n, done, served, remotes)
		})
	}
}

// event is one call as it was seen from outside.
type event struct {
	client    int
	call, ret time.Duration
	deed      deed           // handle.ID is zero if it is about every job
	out       outcome        // of the one job
	rows      []sqlstore.Row // of claim
}

// history is what several callers did.
type history struct {
	clock  storetest.Clock
	stores []sqlstore.Store
	seed   uint64
	began  time.Time

	mu     sync.Mutex
	events []event
	jobs   []int64
	claims []sqlstore.Handle
}

func newHistory(clock storetest.Clock, stores []sqlstore.Store, seed uint64) *history {
	clock.Set(1_700_000_000)
	return &history{clock: clock, stores: stores, seed: seed, began: time.Now()}
}

// run makes the history.
func (h *history) run(t *testing.T) {
	t.Helper()
	h.add(event{deed: deed{op: "advance", to: h.clock.Now()}})
	first := caller{history: h, random: rand.New(rand.NewPCG(h.seed, 0))}
	for range 3 {
		if err := first.enqueue(t.Context(), h.stores[0]); err != nil {
			t.Fatal(err)
		}
	}
	var group errgroup.Group
	start := make(chan struct{})
	for i := range callers {
		c := caller{history: h, client: i, random: rand.New(rand.NewPCG(h.seed, uint64(i+1)))}
		group.Go(func() error {
			<-start
			for range calls {
				if err := c.something(t.Context()); err != nil {
					return err
				}
			}
			return nil
		})
	}
	close(start)
	if err := group.Wait(); err != nil {
		t.Fatalf("%s=%d: %v", seedVariable, h.seed, err)
	}
	last := caller{history: h, random: first.random}
	for _, id := range h.jobs { // what it comes to
		if err := last.get(t.Context(), h.stores[0], id); err != nil {
			t.Fatal(err)
		}
	}
}

func (h *history) add(e event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
	if e.deed.op == "enqueue" {
		h.jobs = append(h.jobs, e.deed.handle.ID)
	}
	for _, r := range e.rows {
		h.claims = append(h.claims, sqlstore.Handle{ID: r.ID, Fence: r.Fence})
	}
}

// left are the jobs that the last look has found.
func (h *history) left() []int64 {
	var ids []int64
	for _, e := range h.events[len(h.events)-len(h.jobs):] {
		if e.out.row != nil {
			ids = append(ids, e.deed.handle.ID)
		}
	}
	return ids
}

// about is the part of the history that concerns one job.
func (h *history) about(id int64, parallel bool) []porcupine.Operation {
	var ops []porcupine.Operation
	add := func(e event) {
		ops = append(ops, porcupine.Operation{
			ClientId: e.client, Input: e.deed, Call: int64(e.call), Output: e.out, Return: int64(e.ret),
		})
	}
	for _, e := range h.events {
		switch e.deed.op {
		case "advance", "sweep":
		case "heartbeat":
			if e.deed.handle.ID != id {
				continue
			}
			e.deed.long = parallel && e.ret-e.call > 60*time.Millisecond
		case "claim":
			if i := slices.IndexFunc(e.rows, func(r sqlstore.Row) bool { return r.ID == id }); i >= 0 {
				e.out.row = &e.rows[i]
				if parallel {
					other := e
					other.deed.op = "bury"
					add(other)
				}
			}
		default:
			if e.deed.handle.ID != id {
				continue
			}
		}
		add(e)
	}
	return ops
}

// check says what is wrong with the history, and "" if nothing is.
func (h *history) check(parallel bool) string {
	for _, id := range h.jobs {
		ops := h.about(id, parallel)
		result := porcupine.CheckOperationsTimeout(contract(parallel), ops, time.Minute)
		if result == porcupine.Ok {
			continue
		}
		var b strings.Builder
		fmt.Fprintf(&b, "job %d: no order explains the answers (%v):\n", id, result)
		slices.SortFunc(ops, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
		for _, o := range ops {
			fmt.Fprintf(&b, "%2d %8d %8d us  %v -> %v\n", o.ClientId, o.Call/1000, o.Return/1000, o.Input, o.Output)
		}
		return b.String()
	}
	return ""
}

// caller is one of those who work on the jobs.
type caller struct {
	*history
	client int
	random *rand.Rand
}

// timed puts one call into the history, unless it failed.
func (c *caller) timed(d deed, do func() (outcome, []sqlstore.Row, error)) error {
	d.since = c.clock.Now()
	call := time.Since(c.began)
	out, rows, err := do()
	ret := time.Since(c.began)
	if err != nil {
		return fmt.Errorf("%v: %w", d, err)
	}
	c.add(event{client: c.client, call: call, ret: ret, deed: d, out: out, rows: rows})
	return nil
}

// something does one random thing on a random handle.
func (c *caller) something(ctx context.Context) error {
	s := c.stores[c.random.IntN(len(c.stores))]
	if c.client == 0 && c.random.IntN(2) == 0 { // one of them moves the clock: two could move it backwards
		return c.advance()
	}
	switch p := c.random.IntN(100); {
	case p < 6:
		return c.enqueue(ctx, s)
	case p < 34:
		return c.claim(ctx, s)
	case p < 38:
		return c.sweep(ctx, s)
	case p < 44:
		return c.get(ctx, s, c.someJob())
	case p < 50:
		return c.byID(ctx, "cancel", s.Cancel)
	case p < 60:
		return c.byID(ctx, "requeue", s.Requeue)
	case p < 63:
		return c.byID(ctx, "purge", s.Purge)
	}
	return c.onClaim(ctx, s)
}

func (c *caller) someJob() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.jobs[max(0, len(c.jobs)-1-c.random.IntN(4))]
}

// someClaim is mostly one of the last that were handed out, no matter to whom.
func (c *caller) someClaim() (sqlstore.Handle, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.claims) == 0 {
		return sqlstore.Handle{}, false
	}
	return c.claims[max(0, len(c.claims)-1-int(c.random.ExpFloat64()*3))], true
}

func (c *caller) maybe(n int64) *int64 {
	if c.random.IntN(3) > 0 {
		return nil
	}
	return new(c.random.Int64N(n))
}

func (c *caller) advance() error {
	to := c.clock.Now() + 1 + c.random.Int64N(2)
	return c.timed(deed{op: "advance", to: to}, func() (outcome, []sqlstore.Row, error) {
		c.clock.Set(to)
		return outcome{}, nil, nil
	})
}

func (c *caller) enqueue(ctx context.Context, s sqlstore.Store) error {
	j := sqlstore.NewJob{Queue: "q", Payload: []byte("payload"), ExpiresS: c.maybe(12), Stamps: sqlstore.Stamps{
		VisibilityTimeoutS: 1 + c.random.Int64N(4), MaxAttempts: 1 + c.random.Int64N(4), DeadLetterRetentionS: c.maybe(6),
	}}
	since, call := c.clock.Now(), time.Since(c.began)
	ids, err := s.Enqueue(ctx, []sqlstore.NewJob{j})
	if err != nil {
		return err
	}
	c.add(event{
		client: c.client, call: call, ret: time.Since(c.began),
		deed: deed{op: "enqueue", job: j, since: since, handle: sqlstore.Handle{ID: ids[0]}},
	})
	return nil
}

func (c *caller) claim(ctx context.Context, s sqlstore.Store) error {
	cl := sqlstore.Claim{
		Queue: "q", Claimant: fmt.Sprint("caller ", c.client), Limit: 1 + c.random.Int64N(3),
		Kind: sqlstore.ClaimKind(max(0, c.random.IntN(8)-5)), ExhaustedText: "max attempts exceeded", LapsedText: "lease lapsed",
	}
	return c.timed(deed{op: "claim", kind: cl.Kind}, func() (outcome, []sqlstore.Row, error) {
		rows, err := s.ClaimBatch(ctx, cl)
		return outcome{full: int64(len(rows)) >= cl.Limit}, rows, err
	})
}

func (c *caller) sweep(ctx context.Context, s sqlstore.Store) error {
	return c.timed(deed{op: "sweep"}, func() (outcome, []sqlstore.Row, error) {
		_, err := s.SweepExpired(ctx, "q", "expired")
		return outcome{}, nil, err
	})
}

func (c *caller) get(ctx context.Context, s sqlstore.Store, id int64) error {
	return c.timed(deed{op: "get", handle: sqlstore.Handle{ID: id}}, func() (outcome, []sqlstore.Row, error) {
		r, err := s.GetJob(ctx, id)
		return outcome{row: r}, nil, err
	})
}

func (c *caller) byID(ctx context.Context, op string, do byID) error {
	id := c.someJob()
	return c.timed(deed{op: op, handle: sqlstore.Handle{ID: id}}, func() (outcome, []sqlstore.Row, error) {
		answers, err := do(ctx, []int64{id})
		return outcome{ok: err == nil && answers[0]}, nil, err
	})
}

func (c *caller) onClaim(ctx context.Context, s sqlstore.Store) error {
	h, ok := c.someClaim()
	if !ok {
		return nil
	}
	d := deed{
		op: []string{"ack", "ack", "heartbeat", "retry", "retry", "fail", "release"}[c.random.IntN(7)], handle: h,
		delay: c.random.Int64N(3),
	}
	if d.op == "heartbeat" {
		d.extend = c.maybe(5)
	}
	return c.timed(d, func() (out outcome, _ []sqlstore.Row, err error) {
		var answers []bool
		switch d.op {
		case "ack":
			answers, err = s.AckBatch(ctx, []sqlstore.Handle{h})
		case "heartbeat":
			answers, err = s.Heartbeat(ctx, []sqlstore.Extension{{Handle: h, S: d.extend}})
		case "fail":
			answers, err = s.Fail(ctx, []sqlstore.Failing{{Handle: h, Error: "boom"}})
		case "release":
			answers, err = s.Release(ctx, []sqlstore.Releasing{{Handle: h, DelayS: d.delay}})
		case "retry":
			var verdicts []sqlstore.Verdict
			verdicts, err = s.Retry(ctx, []sqlstore.Retrial{{Handle: h, DelayS: d.delay, Error: "again", DeadText: "dead"}})
			if err == nil {
				out.verdict = verdicts[0]
			}
		}
		out.ok = len(answers) == 1 && answers[0]
		return out, nil, err
	})
}
