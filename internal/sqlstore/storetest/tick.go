package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

func tickRules() []rule {
	rules := []rule{
		{name: "S5_only_what_is_due_fires", test: tickDue},
		{name: "S5_a_tick_makes_one_job_for_each_boundary", test: tickJobs},
		{name: "S5_the_longest_due_fires_first", test: tickOrder},
		{name: "S5_plan_sees_the_schedule_and_the_clock", test: planSees},
		{name: "S2_an_error_of_plan_leaves_the_others_firing", test: planFails},
		{name: "S1_a_paused_schedule_does_not_fire", test: tickPaused},
		{name: "S5_two_tickers_never_fire_a_boundary_twice", test: tickersAtOnce},
		{name: "S5_a_tick_loses_no_change_made_at_the_same_time", test: tickAgainstRegister},
		{name: "S3_a_late_tick_does_not_move_the_grid", test: tickLate},
	}
	for _, n := range []int64{0, 1, 2, 63, 64, 65, 100_000} {
		rules = append(rules, rule{
			name: fmt.Sprintf("S5_%d_missed_boundaries", n),
			test: func(e *env) { tickMissed(e, n) },
		})
	}
	return append(rules, rule{name: "S5_more_than_64_boundaries_are_refused", test: tooManyBoundaries})
}

// grid is the plan of a schedule with a fixed interval: the missed boundaries, oldest first, as many as limit.
func grid(every, limit int64) func(now int64, due sqlstore.Schedule) (sqlstore.Plan, error) {
	return func(now int64, due sqlstore.Schedule) (sqlstore.Plan, error) {
		p := sqlstore.Plan{NextFireAt: due.NextFireAt + every*((now-due.NextFireAt)/every+1)}
		for at := due.NextFireAt; at <= now && int64(len(p.Boundaries)) < limit; at += every {
			p.Boundaries = append(p.Boundaries, at)
		}
		return p, nil
	}
}

func everyMinute(now int64, due sqlstore.Schedule) (sqlstore.Plan, error) {
	return grid(60, sqlstore.MaxCatchUpFires)(now, due)
}

func (e *env) tick() []sqlstore.Ticked {
	e.Helper()
	ticked, err := e.store.Tick(e.Context(), everyMinute)
	e.ok(err)
	return ticked
}

func tickDue(e *env) {
	same(e, "tick without schedules", len(e.tick()), 0)
	e.register("nightly", "mail")
	next := e.schedule("nightly").NextFireAt
	e.h.Clock.Set(next - 1)
	same(e, "tick one second early", len(e.tick()), 0)
	same(e, "next", e.schedule("nightly").NextFireAt, next)
	e.advance(1)
	same(e, "tick on time", len(e.tick()), 1)
	same(e, "next", e.schedule("nightly").NextFireAt, next+60)
	same(e, "tick again in the same second", len(e.tick()), 0)
	same(e, "jobs", len(e.everything()), 1)
}

func tickJobs(e *env) {
	e.register("nightly", "mail")
	before := e.schedule("nightly")
	e.advance(60 + 3*60 + 7) // four boundaries, the newest seven seconds ago
	ticked := e.tick()
	same(e, "ticked schedules", len(ticked), 1)
	got := ticked[0]
	if got.Err != nil || got.Name != "nightly" || got.Queue != "mail" || len(got.IDs) != 4 {
		e.Fatalf("ticked: got %+v, want four jobs of nightly on mail", got)
	}
	for i, id := range got.IDs {
		same(e, "job", e.get(id), firedJob(id, before, e.now(), before.NextFireAt+60*int64(i)))
	}
	after := before
	after.NextFireAt += 4 * 60
	same(e, "schedule", e.schedule("nightly"), after)
	same(e, "claim order, oldest boundary first", rowIDs(e.claim("mail", 10)), got.IDs)
}

func tickOrder(e *env) {
	for name, delay := range map[string]int64{"c": 5, "a": 9, "d": 5, "b": 1, "z": 0} {
		e.register(name, "mail", func(s *sqlstore.Schedule) { s.NextFireAt = e.now() + delay })
	}
	e.advance(9)
	var planned, names []string
	ticked, err := e.store.Tick(e.Context(), func(now int64, due sqlstore.Schedule) (sqlstore.Plan, error) {
		planned = append(planned, due.Name)
		return sqlstore.Plan{Boundaries: []int64{due.NextFireAt}, NextFireAt: now + 1}, nil
	})
	e.ok(err)
	for _, tk := range ticked {
		names = append(names, tk.Name)
	}
	want := []string{"z", "b", "c", "d", "a"}
	same(e, "planned", planned, want)
	same(e, "ticked", names, want)
}

func planSees(e *env) {
	e.register("nightly", "mail", func(s *sqlstore.Schedule) { s.Anchor = new(int64(11)) })
	want := newSchedule("mail", e.now())
	want.Name, want.CreatedAt, want.Anchor = "nightly", e.now(), new(int64(11))
	e.advance(100)
	ticked, err := e.store.Tick(e.Context(), func(now int64, due sqlstore.Schedule) (sqlstore.Plan, error) {
		same(e, "clock", now, e.now())
		same(e, "schedule", due, want)
		due.Queue = "scribbled on"
		due.Payload[0] = 'X'
		*due.Fire.ExpiresS = 1
		*due.Anchor = 12
		return sqlstore.Plan{NextFireAt: now + 5}, nil // no boundary at all: it only moves on
	})
	e.ok(err)
	same(e, "ticked", []any{ticked[0].Name, ticked[0].Queue, len(ticked[0].IDs), ticked[0].Err},
		[]any{"nightly", "mail", 0, error(nil)})
	want.NextFireAt = e.now() + 5
	same(e, "schedule after the tick", e.schedule("nightly"), want)
	same(e, "jobs", len(e.everything()), 0)
}

func planFails(e *env) {
	bad := errors.New("not the grammar")
	for i, name := range []string{"first", "bad", "last"} {
		e.register(name, "queue of "+name, func(s *sqlstore.Schedule) { s.NextFireAt = e.now() + int64(i) })
	}
	before := e.schedule("bad")
	e.advance(10)
	plan := func(now int64, due sqlstore.Schedule) (sqlstore.Plan, error) {
		p, _ := everyMinute(now, due)
		if due.Name == "bad" {
			return p, bad
		}
		return p, nil
	}
	ticked, err := e.store.Tick(e.Context(), plan)
	e.ok(err)
	same(e, "ticked schedules", len(ticked), 3)
	for _, tk := range ticked {
		if tk.Queue != "queue of "+tk.Name {
			e.Errorf("queue of %q: got %q", tk.Name, tk.Queue)
		}
		if tk.Name != "bad" {
			if tk.Err != nil || len(tk.IDs) != 1 {
				e.Errorf("good schedule beside a bad one: got %+v, want one job", tk)
			}
			continue
		}
		if !errors.Is(tk.Err, bad) || len(tk.IDs) != 0 {
			e.Errorf("bad schedule: got %+v, want the error of plan and no job", tk)
		}
	}
	same(e, "bad schedule", e.schedule("bad"), before)
	same(e, "jobs", len(e.everything()), 2)
	ticked = e.tick() // once it is repaired, it fires for what it has missed
	same(e, "ticked schedules", len(ticked), 1)
	same(e, "boundary", *e.get(ticked[0].IDs[0]).ScheduledFor, before.NextFireAt)
}

func tickPaused(e *env) {
	e.register("running", "mail")
	e.register("paused", "mail", func(s *sqlstore.Schedule) { s.Paused = true })
	before := e.schedule("paused")
	e.advance(1000)
	ticked := e.tick()
	same(e, "ticked schedules", len(ticked), 1)
	same(e, "which", ticked[0].Name, "running")
	same(e, "paused schedule", e.schedule("paused"), before)
}

func tickMissed(e *env, n int64) {
	e.register("nightly", "mail")
	first := e.schedule("nightly").NextFireAt
	e.h.Clock.Set(first + 60*(n-1) + 59) // the last second before one boundary more
	ticked := e.tick()
	fired := min(n, sqlstore.MaxCatchUpFires)
	if n == 0 {
		same(e, "ticked schedules", len(ticked), 0)
		return
	}
	same(e, "jobs", int64(len(ticked[0].IDs)), fired)
	for i, id := range ticked[0].IDs {
		same(e, "boundary", *e.get(id).ScheduledFor, first+60*int64(i))
		if i > 0 && id <= ticked[0].IDs[i-1] {
			e.Errorf("job of a later boundary has id %d after %d", id, ticked[0].IDs[i-1])
		}
	}
	same(e, "next", e.schedule("nightly").NextFireAt, first+60*n)
	same(e, "tick again", len(e.tick()), 0)
}

func tooManyBoundaries(e *env) {
	e.register("greedy", "mail")
	e.register("modest", "mail")
	before := e.schedule("greedy")
	e.h.Clock.Set(before.NextFireAt + 60*64)
	plan := func(now int64, due sqlstore.Schedule) (sqlstore.Plan, error) {
		limit := int64(sqlstore.MaxCatchUpFires)
		if due.Name == "greedy" {
			limit++
		}
		return grid(60, limit)(now, due)
	}
	for range 2 {
		ticked, err := e.store.Tick(e.Context(), plan)
		e.ok(err)
		i := slices.IndexFunc(ticked, func(tk sqlstore.Ticked) bool { return tk.Name == "greedy" })
		if i < 0 || ticked[i].Err == nil || len(ticked[i].IDs) != 0 {
			e.Fatalf("schedule with 65 boundaries: got %+v, want an error and no job", ticked)
		}
	}
	same(e, "schedule", e.schedule("greedy"), before)
	same(e, "jobs, all of the other one", len(e.everything()), sqlstore.MaxCatchUpFires)
}

func tickersAtOnce(e *env) {
	const rounds, schedules = 15, 3
	for i := range schedules {
		e.register(fmt.Sprint("s", i), fmt.Sprint("q", i))
	}
	start := e.schedule("s0").NextFireAt
	for round := range int64(rounds) {
		e.h.Clock.Set(start + 120*round + 60) // two boundaries a round
		var group errgroup.Group
		begin := make(chan struct{})
		for _, s := range e.handles(3) {
			group.Go(func() error {
				<-begin
				ticked, err := s.Tick(e.Context(), everyMinute)
				for _, tk := range ticked {
					err = errors.Join(err, tk.Err)
				}
				return err
			})
		}
		close(begin)
		e.ok(group.Wait())
	}
	fired := make(map[string]int)
	for _, r := range listAll(e.T, e.store) {
		fired[fmt.Sprint(r.Schedule, " ", *r.ScheduledFor)]++
	}
	for i := range schedules {
		for k := range int64(2 * rounds) {
			boundary := fmt.Sprint("s", i, " ", start+60*k)
			if fired[boundary] != 1 {
				e.Errorf("boundary %s: got %d jobs, want 1", boundary, fired[boundary])
			}
			delete(fired, boundary)
		}
	}
	same(e, "jobs for anything else", len(fired), 0)
}

// tickAgainstRegister counts changes in one field of a schedule while it fires.
func tickAgainstRegister(e *env) {
	const changes = 20
	e.register("nightly", "mail", func(s *sqlstore.Schedule) { s.CatchUp, s.NextFireAt = 0, e.now() })
	first := e.now()
	stores := e.handles(2)
	e.together(
		func(ctx context.Context) error {
			for range changes {
				err := stores[0].Register(ctx, "nightly",
					func(_ int64, have *sqlstore.Schedule) (*sqlstore.Schedule, error) {
						have.CatchUp++
						return have, nil
					})
				if err != nil {
					return err
				}
			}
			return nil
		},
		func(ctx context.Context) error {
			for range changes {
				if err := second(stores[1].Tick(ctx, everyMinute)); err != nil {
					return err
				}
				e.advance(60)
			}
			return nil
		},
	)
	s := e.schedule("nightly")
	same(e, "changes and next boundary", []int64{s.CatchUp, s.NextFireAt}, []int64{changes, first + 60*changes})
	same(e, "jobs", len(e.everything()), changes)
}

func tickLate(e *env) {
	e.register("nightly", "mail")
	first := e.schedule("nightly").NextFireAt
	e.h.Clock.Set(first)
	seen := make(map[int64]bool)
	for _, late := range []int64{0, 59, 1, 30, 61, 17, 180, 59, 0} {
		e.advance(late)
		for _, tk := range e.tick() {
			for _, id := range tk.IDs {
				seen[*e.get(id).ScheduledFor] = true
			}
		}
	}
	for at := first; at <= e.now(); at += 60 {
		if !seen[at] {
			e.Errorf("boundary %d of the grid was not fired", at)
		}
		delete(seen, at)
	}
	same(e, "boundaries off the grid", len(seen), 0)
}
