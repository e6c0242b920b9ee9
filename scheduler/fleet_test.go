package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

func TestFleet(t *testing.T) {
	t.Parallel()

	for n := 2; n <= 3; n++ {
		bubble(t, fmt.Sprintf("S5_K74_%d_schedulers_300ms_apart", n), func(w *world) {
			first := w.set(Schedule{Name: "a", Spec: "@every 2s"})
			var processes []*process
			for range n {
				processes = append(processes, w.start(Config{}, nil))
				time.Sleep(300 * time.Millisecond)
			}
			w.sleepUntil(first+298, 1500*time.Millisecond)
			w.wantFired("a", every(first, 2, 150))
			w.stop(processes...)
		})
	}

	bubble(t, "S5_all_of_them_tick_at_once", func(w *world) {
		// Leadership only spares work: with a lock that lets everybody in, each boundary is still fired once.
		first := w.set(Schedule{Name: "a", Spec: "@every 1s"})
		var processes []*process
		var stores []*faulty
		for range 4 {
			store := newFaulty(everybodyLeads{w.store})
			store.delay = func() time.Duration { return 50 * time.Millisecond } // so that all have looked before one fires
			stores = append(stores, store)
			processes = append(processes, w.start(Config{}, store))
		}
		w.sleepUntil(first+99, 2*time.Second)
		w.stop(processes...)
		got := w.fired("a")
		if len(got) < 100 || !slices.Equal(got, every(first, 1, int64(len(got)))) {
			w.Errorf("got %d boundaries, want 100 or more, each once, without a gap: %v", len(got), got)
		}
		ticks := 0
		for _, s := range stores {
			n, _ := s.count("tick")
			ticks += n
		}
		if ticks < 2*len(got) {
			w.Errorf("%d ticks for %d boundaries: too few at the same time for a test", ticks, len(got))
		}
	})

	bubble(t, "K75_leadership_flaps_each_second", func(w *world) {
		first := w.set(Schedule{Name: "a", Spec: "@every 2s"})
		owners := []string{"one", "two", "three"}
		var processes []*process
		for _, owner := range owners {
			c := Config{Owner: owner, LeaseTTL: time.Second, Poll: 200 * time.Millisecond}
			processes = append(processes, w.start(c, nil))
			time.Sleep(300 * time.Millisecond)
		}
		for i := range 300 {
			for _, owner := range owners {
				if err := w.store.Resign(w.Context(), lockName, owner); err != nil {
					w.Fatal(err)
				}
			}
			if led, err := w.store.Lead(w.Context(), lockName, owners[i%3], 1); !led || err != nil {
				w.Fatal(led, err)
			}
			time.Sleep(time.Second)
		}
		w.stop(processes...)
		got := w.fired("a")
		if len(got) < 148 || !slices.Equal(got, every(first, 2, int64(len(got)))) {
			w.Errorf("got %d boundaries, want 148 or more, each once, without a gap: %v", len(got), got)
		}
	})

	bubble(t, "K77_different_schedules_of_two_services", func(w *world) {
		a := w.set(Schedule{Name: "of A", Spec: "@every 10s", Queue: "A"})
		serviceA := w.start(Config{Owner: "A"}, nil)
		b := w.set(Schedule{Name: "of B", Spec: "@every 15s", Queue: "B"})
		serviceB := w.start(Config{Owner: "B"}, nil)
		w.sleepUntil(a+50, 2*time.Second)
		w.stop(serviceA)
		w.sleepUntil(a+110, 2*time.Second)
		serviceA = w.start(Config{Owner: "A"}, nil)
		w.stop(serviceB)
		w.sleepUntil(a+170, 2*time.Second)
		w.wantFired("of A", every(a, 10, 18))
		w.wantFired("of B", every(b, 15, 12))
		w.stop(serviceA)
	})

	bubble(t, "K79_every_second_for_ten_minutes_under_load", func(w *world) {
		first := w.set(Schedule{Name: "a", Spec: "@every 1s"})
		var processes []*process
		for i := range uint64(3) {
			store := newFaulty(w.store)
			random := rand.New(rand.NewPCG(79, i))
			store.delay = func() time.Duration { return time.Duration(random.Int64N(int64(400 * time.Millisecond))) }
			processes = append(processes, w.start(Config{}, store))
		}
		w.sleepUntil(first+599, 5*time.Second)
		w.stop(processes...)
		got := w.fired("a")
		if len(got) < 600 || !slices.Equal(got, every(first, 1, int64(len(got)))) {
			w.Errorf("got %d boundaries, want 600 or more, each once, without a gap: %v", len(got), got)
		}
	})

	bubble(t, "S6_a_leader_that_stops_hands_over_at_once", func(w *world) {
		first := w.set(Schedule{Name: "a", Spec: "@every 10s"})
		leader := w.start(Config{LeaseTTL: time.Hour}, nil)
		w.sleepUntil(first, 1500*time.Millisecond)
		other := w.start(Config{LeaseTTL: time.Hour}, nil)
		w.stop(leader)
		w.sleepUntil(first+10, time.Second)
		synctest.Wait()
		w.wantFired("a", every(first, 10, 2))
		w.stop(other)
	})

	bubble(t, "S6_a_lock_that_somebody_holds_is_waited_for", func(w *world) {
		first := w.set(Schedule{Name: "a", Spec: "@every 10s"})
		if led, err := w.store.Lead(w.Context(), lockName, "somebody", 60); !led || err != nil {
			w.Fatal(led, err)
		}
		store := newFaulty(w.store)
		p := w.start(Config{}, store)
		time.Sleep(60 * time.Second)
		if ticks, _ := store.count("tick"); ticks != 0 || len(w.fired("a")) != 0 {
			w.Errorf("%d ticks without leadership", ticks)
		}
		time.Sleep(3 * time.Second)
		w.wantFired("a", every(first, 10, 6))
		w.stop(p)
	})

	bubble(t, "S6_a_leader_that_cannot_renew_does_not_fire", func(w *world) {
		first := w.set(Schedule{Name: "a", Spec: "@every 10s"})
		store := newFaulty(w.store)
		leader := w.start(Config{}, store)
		w.sleepUntil(first, 1500*time.Millisecond)
		w.wantFired("a", []int64{first})
		before, _ := store.count("tick")
		store.inject(allOf(sqlstore.ErrUnavailable, "lead"), nil)
		time.Sleep(time.Minute)
		if ticks, _ := store.count("tick"); ticks != before {
			w.Errorf("%d ticks without leadership", ticks-before)
		}
		if _, faults := store.count("lead"); faults == 0 {
			w.Error("no fault was injected")
		}
		other := w.start(Config{}, nil)
		time.Sleep(2 * time.Second)
		w.wantFired("a", every(first, 10, 7))
		w.stop(leader, other)
	})
}

// everybodyLeads is a lock that does not lock.
type everybodyLeads struct{ sqlstore.Store }

func (e everybodyLeads) Lead(ctx context.Context, lock, owner string, ttlS int64) (bool, error) {
	if _, err := e.Store.Lead(ctx, lock, owner, ttlS); err != nil {
		return false, err
	}
	return true, nil
}

// errKilled is what a process sees of its store after its death: it can do nothing any more, not even resign.
var errKilled = errors.New("killed")

func TestLeaderDies(t *testing.T) {
	t.Parallel()
	const interval, ttl = 10, 2
	// How the leader ends. The last three die in the middle of firing, at whatever moment it happens.
	ends := map[string]func(w *world, p *process, store *faulty){
		"TERM": func(w *world, p *process, _ *faulty) { w.stop(p) },
		"killed": func(w *world, p *process, store *faulty) {
			store.inject(func(string) error { return errKilled }, nil)
			p.cancel()
			<-p.done
		},
		"killed_before_it_leads":      killedAt("lead", false),
		"killed_after_it_leads":       killedAt("lead", true),
		"killed_before_the_commit":    killedAt("tick", false),
		"killed_after_the_commit":     killedAt("tick", true),
		"killed_while_it_looks_again": killedAt("soonest", true),
	}
	for name, end := range ends {
		bubble(t, "K73_"+name, func(w *world) {
			next := w.set(Schedule{Name: "a", Spec: "@every 10s"})
			first := next
			for i := range 100 { // from 2 s before to 2 s after the boundary
				store := newFaulty(w.store)
				leader := w.start(Config{LeaseTTL: ttl * time.Second}, store)
				w.sleepUntil(next, 3*time.Second)
				next += interval
				standby := w.start(Config{LeaseTTL: ttl * time.Second}, nil)
				w.sleepUntil(next, time.Duration(i-50)*40*time.Millisecond)
				end(w, leader, store)
				w.sleepUntil(next, (2+ttl+2)*time.Second) // the latest death, the lapse of the lock, a poll
				synctest.Wait()
				w.stop(standby)
				w.wantFired("a", every(first, interval, int64(2*(i+1))))
				if w.Failed() {
					w.Fatalf("loop %d", i)
				}
				next += interval
			}
		})
	}
}

// killedAt arms the store so that the process dies in that call, before or after the call has done its work, unless
// another process fires first.
func killedAt(op string, after bool) func(*world, *process, *faulty) {
	return func(w *world, p *process, store *faulty) {
		dead := false
		die := func(got string) error {
			if dead = dead || got == op; dead {
				return errKilled
			}
			return nil
		}
		before := func(string) error {
			if dead {
				return errKilled
			}
			return nil
		}
		if after {
			store.inject(before, die)
		} else {
			store.inject(die, nil)
		}
		time.Sleep(2 * time.Second)
		store.inject(func(string) error { return errKilled }, nil)
		p.cancel()
		<-p.done
	}
}
