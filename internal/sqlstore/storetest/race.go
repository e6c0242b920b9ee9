package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

func raceRules() []rule {
	return []rule{
		{name: "C7_ack_against_reclaim_ends_one_way", test: ackAgainstReclaim},
		{name: "K1_ack_against_sweep_ends_one_way", test: ackAgainstSweep},
		{name: "K1_claim_against_sweep_ends_one_way", test: claimAgainstSweep},
		{name: "H1_one_claim_ends_once", test: endsOnce},
		{name: "H8_cancel_against_ack_ends_one_way", test: cancelAgainstAck},
		{name: "D4_requeue_against_purge_ends_one_way", test: requeueAgainstPurge},
		{name: "K16_each_job_is_claimed_once_by_many_one_at_a_time", test: func(e *env) { claimTogether(e, 200, 1) }},
		{name: "K16_each_job_is_claimed_once_by_many_in_batches", test: func(e *env) { claimTogether(e, 2_000, 50) }},
		{name: "K9_short_jobs_with_sweeps_in_between", test: shortJobs},
		{name: "E1_ids_of_many_producers_are_distinct", test: producers},
	}
}

// together runs the functions at the same moment and fails the test if one does.
func (e *env) together(fs ...func(ctx context.Context) error) {
	e.Helper()
	var group errgroup.Group
	begin := make(chan struct{})
	for _, f := range fs {
		group.Go(func() error {
			<-begin
			return f(e.Context())
		})
	}
	close(begin)
	e.ok(group.Wait())
}

func ackAgainstReclaim(e *env) {
	stores := e.handles(2)
	for range 20 {
		r, h := e.hold(newJob("mail"))
		e.h.Clock.Set(*r.ClaimExpiresAt)
		var acked []bool
		var reclaimed []sqlstore.Row
		e.together(
			func(ctx context.Context) (err error) {
				acked, err = stores[0].AckBatch(ctx, []sqlstore.Handle{h})
				return err
			},
			func(ctx context.Context) (err error) {
				e.h.Clock.Set(*r.ClaimExpiresAt + 1)
				reclaimed, err = stores[1].ClaimBatch(ctx, claimOf("mail", 1))
				return err
			},
		)
		if acked[0] != (len(reclaimed) == 0) {
			e.Fatalf("ack %v and %d jobs reclaimed: want one or the other", acked[0], len(reclaimed))
		}
		if !acked[0] {
			same(e, "ack by the new holder", e.ack(handle(reclaimed[0])), []bool{true})
		}
		e.gone(h.ID)
	}
}

func ackAgainstSweep(e *env) {
	stores := e.handles(2)
	for range 20 {
		j := newJob("mail")
		j.ExpiresS = new(int64(5))
		_, h := e.hold(j)
		e.advance(6)
		fresh := e.enqueueOne(newJob("mail"))
		_, err := stores[1].ClaimBatch(e.Context(), claimOf("mail", 1))
		e.ok(err)
		var acked []bool
		var swept sqlstore.Swept
		e.together(
			func(ctx context.Context) (err error) {
				acked, err = stores[0].AckBatch(ctx, []sqlstore.Handle{h})
				return err
			},
			func(ctx context.Context) (err error) {
				swept, err = stores[1].SweepExpired(ctx, "mail", expiredText)
				return err
			},
		)
		if acked[0] != (swept.Expired == 0) {
			e.Fatalf("ack %v and %d jobs expired: want one or the other", acked[0], swept.Expired)
		}
		if acked[0] {
			e.gone(h.ID)
		} else {
			e.states(sqlstore.Dead, h.ID)
			same(e, "purge", e.purge(h.ID), []bool{true})
		}
		same(e, "ack of the other claim", e.ack(sqlstore.Handle{ID: fresh, Fence: 1}), []bool{true})
	}
}

func claimAgainstSweep(e *env) {
	stores := e.handles(2)
	for range 20 {
		j := newJob("mail")
		j.ExpiresS = new(int64(5))
		id := e.enqueueOne(j)
		e.advance(5)
		last := e.now()
		var claimed []sqlstore.Row
		e.together(
			func(ctx context.Context) (err error) {
				claimed, err = stores[0].ClaimBatch(ctx, claimOf("mail", 1))
				return err
			},
			func(ctx context.Context) error {
				e.h.Clock.Set(last + 1)
				return second(stores[1].SweepExpired(ctx, "mail", expiredText))
			},
		)
		r := e.get(id)
		if r.State != sqlstore.Dead || r.Fence != int64(len(claimed)) {
			e.Fatalf("%d claimed: got a %s job with fence %d, want a dead one", len(claimed), r.State, r.Fence)
		}
		same(e, "purge", e.purge(id), []bool{true})
	}
}

func endsOnce(e *env) {
	stores := e.handles(4)
	for range 15 {
		_, h := e.hold(newJob("mail"))
		var held atomic.Int64
		count := func(ok bool, err error) error {
			if ok {
				held.Add(1)
			}
			return err
		}
		first := func(answers []bool, err error) error { return count(err == nil && answers[0], err) }
		e.together(
			func(ctx context.Context) error { return first(stores[0].AckBatch(ctx, []sqlstore.Handle{h})) },
			func(ctx context.Context) error { return first(stores[1].Fail(ctx, []sqlstore.Failing{{Handle: h}})) },
			func(ctx context.Context) error {
				return first(stores[2].Release(ctx, []sqlstore.Releasing{{Handle: h, DelayS: 9}}))
			},
			func(ctx context.Context) error {
				v, err := stores[3].Retry(ctx, []sqlstore.Retrial{{Handle: h, DelayS: 9}})
				return count(err == nil && v[0] != sqlstore.Refused, err)
			},
		)
		if n := held.Load(); n != 1 {
			e.Fatalf("one claim was ended %d times", n)
		}
	}
}

func cancelAgainstAck(e *env) {
	stores := e.handles(2)
	for range 15 {
		_, h := e.hold(newJob("mail"))
		var acked, cancelled []bool
		e.together(
			func(ctx context.Context) (err error) {
				acked, err = stores[0].AckBatch(ctx, []sqlstore.Handle{h})
				return err
			},
			func(ctx context.Context) (err error) {
				cancelled, err = stores[1].Cancel(ctx, []int64{h.ID})
				return err
			},
		)
		if acked[0] == cancelled[0] {
			e.Fatalf("ack %v and cancel %v: want one or the other", acked[0], cancelled[0])
		}
	}
}

func requeueAgainstPurge(e *env) {
	stores := e.handles(2)
	for range 15 {
		id := e.buryOne(newJob("mail"))
		var requeued, purged []bool
		e.together(
			func(ctx context.Context) (err error) {
				requeued, err = stores[0].Requeue(ctx, []int64{id})
				return err
			},
			func(ctx context.Context) (err error) {
				purged, err = stores[1].Purge(ctx, []int64{id})
				return err
			},
		)
		if requeued[0] == purged[0] {
			e.Fatalf("requeue %v and purge %v: want one or the other", requeued[0], purged[0])
		}
		e.cancel(id)
	}
}

func claimTogether(e *env, n int, batch int64) {
	e.enqueue(jobs(n, newJob("mail"))...)
	var claimed atomic.Int64
	var workers []func(ctx context.Context) error
	for i, s := range append(e.handles(4), e.handles(4)...) { // two goroutines a handle
		workers = append(workers, func(ctx context.Context) error {
			c := claimOf("mail", batch)
			c.Claimant = fmt.Sprint("worker ", i)
			for {
				rows, err := s.ClaimBatch(ctx, c)
				if err != nil {
					return err
				}
				if len(rows) == 0 {
					return nil
				}
				claimed.Add(int64(len(rows)))
				for _, r := range rows {
					if r.Claimant != c.Claimant || r.Attempts != 1 || r.Fence != 1 {
						return fmt.Errorf("claimed by %s: got %+v, want its first claim", c.Claimant, r)
					}
				}
			}
		})
	}
	e.together(workers...) // the books notice a handle that is handed out twice
	if got := claimed.Load(); got != int64(n) {
		e.Errorf("claimed: got %d jobs, want %d", got, n)
	}
}

func shortJobs(e *env) {
	const n = 1_000
	seed := rand.Uint64()
	e.Logf("seed %d", seed)
	j := newJob("mail")
	j.Stamps.MaxAttempts = 3
	brief := j
	brief.ExpiresS = new(int64(4))
	e.enqueue(jobs(n-200, j)...)
	e.enqueue(jobs(200, brief)...)
	stores := e.handles(4)
	pace := make(chan struct{}, 1) // a sweep for each batch that somebody claims, if it can follow
	parts := []func(ctx context.Context) error{func(ctx context.Context) error {
		for range pace {
			if err := second(stores[0].SweepExpired(ctx, "mail", expiredText)); err != nil {
				return err
			}
		}
		return nil
	}}
	var running atomic.Int64
	for i, s := range stores {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		running.Add(1)
		parts = append(parts, func(ctx context.Context) error {
			defer func() {
				if running.Add(-1) == 0 {
					close(pace)
				}
			}()
			return e.work(ctx, s, random, pace)
		})
	}
	e.together(parts...)
	e.sweep("mail")
	for _, r := range listAll(e.T, e.store) { // the books know how many were acked. D5
		if r.State != sqlstore.Dead {
			e.Errorf("job %d: got %s, want it acked or dead", r.ID, r.State)
		}
	}
}

// work claims and ends jobs in every way until nothing is left to claim or to wait for.
func (e *env) work(ctx context.Context, s sqlstore.Store, random *rand.Rand, pace chan<- struct{}) error {
	for {
		rows, err := s.ClaimBatch(ctx, claimOf("mail", 20))
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			_, next, err := s.NextReady(ctx, []string{"mail"})
			if err != nil || len(next) == 0 {
				return err
			}
		}
		if len(rows) == 0 || random.IntN(10) == 0 {
			e.advance(1) // so that what was forgotten lapses, what was retried comes due, and what is brief expires
		}
		select {
		case pace <- struct{}{}:
		default:
		}
		if err := end(ctx, s, rows, random); err != nil {
			return err
		}
	}
}

// end acks most of the jobs, ends some in other ways, and forgets a few.
func end(ctx context.Context, s sqlstore.Store, rows []sqlstore.Row, random *rand.Rand) error {
	var acks []sqlstore.Handle
	var retries []sqlstore.Retrial
	var failures []sqlstore.Failing
	var releases []sqlstore.Releasing
	for _, r := range rows {
		switch p := random.IntN(100); {
		case p < 70:
			acks = append(acks, handle(r))
		case p < 85:
			retries = append(retries, sqlstore.Retrial{Handle: handle(r), DelayS: random.Int64N(3)})
		case p < 90:
			failures = append(failures, sqlstore.Failing{Handle: handle(r)})
		case p < 95:
			releases = append(releases, sqlstore.Releasing{Handle: handle(r)})
		}
	}
	return errors.Join(
		second(s.AckBatch(ctx, acks)), second(s.Retry(ctx, retries)), second(s.Fail(ctx, failures)),
		second(s.Release(ctx, releases)),
	)
}

func producers(e *env) {
	var parts []func(ctx context.Context) error
	for _, s := range append(e.handles(3), e.handles(3)...) {
		parts = append(parts, func(ctx context.Context) error {
			for i := range 20 {
				if err := second(s.Enqueue(ctx, jobs(1+i%4, newJob("mail")))); err != nil {
					return err
				}
			}
			return nil
		})
	}
	e.together(parts...)
	same(e, "jobs", len(listAll(e.T, e.store)), 6*50)
}
