package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/queue"
)

func TestRun(t *testing.T) {
	t.Parallel()

	bubble(t, "S1_what_another_process_does_is_noticed_within_a_second", func(w *world) {
		w.set(Schedule{Name: "far", Spec: "@every 1h"})
		p := w.start(Config{}, nil)
		time.Sleep(3300 * time.Millisecond)

		// Added while the leader sleeps.
		first := w.set(Schedule{Name: "a", Spec: "@every 1d", Anchor: time.Unix(w.now()+1, 0)})
		w.sleepUntil(first, time.Second)
		synctest.Wait()
		w.wantFired("a", []int64{first})

		// Changed.
		second := w.set(Schedule{Name: "a", Spec: "@every 2s", Anchor: time.Unix(first, 0)})
		w.sleepUntil(second, time.Second)
		synctest.Wait()
		w.wantFired("a", every(first, 2, 2))

		// Paused, resumed, removed.
		if _, err := Pause(w.Context(), w.client, "a"); err != nil {
			w.Fatal(err)
		}
		time.Sleep(time.Minute)
		w.wantFired("a", every(first, 2, 2))
		if _, err := Resume(w.Context(), w.client, "a"); err != nil {
			w.Fatal(err)
		}
		third := w.get("a").NextFireAt.Unix()
		w.sleepUntil(third, time.Second)
		synctest.Wait()
		w.wantFired("a", []int64{first, second, third})
		if _, err := Remove(w.Context(), w.client, "a"); err != nil {
			w.Fatal(err)
		}
		time.Sleep(time.Minute)
		w.wantFired("a", []int64{first, second, third})
		w.stop(p)
	})

	bubble(t, "S5_each_missed_boundary_is_one_job_up_to_the_cap", func(w *world) {
		all := w.set(Schedule{Name: "all", Spec: "@every 1m"})
		some := w.set(Schedule{Name: "some", Spec: "@every 1m", CatchUp: 3})
		time.Sleep(10*time.Minute + 30*time.Second)
		p := w.start(Config{}, nil)
		synctest.Wait()
		w.wantFired("all", every(all, 60, 10))
		w.wantFired("some", every(some, 60, 3))
		if lines := w.log.lines("level=INFO", "schedule=some", "fired=3", "skipped=7"); len(lines) != 1 {
			w.Errorf("want one line about 7 skipped, got %v", w.log.lines())
		}
		if lines := w.log.lines(); len(lines) != 1 {
			w.Errorf("want no other line, got %v", lines)
		}
		time.Sleep(time.Minute)
		w.wantFired("all", every(all, 60, 11))
		w.wantFired("some", append(every(some, 60, 3), some+600))
		w.stop(p)
	})

	bubble(t, "S7_a_job_carries_its_schedule_and_its_boundary", func(w *world) {
		stamps := queue.Options{
			VisibilityTimeout: time.Minute, MaxAttempts: 2, BackoffBase: time.Second, DeadLetterRetention: time.Hour,
		}
		first := w.set(Schedule{
			Name: "a", Spec: "@every 10s", Payload: []byte("p"), Priority: 9, Expires: time.Minute, Stamps: stamps,
		})
		p := w.start(Config{}, nil)
		w.sleepUntil(first, 2*time.Second)
		jobs, err := w.client.Claim(w.Context(), "q", "me", 10)
		if err != nil || len(jobs) != 1 {
			w.Fatal(jobs, err)
		}
		if j := jobs[0]; j.Schedule != "a" || j.ScheduledFor.Unix() != first || string(j.Payload) != "p" || j.Priority != 9 ||
			j.ExpiresAt.Sub(j.CreatedAt) != time.Minute || j.VisibilityTimeout != time.Minute || j.MaxAttempts != 2 ||
			j.BackoffBase != time.Second || j.DeadLetterRetention != time.Hour {
			w.Errorf("got %+v", j)
		}
		w.stop(p)
	})

	bubble(t, "K81_jobs_of_3s_do_not_make_a_schedule_of_10s_drift", func(w *world) {
		first := w.set(Schedule{Name: "a", Spec: "@every 10s"})
		p := w.start(Config{}, nil)
		var got []int64
		for w.now() < first+600 {
			jobs, err := w.client.Claim(w.Context(), "q", "me", 1)
			if err != nil {
				w.Fatal(err)
			}
			for _, j := range jobs {
				got = append(got, j.ScheduledFor.Unix())
				if late := w.now() - j.ScheduledFor.Unix(); late < 0 || late > 2 {
					w.Errorf("claimed %d s after its boundary", late)
				}
				time.Sleep(3 * time.Second)
				if _, err := w.client.Ack(w.Context(), j.Handle()); err != nil {
					w.Fatal(err)
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		if want := every(first, 10, 60); !slices.Equal(got, want) {
			w.Errorf("got %v, want %v", got, want)
		}
		w.stop(p)
	})

	bubble(t, "K82_every_second_after_a_day_down", func(w *world) {
		first := w.set(Schedule{Name: "a", Spec: "@every 1s"})
		time.Sleep(24 * time.Hour) // exactly 86,400 boundaries
		p := w.start(Config{}, nil)
		synctest.Wait()
		w.wantFired("a", every(first, 1, 64))
		if lines := w.log.lines("skipped=86336"); len(lines) != 1 {
			w.Errorf("want one line about 86336 skipped, got %v", w.log.lines())
		}
		time.Sleep(10500 * time.Millisecond)
		w.wantFired("a", append(every(first, 1, 64), every(first+86400, 1, 10)...))
		w.stop(p)
	})

	bubble(t, "K83_daylight_saving_changes_nothing", func(w *world) {
		berlin, err := time.LoadLocation("Europe/Berlin")
		if err != nil {
			w.Fatal(err)
		}
		w.offset = time.Date(2026, 3, 27, 12, 0, 0, 0, berlin).Unix() - time.Now().Unix()
		anchor := time.Date(2026, 3, 1, 3, 0, 0, 0, berlin) // 02:00 UTC
		first := w.set(Schedule{Name: "a", Spec: "@every 1d", Anchor: anchor})
		p := w.start(Config{}, nil)
		time.Sleep(5 * 24 * time.Hour)
		w.wantFired("a", every(first, 86400, 5))
		if got := time.Unix(first+4*86400, 0).In(berlin).Hour(); time.Unix(first, 0).In(berlin).Hour() != 3 || got != 4 {
			w.Errorf("the change of the clocks is not within the test: %d o'clock at the end", got)
		}
		w.stop(p)
	})

	bubble(t, "K84_the_end_of_the_year_9999", func(w *world) {
		w.offset = lastSecond - time.Now().Unix() - 3600
		next := w.set(Schedule{Name: "a", Spec: "@every 25m"})
		store := newFaulty(w.store)
		p := w.start(Config{}, store)
		time.Sleep(2 * time.Hour)
		// The boundary at 50 minutes has no successor; the schedule is left as it was.
		w.wantFired("a", []int64{next})
		if lines := w.log.lines("level=WARN", "schedule=a", "9999"); len(lines) != 1 || len(w.log.lines()) != 1 {
			w.Errorf("want one line that names it, got %v", w.log.lines())
		}
		if calls, _ := store.count("soonest"); calls > 7210 {
			w.Errorf("%d reads in two hours, want one a second", calls)
		}
		w.stop(p)
	})

	bubble(t, "S6_K95_an_idle_scheduler_writes_and_logs_nothing", func(w *world) {
		w.set(Schedule{Name: "far", Spec: "@every 1d"})
		w.set(Schedule{Name: "paused", Spec: "@every 1s"})
		if _, err := Pause(w.Context(), w.client, "paused"); err != nil {
			w.Fatal(err)
		}
		store := newFaulty(w.store)
		everything := slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		p := w.start(Config{Logger: everything}, store)
		time.Sleep(time.Hour)
		w.stop(p)
		for _, op := range []string{"lead", "tick", "resign", "list"} {
			if calls, _ := store.count(op); calls != 0 {
				w.Errorf("%d calls of %s, want none", calls, op)
			}
		}
		if calls, _ := store.count("soonest"); calls < 3590 || calls > 3610 {
			w.Errorf("%d reads in an hour, want one a second", calls)
		}
		if lines := w.log.lines(); len(lines) != 0 {
			w.Errorf("logged %v, want nothing", lines)
		}
	})
}

func TestBrokenSpec(t *testing.T) {
	t.Parallel()

	bubble(t, "S2_is_named_once_and_the_others_keep_firing", func(w *world) {
		w.set(Schedule{Name: "bad", Spec: "@every 7s", Queue: "bad queue"})
		a := w.set(Schedule{Name: "a", Spec: "@every 10s"})
		b := w.set(Schedule{Name: "b", Spec: "@every 15s"})
		w.edit("bad", func(s *sqlstore.Schedule) { s.Spec = "@every 1h30m" })
		store := newFaulty(w.store)
		p := w.start(Config{}, store)
		for n := int64(1); n <= 60; n++ {
			w.sleepUntil(a+(n-1)*10, 1100*time.Millisecond)
			synctest.Wait()
			w.wantFired("a", every(a, 10, n)) // punctual although something else is always due
		}
		w.wantFired("b", every(b, 15, 40))
		w.wantFired("bad", nil)
		lines := w.log.lines("level=WARN", "schedule=bad", `queue="bad queue"`, "@every 1h30m")
		if len(lines) != 1 || len(w.log.lines()) != 1 {
			w.Errorf("want one line that names schedule, queue and spec, got %v", w.log.lines())
		}
		if calls, _ := store.count("lead"); calls > 82 {
			w.Errorf("%d writes, want one a boundary", calls)
		}

		// Broken in another way: named again. Repaired: fires again. Broken again: named again.
		w.edit("bad", func(s *sqlstore.Schedule) { s.Spec = "@EVERY 5s" })
		time.Sleep(time.Minute)
		next := w.set(Schedule{Name: "bad", Spec: "@every 7s"})
		w.sleepUntil(next, 2*time.Second)
		w.wantFired("bad", []int64{next})
		w.edit("bad", func(s *sqlstore.Schedule) { s.Spec = "@every 1h30m" })
		time.Sleep(time.Minute)
		again, other := w.log.lines("@every 1h30m"), w.log.lines("@EVERY 5s")
		if len(again) != 2 || len(other) != 1 || len(w.log.lines()) != 3 {
			w.Errorf("got %v", w.log.lines())
		}
		w.stop(p)
	})

	bubble(t, "S2_alone_leaves_the_fleet_idle", func(w *world) {
		w.set(Schedule{Name: "bad", Spec: "@every 7s"})
		w.edit("bad", func(s *sqlstore.Schedule) { s.Spec = "" })
		w.set(Schedule{Name: "paused", Spec: "@every 7s"})
		w.edit("paused", func(s *sqlstore.Schedule) { s.Paused = true })
		var stores []*faulty
		var processes []*process
		for range 3 {
			stores = append(stores, newFaulty(w.store))
			processes = append(processes, w.start(Config{}, stores[len(stores)-1]))
			time.Sleep(300 * time.Millisecond)
		}
		time.Sleep(5 * time.Minute) // each has led once by now
		var before [3]int
		for i, s := range stores {
			before[i], _ = s.count("lead")
		}
		time.Sleep(time.Hour)
		for i, s := range stores {
			if calls, _ := s.count("lead"); calls != before[i] {
				w.Errorf("process %d: %d writes in an idle hour, want none", i, calls-before[i])
			}
		}
		if lines := w.log.lines("schedule=bad"); len(lines) != 3 {
			w.Errorf("want one line a process, got %v", lines)
		}
		w.stop(processes...)
	})

	bubble(t, "S2_a_row_that_makes_no_job_is_named_like_a_broken_spec", func(w *world) {
		broken := map[string]func(*sqlstore.Schedule){
			"expiry":                func(s *sqlstore.Schedule) { s.Fire.ExpiresS = new(int64(-1)) },
			"visibility timeout":    func(s *sqlstore.Schedule) { s.Fire.Stamps.VisibilityTimeoutS = 0 },
			"max attempts":          func(s *sqlstore.Schedule) { s.Fire.Stamps.MaxAttempts = 0 },
			"backoff base":          func(s *sqlstore.Schedule) { s.Fire.Stamps.BackoffBaseS = -1 },
			"dead letter retention": func(s *sqlstore.Schedule) { s.Fire.Stamps.DeadLetterRetentionS = new(int64(1 << 62)) },
			"queue name":            func(s *sqlstore.Schedule) { s.Queue = "" },
		}
		for what, edit := range broken {
			w.set(Schedule{Name: "bad " + what, Spec: "@every 10s"})
			w.edit("bad "+what, edit)
		}
		first := w.set(Schedule{Name: "a", Spec: "@every 10s"})
		p := w.start(Config{}, nil)
		time.Sleep(62 * time.Second)
		w.wantFired("a", every(first, 10, 6))
		for what := range broken {
			w.wantFired("bad "+what, nil)
			if lines := w.log.lines("level=WARN", `schedule="bad `+what+`"`, what); len(lines) != 1 {
				w.Errorf("%s: want one line that names it, got %v", what, w.log.lines())
			}
		}
		w.stop(p)
	})

	bubble(t, "S2_the_longest_durations_that_set_takes_can_fire", func(w *world) {
		next := w.set(Schedule{
			Name: "a", Spec: "@every 10s", Expires: math.MaxInt64,
			Stamps: queue.Options{
				VisibilityTimeout: queue.MaxVisibilityTimeout, MaxAttempts: math.MaxInt32, BackoffBase: queue.MaxBackoffBase,
				DeadLetterRetention: math.MaxInt64,
			},
		})
		p := w.start(Config{}, nil)
		time.Sleep(12 * time.Second)
		w.wantFired("a", []int64{next})
		w.stop(p)
	})

	bubble(t, "S2_other_nonsense_in_the_row", func(w *world) {
		for name, edit := range map[string]func(*sqlstore.Schedule){
			"anchor beyond all": func(s *sqlstore.Schedule) { s.Anchor = new(int64(1 << 62)) },
			"catch-up of 1000":  func(s *sqlstore.Schedule) { s.CatchUp = 1000 },
			"catch-up of -1":    func(s *sqlstore.Schedule) { s.CatchUp = -1 },
			"never yet":         func(s *sqlstore.Schedule) { s.NextFireAt = -1 << 63 },
			"off the grid":      func(s *sqlstore.Schedule) { s.NextFireAt += 3 },
		} {
			w.set(Schedule{Name: name, Spec: "@every 10s"})
			w.edit(name, edit)
		}
		start := w.now()
		a := w.set(Schedule{Name: "a", Spec: "@every 10s"})
		time.Sleep(1000 * time.Second)
		p := w.start(Config{}, nil)
		time.Sleep(500 * time.Millisecond)
		for _, name := range []string{"a", "catch-up of 1000", "catch-up of -1"} {
			w.wantFired(name, every(a, 10, 64))
		}
		w.wantFired("anchor beyond all", nil)
		if got := w.fired("never yet"); len(got) != 64 || (got[0]-a)%10 != 0 || got[0] >= 0 {
			w.Errorf("never yet: %v", got)
		}
		w.wantFired("off the grid", every(a+10, 10, 64))
		for _, s := range []string{"a", "off the grid", "never yet"} {
			if next := w.get(s).NextFireAt.Unix(); next != start+1010 {
				w.Errorf("%s: next %d, want %d", s, next, start+1010)
			}
		}
		w.stop(p)
	})
}

func TestRunOnce(t *testing.T) {
	t.Parallel()

	t.Run("K42_limits_of_the_config", func(t *testing.T) {
		t.Parallel()
		for _, c := range []Config{
			{Poll: -1}, {Poll: minPoll - 1}, {Poll: time.Second + 1},
			{LeaseTTL: -1}, {LeaseTTL: time.Second - 1}, {LeaseTTL: time.Hour + 1},
		} {
			if err := c.Validate(); !errors.Is(err, queue.ErrInvalid) {
				t.Errorf("%+v: got %v, want ErrInvalid", c, err)
			}
		}
		for _, c := range []Config{{}, {Poll: minPoll, LeaseTTL: minLeaseTTL}, {Poll: time.Second, LeaseTTL: time.Hour}} {
			if err := c.Validate(); err != nil {
				t.Errorf("%+v: %v", c, err)
			}
		}
		err := Config{Poll: -1, LeaseTTL: -1}.Validate()
		if err == nil || !strings.Contains(err.Error(), "poll") || !strings.Contains(err.Error(), "lease TTL") {
			t.Errorf("got %v, want both problems", err)
		}
	})

	bubble(t, "K42_run_refuses_a_wrong_config", func(w *world) {
		if err := New(w.client, Config{Poll: -1}).Run(w.Context()); !errors.Is(err, queue.ErrInvalid) {
			w.Errorf("got %v, want ErrInvalid", err)
		}
	})

	bubble(t, "K32_stopped_before_it_starts_started_twice_started_again", func(w *world) {
		s := New(w.client, Config{})
		ctx, cancel := context.WithCancel(w.Context())
		cancel()
		if err := s.Run(ctx); err != nil {
			w.Errorf("stopped before it starts: %v", err)
		}
		for range 2 {
			ctx, cancel := context.WithCancel(w.Context())
			done := make(chan error, 1)
			go func() { done <- s.Run(ctx) }()
			synctest.Wait()
			if err := s.Run(ctx); err == nil || !strings.Contains(err.Error(), "already running") {
				w.Errorf("started twice: got %v", err)
			}
			cancel()
			if err := <-done; err != nil {
				w.Errorf("stop: %v", err)
			}
		}
	})
}
