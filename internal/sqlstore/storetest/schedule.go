package storetest

import (
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

func scheduleRules() []rule {
	return []rule{
		{name: "S1_a_schedule_is_stored_as_given", test: scheduleStored},
		{name: "S1_change_sees_the_stored_schedule_and_the_clock", test: registerSees},
		{name: "S1_change_may_leave_things_as_they_are", test: registerLeaves},
		{name: "S1_an_error_of_change_stores_nothing", test: registerFails},
		{name: "S1_registering_at_once_loses_no_change", test: registerConcurrently},
		{name: "S1_schedules_are_listed_by_name", test: schedulesListed},
		{name: "S1_a_removed_schedule_leaves_its_jobs", test: unregister},
		{name: "S1_soonest_is_the_next_of_those_not_paused", test: soonest},
		{name: "S3_the_time_of_first_registration_is_kept", test: createdAtKept},
		{name: "S7_fire_now_makes_one_job_for_this_moment", test: fireNow},
		{name: "S7_fire_now_can_be_refused", test: fireNowRefused},
		{name: "S7_schedule_and_boundary_stay_with_the_job", test: scheduleStays},
	}
}

// newSchedule is a schedule that is due a minute from now.
func newSchedule(queue string, now int64) sqlstore.Schedule {
	return sqlstore.Schedule{
		Queue:      queue,
		Spec:       "@every 1m",
		Payload:    []byte("tick\x00\xff"),
		CatchUp:    5,
		NextFireAt: now + 60,
		Fire: sqlstore.FireOptions{
			Priority: 6,
			ExpiresS: new(int64(300)),
			Stamps: sqlstore.Stamps{
				VisibilityTimeoutS: 21, MaxAttempts: 3, BackoffBaseS: 8, DeadLetterRetentionS: new(int64(900)),
			},
		},
	}
}

// register stores a schedule that is built from newSchedule.
func (e *env) register(name, queue string, edit ...func(s *sqlstore.Schedule)) {
	e.Helper()
	e.ok(e.store.Register(e.Context(), name, func(now int64, _ *sqlstore.Schedule) (*sqlstore.Schedule, error) {
		s := newSchedule(queue, now)
		for _, f := range edit {
			f(&s)
		}
		return &s, nil
	}))
}

func (e *env) schedules() []sqlstore.Schedule {
	e.Helper()
	all, err := e.store.ListSchedules(e.Context())
	e.ok(err)
	return all
}

// schedule returns one that must be there.
func (e *env) schedule(name string) sqlstore.Schedule {
	e.Helper()
	for _, s := range e.schedules() {
		if s.Name == name {
			return s
		}
	}
	e.Fatalf("schedule %q is not there", name)
	return sqlstore.Schedule{}
}

func scheduleStored(e *env) {
	same(e, "schedules of an empty database", len(e.schedules()), 0)
	full := newSchedule("mail", e.now())
	full.Anchor = new(int64(1_600_000_000))
	full.Paused = true
	bare := sqlstore.Schedule{Queue: "mail", Spec: "anything: the store does not read it", Payload: []byte{}}
	for name, want := range map[string]sqlstore.Schedule{"full": full, "bare": bare} {
		e.ok(e.store.Register(e.Context(), name, func(int64, *sqlstore.Schedule) (*sqlstore.Schedule, error) {
			s := want
			s.Name = "another name"
			s.CreatedAt = 12 // neither of these is the caller's to choose
			return &s, nil
		}))
		want.Name = name
		want.CreatedAt = e.now()
		same(e, "schedule", e.schedule(name), want)
	}
	e.register("no payload", "mail", func(s *sqlstore.Schedule) { s.Payload = nil })
	same(e, "payload of a schedule without one", len(e.schedule("no payload").Payload), 0)
	for _, name := range oddNames() {
		e.register(name, name, func(s *sqlstore.Schedule) { s.Spec = name })
		s := e.schedule(name)
		same(e, "name, queue and spec", []string{s.Name, s.Queue, s.Spec}, []string{name, name, name})
	}
}

func registerSees(e *env) {
	calls := 0
	register := func(want *sqlstore.Schedule, to *sqlstore.Schedule) {
		e.Helper()
		e.ok(e.store.Register(e.Context(), "nightly",
			func(now int64, have *sqlstore.Schedule) (*sqlstore.Schedule, error) {
				calls++
				same(e, "clock", now, e.now())
				same(e, "schedule before", have, want)
				return to, nil
			}))
	}
	first := newSchedule("mail", e.now())
	register(nil, &first)
	first.Name, first.CreatedAt = "nightly", e.now()
	e.advance(9)
	second := newSchedule("other", e.now())
	second.Spec, second.Paused, second.Fire.ExpiresS, second.Fire.Stamps.DeadLetterRetentionS = "@every 2m", true, nil, nil
	register(&first, &second)
	second.Name, second.CreatedAt = "nightly", first.CreatedAt
	same(e, "schedule after a change", e.schedule("nightly"), second)
	third := sqlstore.Schedule{
		Queue: "third", Spec: "@every 3m", Payload: []byte("tock"),
		Anchor: new(int64(5)), CatchUp: 9, NextFireAt: e.now() + 3,
		Fire: sqlstore.FireOptions{
			Priority: -2,
			ExpiresS: new(int64(301)),
			Stamps: sqlstore.Stamps{
				VisibilityTimeoutS: 22, MaxAttempts: 4, BackoffBaseS: 9, DeadLetterRetentionS: new(int64(901)),
			},
		},
	}
	register(&second, &third)
	third.Name, third.CreatedAt = "nightly", first.CreatedAt
	same(e, "schedule after a change of everything", e.schedule("nightly"), third)
	register(&third, nil)
	same(e, "calls of change", calls, 4)
}

func registerLeaves(e *env) {
	e.ok(e.store.Register(e.Context(), "none", func(int64, *sqlstore.Schedule) (*sqlstore.Schedule, error) {
		return nil, nil
	}))
	same(e, "schedules", len(e.schedules()), 0)
	e.register("nightly", "mail", func(s *sqlstore.Schedule) { s.Anchor = new(int64(7)) })
	want := newSchedule("mail", e.now())
	want.Name, want.CreatedAt, want.Anchor = "nightly", e.now(), new(int64(7))
	e.advance(5)
	e.ok(e.store.Register(e.Context(), "nightly",
		func(_ int64, have *sqlstore.Schedule) (*sqlstore.Schedule, error) {
			have.Queue = "scribbled on"
			have.Payload[0] = 'X'
			*have.Anchor = 8
			*have.Fire.ExpiresS = 1
			return nil, nil
		}))
	same(e, "schedule", e.schedule("nightly"), want)
}

func registerFails(e *env) {
	refused := errors.New("refused")
	e.register("nightly", "mail")
	want := e.schedules()
	for _, name := range []string{"nightly", "unknown"} {
		err := e.store.Register(e.Context(), name, func(now int64, _ *sqlstore.Schedule) (*sqlstore.Schedule, error) {
			return new(newSchedule("other", now)), refused
		})
		if typed, ok := errors.AsType[*sqlstore.Error](err); !errors.Is(err, refused) || !ok || typed.Op == "" {
			e.Errorf("Register: got %v, want the error of change and the operation", err)
		}
	}
	same(e, "schedules", e.schedules(), want)
}

func registerConcurrently(e *env) {
	const each = 10
	var group errgroup.Group
	for _, s := range e.handles(4) {
		group.Go(func() error {
			for range each {
				err := s.Register(e.Context(), "counter",
					func(now int64, have *sqlstore.Schedule) (*sqlstore.Schedule, error) {
						if have == nil {
							have = new(newSchedule("mail", now))
							have.CatchUp = 0
						}
						have.CatchUp++
						return have, nil
					})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	e.ok(group.Wait())
	same(e, "changes", e.schedule("counter").CatchUp, 4*each)
}

func schedulesListed(e *env) {
	for _, name := range []string{"b", "a10", "B", "a", "a2", "é", "10", "~"} {
		e.register(name, "mail")
	}
	var names []string
	for _, s := range e.schedules() {
		names = append(names, s.Name)
	}
	same(e, "names", names, []string{"10", "B", "a", "a10", "a2", "b", "~", "é"})
}

func unregister(e *env) {
	e.register("nightly", "mail")
	e.register("other", "mail")
	id, ok, err := e.store.FireNow(e.Context(), "nightly", anySchedule)
	e.ok(err)
	same(e, "fire", ok, true)
	for _, want := range []bool{true, false} {
		removed, err := e.store.Unregister(e.Context(), "nightly")
		e.ok(err)
		same(e, "unregister", removed, want)
	}
	same(e, "schedules left", len(e.schedules()), 1)
	e.states(sqlstore.Pending, id)
	same(e, "schedule of the job", e.get(id).Schedule, "nightly")
	_, ok, err = e.store.FireNow(e.Context(), "nightly", anySchedule)
	e.ok(err)
	same(e, "fire of a removed schedule", ok, false)
	e.advance(5)
	e.register("nightly", "mail")
	same(e, "creation of a new one of the same name", e.schedule("nightly").CreatedAt, e.now())
}

func soonest(e *env) {
	want := func(next *int64) {
		e.Helper()
		for _, s := range e.handles(2) {
			now, got, err := s.Soonest(e.Context())
			e.ok(err)
			same(e, "clock", now, e.now())
			same(e, "soonest", got, next)
		}
	}
	at := func(t int64, paused bool) func(s *sqlstore.Schedule) {
		return func(s *sqlstore.Schedule) { s.NextFireAt, s.Paused = t, paused }
	}
	want(nil)
	e.register("a", "mail", at(500, true))
	want(nil)
	e.register("b", "mail", at(900, false))
	want(new(int64(900)))
	e.register("c", "mail", at(700, false))
	want(new(int64(700)))
	e.register("a", "mail", at(500, false))
	want(new(int64(500)))
	e.register("c", "mail", at(-700, false))
	want(new(int64(-700)))
	_, err := e.store.Unregister(e.Context(), "c")
	e.ok(err)
	e.register("a", "mail", at(500, true))
	want(new(int64(900)))
}

func createdAtKept(e *env) {
	e.register("nightly", "mail")
	created := e.now()
	for range 3 {
		e.advance(100)
		e.register("nightly", "mail", func(s *sqlstore.Schedule) { s.CreatedAt = e.now() })
		same(e, "time of first registration", e.schedule("nightly").CreatedAt, created)
	}
}

// anySchedule is a check of FireNow.
func anySchedule(sqlstore.Schedule) error { return nil }

func fireNowRefused(e *env) {
	e.register("nightly", "mail")
	refused := errors.New("refused")
	want := e.schedule("nightly")
	_, ok, err := e.store.FireNow(e.Context(), "nightly", func(s sqlstore.Schedule) error {
		same(e, "asked about", s, want)
		return refused
	})
	if ok || !errors.Is(err, refused) {
		e.Errorf("fire that was refused: got %t, %v", ok, err)
	}
	same(e, "jobs", len(e.list(sqlstore.Filter{Limit: 9})), 0)
}

func fireNow(e *env) {
	for i, paused := range []bool{false, true} {
		name, queue := fmt.Sprint("s", i), fmt.Sprint("q", i)
		e.register(name, queue, func(s *sqlstore.Schedule) { s.Paused = paused })
		want := e.schedule(name)
		e.advance(11)
		id, ok, err := e.store.FireNow(e.Context(), name, anySchedule)
		e.ok(err)
		same(e, "fire", ok, true)
		same(e, "job", e.get(id), firedJob(id, want, e.now(), e.now()))
		same(e, "schedule", e.schedule(name), want)
		same(e, "claimed at once", e.claimOne(queue).ID, id)
	}
}

// firedJob is what a schedule's job for one boundary looks like when it is new.
func firedJob(id int64, s sqlstore.Schedule, now, boundary int64) sqlstore.Row {
	return sqlstore.Row{
		ID: id, Queue: s.Queue, State: sqlstore.Pending, Payload: s.Payload, PayloadSize: int64(len(s.Payload)),
		Priority: s.Fire.Priority, Stamps: s.Fire.Stamps, CreatedAt: now, RunAt: now,
		ExpiresAt: new(now + *s.Fire.ExpiresS), Schedule: s.Name, ScheduledFor: &boundary,
	}
}

func scheduleStays(e *env) {
	e.register("nightly", "mail")
	id, _, err := e.store.FireNow(e.Context(), "nightly", anySchedule)
	e.ok(err)
	boundary := e.now()
	e.advance(3)
	check := func(r sqlstore.Row) {
		e.Helper()
		same(e, "schedule", r.Schedule, "nightly")
		same(e, "boundary", r.ScheduledFor, &boundary)
	}
	r := e.claimOne("mail")
	check(r)
	e.retry(sqlstore.Retrial{Handle: handle(r)})
	check(e.get(id))
	e.fail(handle(e.claimOne("mail")))
	check(e.get(id))
	check(e.list(sqlstore.Filter{Limit: 1})[0])
	e.requeue(id)
	check(e.get(id))
}
