package storetest

import (
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

func fleetRules() []rule {
	return []rule{
		{name: "S6_a_lock_is_taken_when_free_and_kept_while_it_holds", test: leadHolds},
		{name: "S6_a_lock_can_be_taken_when_it_has_expired", test: leadExpires},
		{name: "S6_only_the_owner_renews", test: leadRenews},
		{name: "S6_resign_frees_the_owners_lock_only", test: resign},
		{name: "S6_locks_are_kept_apart", test: locksApart},
		{name: "S6_one_of_many_at_once_wins", test: leadConcurrently},
		{name: "K17_a_worker_counts_while_its_announcement_holds", test: workersLapse},
		{name: "K17_a_worker_that_withdraws_takes_only_lapsed_ones_along", test: withdrawLapsed},
		{name: "K17_a_worker_serves_exactly_the_queues_it_announced_last", test: workersQueues},
	}
}

func (e *env) lead(lock, owner string, ttl int64) bool {
	e.Helper()
	ok, err := e.store.Lead(e.Context(), lock, owner, ttl)
	e.ok(err)
	return ok
}

func leadHolds(e *env) {
	same(e, "first", e.lead("scheduler", "a", 10), true)
	same(e, "another", e.lead("scheduler", "b", 10), false)
	same(e, "the owner again", e.lead("scheduler", "a", 10), true)
	for _, s := range e.handles(2) {
		ok, err := s.Lead(e.Context(), "scheduler", "c", 10)
		e.ok(err)
		same(e, "another, through any handle", ok, false)
	}
}

func leadExpires(e *env) {
	same(e, "first", e.lead("scheduler", "a", 10), true)
	e.advance(10)
	same(e, "another in the last second", e.lead("scheduler", "b", 10), false)
	e.advance(1)
	same(e, "another one second later", e.lead("scheduler", "b", 5), true)
	same(e, "the former owner", e.lead("scheduler", "a", 10), false)
	e.advance(6)
	same(e, "the former owner, after that one expired too", e.lead("scheduler", "a", 10), true)
}

func leadRenews(e *env) {
	same(e, "first", e.lead("scheduler", "a", 10), true)
	for range 5 {
		e.advance(10)
		same(e, "renewal in the last second", e.lead("scheduler", "a", 10), true)
		same(e, "another", e.lead("scheduler", "b", 1000), false)
	}
	same(e, "renewal for less", e.lead("scheduler", "a", 2), true)
	e.advance(3)
	same(e, "another, after the shorter time", e.lead("scheduler", "b", 10), true)
}

func resign(e *env) {
	ctx := e.Context()
	e.ok(e.store.Resign(ctx, "scheduler", "a"))
	same(e, "first", e.lead("scheduler", "a", 10), true)
	e.ok(e.store.Resign(ctx, "scheduler", "b"))
	same(e, "another, after somebody else resigned", e.lead("scheduler", "b", 10), false)
	e.ok(e.store.Resign(ctx, "scheduler", "a"))
	e.ok(e.store.Resign(ctx, "scheduler", "a"))
	same(e, "another, after the owner resigned", e.lead("scheduler", "b", 10), true)
	e.ok(e.store.Resign(ctx, "scheduler", "a"))
	same(e, "the former owner, after resigning once more", e.lead("scheduler", "a", 10), false)
}

func locksApart(e *env) {
	for _, name := range oddNames() {
		same(e, "lock of its own", e.lead(name, "owner of "+name, 10), true)
	}
	for _, name := range oddNames() {
		same(e, "lock of another", e.lead(name, "thief", 10), false)
		same(e, "renewal", e.lead(name, "owner of "+name, 10), true)
	}
}

func leadConcurrently(e *env) {
	stores := e.handles(4)
	for round := range 10 {
		var winners atomic.Int64
		var group errgroup.Group
		begin := make(chan struct{})
		for i, s := range stores {
			group.Go(func() error {
				<-begin
				ok, err := s.Lead(e.Context(), "scheduler", string(rune('a'+i)), 10)
				if ok {
					winners.Add(1)
				}
				return err
			})
		}
		close(begin)
		e.ok(group.Wait())
		if n := winners.Load(); n != 1 {
			e.Fatalf("round %d: %d owners at once, want 1", round, n)
		}
		e.advance(11)
	}
}

// workers counts the workers of one queue.
func (e *env) workers(queue string) int64 {
	e.Helper()
	for _, s := range e.stats() {
		if s.Queue == queue {
			return s.Workers
		}
	}
	return 0
}

func workersLapse(e *env) {
	ctx := e.Context()
	announce := func(name string, ttl int64) { e.ok(e.store.Announce(ctx, name, []string{"mail"}, ttl)) }
	announce("a", 10)
	announce("b", 20)
	same(e, "workers", e.workers("mail"), 2)
	e.advance(10)
	same(e, "workers in the last second of one", e.workers("mail"), 2)
	e.advance(1)
	same(e, "workers after it", e.workers("mail"), 1)
	announce("a", 10)
	announce("b", 10)
	same(e, "workers after renewal", e.workers("mail"), 2)
	e.ok(e.store.Withdraw(ctx, "a"))
	e.ok(e.store.Withdraw(ctx, "a"))
	same(e, "workers after one withdrew", e.workers("mail"), 1)
	e.advance(11)
	same(e, "stats once nobody is left", len(e.stats()), 0)
}

func workersQueues(e *env) {
	ctx := e.Context()
	count := func(want map[string]int64) {
		e.Helper()
		got := make(map[string]int64)
		for _, s := range e.stats() {
			got[s.Queue] = s.Workers
		}
		same(e, "workers", got, want)
	}
	e.ok(e.store.Announce(ctx, "a", []string{"x", "y"}, 10))
	e.ok(e.store.Announce(ctx, "b", []string{"y", "z"}, 10))
	count(map[string]int64{"x": 1, "y": 2, "z": 1})
	e.ok(e.store.Announce(ctx, "a", []string{"y", "y"}, 10))
	count(map[string]int64{"y": 2, "z": 1})
	e.ok(e.store.Announce(ctx, "b", nil, 10))
	count(map[string]int64{"y": 1})
	e.ok(e.store.Withdraw(ctx, "nobody"))
	count(map[string]int64{"y": 1})
	e.ok(e.store.Withdraw(ctx, "a"))
	for _, name := range oddNames() {
		e.ok(e.store.Announce(ctx, name, []string{name}, 10))
		same(e, "workers of an odd name", e.workers(name), 1)
	}
	for _, s := range e.handles(2) {
		stats, err := s.Stats(ctx)
		e.ok(err)
		same(e, "queues, seen by any handle", len(stats), len(oddNames()))
	}
}

// withdrawLapsed: those that have lapsed are gone for good. A clock that is set back does not bring them to life again.
func withdrawLapsed(e *env) {
	ctx := e.Context()
	e.ok(e.store.Announce(ctx, "lapsing", []string{"mail"}, 10))
	e.advance(10)
	e.ok(e.store.Withdraw(ctx, "another"))
	same(e, "workers in the last second of one", e.workers("mail"), 1)
	e.advance(1)
	e.ok(e.store.Withdraw(ctx, "another"))
	e.advance(-5)
	same(e, "workers once it has lapsed", e.workers("mail"), 0)
}
