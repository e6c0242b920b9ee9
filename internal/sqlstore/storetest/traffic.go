package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

func trafficRules() []rule {
	return []rule{
		{name: "K16_each_job_is_claimed_once_by_many_one_at_a_time", test: func(e *env) { claimTogether(e, 200, 1) }},
		{name: "K16_each_job_is_claimed_once_by_many_in_batches", test: func(e *env) { claimTogether(e, 2_000, 50) }},
		{name: "K9_short_jobs_with_sweeps_in_between", test: shortJobs},
		{name: "K51_calls_cancelled_at_random_leave_nothing_behind", test: cancelledAtRandom},
		{name: "E1_ids_of_many_producers_are_distinct", test: producers},
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
	for idle := 0; ; {
		rows, err := s.ClaimBatch(ctx, claimOf("mail", 20))
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			if idle++; idle > 100_000 {
				return errors.New("the queue always says that there is work, and never hands any out")
			}
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

// cancelledAtRandom cancels calls in the middle. The books do not hold for them: a cancelled commit may have happened.
func cancelledAtRandom(e *env) {
	e.closed = true
	seed := rand.Uint64()
	e.Logf("seed %d", seed)
	stores := e.handles(2)
	acked := make([][]int64, 4)
	var parts []func(ctx context.Context) error
	for i := range acked {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		parts = append(parts, func(ctx context.Context) (err error) {
			acked[i], err = interrupted(ctx, stores[i%2].(booked).Store, random)
			return err
		})
	}
	e.together(parts...)
	for _, ids := range acked {
		e.gone(ids...)
	}
	present(e.T, e.store)
	for i, s := range stores {
		queue := fmt.Sprint("afterwards ", i)
		ids, err := s.Enqueue(e.Context(), jobs(1, newJob(queue)))
		e.ok(err)
		rows, err := s.ClaimBatch(e.Context(), claimOf(queue, 5))
		e.ok(err)
		same(e, "claimed", rowIDs(rows), ids)
		answers, err := s.AckBatch(e.Context(), []sqlstore.Handle{handle(rows[0])})
		e.ok(err)
		same(e, "ack", answers, []bool{true})
	}
}

// interrupted makes calls that have between nothing and two milliseconds each, and returns the jobs that were acked.
func interrupted(ctx context.Context, s sqlstore.Store, random *rand.Rand) (acked []int64, err error) {
	call := func(do func(ctx context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, time.Duration(random.IntN(2_000))*time.Microsecond)
		defer cancel()
		if err := do(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("call past its deadline: got %w, want context.DeadlineExceeded", err)
		}
		return nil
	}
	for range 60 {
		var rows []sqlstore.Row
		err := errors.Join(
			call(func(ctx context.Context) error { return second(s.Enqueue(ctx, jobs(2, oneShot("mail")))) }),
			call(func(ctx context.Context) (err error) {
				rows, err = s.ClaimBatch(ctx, claimOf("mail", 2))
				return err
			}),
			call(func(ctx context.Context) error { return second(s.SweepExpired(ctx, "mail", expiredText)) }),
		)
		for i, r := range rows {
			err = errors.Join(err, call(func(ctx context.Context) error {
				if i == 1 {
					return second(s.Fail(ctx, []sqlstore.Failing{{Handle: handle(r), Error: "x"}}))
				}
				answers, err := s.AckBatch(ctx, []sqlstore.Handle{handle(r)})
				if err == nil && answers[0] {
					acked = append(acked, r.ID)
				}
				return err
			}))
		}
		if err != nil {
			return nil, err
		}
	}
	return acked, nil
}
