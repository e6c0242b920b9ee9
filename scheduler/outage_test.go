package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/queue"
)

func TestOutage(t *testing.T) {
	t.Parallel()

	for _, op := range []string{"soonest", "lead", "tick"} {
		for _, cause := range []error{sqlstore.ErrBusy, sqlstore.ErrFull, sqlstore.ErrUnavailable} {
			bubble(t, fmt.Sprintf("K11_%s_fails_for_a_while_with_%v", op, cause), func(w *world) {
				const n = 7
				first := w.set(Schedule{Name: "a", Spec: "@every 10s"})
				store := newFaulty(w.store)
				store.inject(firstOf(n, cause, op), nil)
				p := w.start(Config{}, store)
				time.Sleep(2 * time.Minute)
				w.stop(p)
				if _, faults := store.count(op); faults != n {
					w.Errorf("%d faults reached the scheduler, want %d", faults, n)
				}
				down, up := w.log.lines("level=WARN", cause.Error()), w.log.lines("level=INFO", "works again")
				if len(down) != 1 || len(up) != 1 || len(w.log.lines()) != 2 {
					w.Errorf("want one line at each end of the outage, got %v", w.log.lines())
				}
				got := w.fired("a")
				if len(got) < 11 || !slices.Equal(got, every(first, 10, int64(len(got)))) {
					w.Errorf("got %v, want all boundaries, each once", got)
				}
			})
		}
	}

	bubble(t, "K38_ten_minutes_without_a_database", func(w *world) {
		first := w.set(Schedule{Name: "a", Spec: "@every 10s"})
		store := newFaulty(w.store)
		p := w.start(Config{}, store)
		w.sleepUntil(first, 1500*time.Millisecond)
		store.inject(allOf(sqlstore.ErrUnavailable, "soonest", "lead", "tick", "resign", "list"), nil)
		time.Sleep(10 * time.Minute)
		store.inject(nil, nil)
		time.Sleep(7 * time.Second) // the longest wait between two tries is 5 s and its jitter
		synctest.Wait()
		got := w.fired("a")
		if len(got) < 61 || !slices.Equal(got, every(first, 10, int64(len(got)))) {
			w.Errorf("got %v, want all boundaries", got)
		}
		if _, faults := store.count("soonest"); faults < 60 || faults > 250 {
			w.Errorf("%d tries in ten minutes, want one every few seconds", faults)
		}
		if lines := w.log.lines(); len(lines) != 2 {
			w.Errorf("want a line at each end of the outage, got %v", lines)
		}

		// The next outage is logged anew.
		store.inject(firstOf(1, sqlstore.ErrBusy, "soonest"), nil)
		time.Sleep(3 * time.Second) // and begins with a short wait again
		if lines := w.log.lines(); len(lines) != 4 {
			w.Errorf("want a line at each end of each outage, got %v", lines)
		}
		w.stop(p)
	})

	for _, op := range []string{"soonest", "tick"} {
		bubble(t, "K76_the_first_"+op+"_after_the_election_fails", func(w *world) {
			const ttl = 10 * time.Second
			first := w.set(Schedule{Name: "a", Spec: "@every 1m"})
			store := newFaulty(w.store)
			elected := false
			store.inject(nil, func(got string) error {
				if elected && got == op {
					elected = false
					return sqlstore.ErrBusy
				}
				elected = elected || got == "lead"
				return nil
			})
			p := w.start(Config{LeaseTTL: ttl}, store)
			w.sleepUntil(first, 2*ttl)
			w.wantFired("a", []int64{first})
			if _, faults := store.count(op); faults != 1 {
				w.Errorf("%d faults reached the scheduler, want 1", faults)
			}
			w.sleepUntil(first+60, 2*time.Second)
			w.wantFired("a", every(first, 60, 2))
			w.stop(p)
		})
	}

	bubble(t, "K76_a_leader_that_can_do_nothing_steps_down", func(w *world) {
		// Its pool is used up for whatever fires, while a healthy process stands by.
		const ttl = 10 * time.Second
		first := w.set(Schedule{Name: "a", Spec: "@every 1m"})
		store := newFaulty(w.store)
		store.inject(allOf(sqlstore.ErrBusy, "tick"), nil)
		sick := w.start(Config{LeaseTTL: ttl}, store)
		time.Sleep(10 * time.Millisecond)
		well := w.start(Config{LeaseTTL: ttl}, nil)
		w.sleepUntil(first, 2*ttl)
		w.wantFired("a", []int64{first})
		if _, faults := store.count("tick"); faults == 0 {
			w.Error("the sick process never led: nothing was tested")
		}
		time.Sleep(10 * time.Minute)
		w.wantFired("a", every(first, 60, 11))
		w.stop(sick, well)
	})

	for _, op := range []string{"soonest", "lead", "tick"} {
		bubble(t, "T5_a_permanent_failure_of_"+op+"_is_returned", func(w *world) {
			w.set(Schedule{Name: "a", Spec: "@every 1s"})
			store := newFaulty(w.store)
			if op == "lead" { // it has taken the lock, but nobody can tell
				store.inject(nil, allOf(sqlstore.ErrCorrupt, op))
			} else {
				store.inject(allOf(sqlstore.ErrCorrupt, op), nil)
			}
			p := w.start(Config{}, store)
			err := <-p.done
			if e := new(queue.Error); !errors.Is(err, queue.ErrCorrupt) || !errors.As(err, &e) || e.Op != op {
				w.Errorf("got %v, want ErrCorrupt of %s", err, op)
			}
			if lines := w.log.lines(); len(lines) != 0 {
				w.Errorf("returned and logged as well: %v", lines)
			}
			// Whoever had the lock has given it up.
			if led, err := w.store.Lead(w.Context(), lockName, "other", 1); !led || err != nil {
				w.Errorf("the lock is still held: %v, %v", led, err)
			}
			p.cancel()
		})
	}

	bubble(t, "T5_a_permanent_failure_while_looking_past_a_broken_spec", func(w *world) {
		w.set(Schedule{Name: "a", Spec: "@every 1s"})
		w.edit("a", func(s *sqlstore.Schedule) { s.Spec = "" })
		store := newFaulty(w.store)
		store.inject(allOf(sqlstore.ErrCorrupt, "list"), nil)
		p := w.start(Config{}, store)
		if err := <-p.done; !errors.Is(err, queue.ErrCorrupt) {
			w.Errorf("got %v, want ErrCorrupt", err)
		}
		p.cancel()
	})

	bubble(t, "S6_a_lock_that_cannot_be_given_up_lapses", func(w *world) {
		first := w.set(Schedule{Name: "a", Spec: "@every 10s"})
		store := newFaulty(w.store)
		store.inject(allOf(sqlstore.ErrBusy, "resign"), nil)
		leader := w.start(Config{LeaseTTL: 5 * time.Second}, store)
		w.sleepUntil(first, 1500*time.Millisecond)
		w.stop(leader)
		if _, faults := store.count("resign"); faults != 1 {
			w.Errorf("%d faults reached the scheduler, want 1", faults)
		}
		other := w.start(Config{LeaseTTL: 5 * time.Second}, nil)
		w.sleepUntil(first+10, 2*time.Second)
		w.wantFired("a", every(first, 10, 2))
		w.stop(other)
	})
}
