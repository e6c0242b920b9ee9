package scheduler

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/queue"
)

func TestSet(t *testing.T) {
	t.Parallel()

	bubble(t, "S1_every_field_is_stored", func(w *world) {
		anchor := time.Unix(w.now()+10, 999)
		want := Schedule{
			Name: "näme", Queue: "q", Spec: "@every 1h", Payload: []byte("\x00\xff{}"), Priority: -7, Expires: time.Minute,
			Stamps: queue.Options{
				VisibilityTimeout: time.Minute, MaxAttempts: 3,
				BackoffBase: queue.NoBackoff, DeadLetterRetention: queue.KeepForever,
			},
			Anchor: anchor, CatchUp: 5,
		}
		w.set(want)
		want.Anchor = time.Unix(anchor.Unix(), 0).UTC()
		want.NextFireAt = want.Anchor
		want.CreatedAt = time.Unix(w.now(), 0).UTC()
		if got := w.get("näme"); !reflect.DeepEqual(got, want) {
			w.Errorf("got %+v, want %+v", got, want)
		}
	})

	bubble(t, "S1_zero_fields_have_the_defaults", func(w *world) {
		w.set(Schedule{Name: "a", Spec: "@every 1h"})
		want := Schedule{
			Name: "a", Queue: "q", Spec: "@every 1h", Payload: []byte{}, Stamps: queue.Options{}.Resolved(), CatchUp: MaxCatchUp,
			NextFireAt: time.Unix(w.now()+3600, 0).UTC(), CreatedAt: time.Unix(w.now(), 0).UTC(),
		}
		if got := w.get("a"); !reflect.DeepEqual(got, want) {
			w.Errorf("got %+v, want %+v", got, want)
		}
	})

	bubble(t, "S1_durations_are_rounded_up_to_seconds", func(w *world) {
		w.set(Schedule{
			Name: "a", Spec: "@every 1h", Expires: time.Nanosecond,
			Stamps: queue.Options{VisibilityTimeout: 1500 * time.Millisecond},
		})
		if got := w.get("a"); got.Expires != time.Second || got.Stamps.VisibilityTimeout != 2*time.Second {
			w.Errorf("expires %v, visibility timeout %v, want 1s, 2s", got.Expires, got.Stamps.VisibilityTimeout)
		}
	})

	bubble(t, "S3_without_an_anchor_the_grid_starts_at_the_first_registration", func(w *world) {
		at := w.now()
		if next := w.set(Schedule{Name: "a", Spec: "@every 1h"}); next != at+3600 {
			w.Errorf("next %d, want %d", next, at+3600)
		}
		time.Sleep(100 * time.Second)
		// S4: another interval, still from the first registration.
		if next := w.set(Schedule{Name: "a", Spec: "@every 30s"}); next != at+120 {
			w.Errorf("next %d, want %d", next, at+120)
		}
		if got := w.get("a").CreatedAt.Unix(); got != at {
			w.Errorf("created at %d, want %d", got, at)
		}
	})

	bubble(t, "S2_an_anchor_fixes_the_phase_wherever_it_lies", func(w *world) {
		three := time.Date(2016, 2, 29, 3, 0, 0, 0, time.UTC)
		for name, anchor := range map[string]time.Time{
			"past":      three,
			"long past": three.AddDate(-100, 0, 0),
			"future":    three.AddDate(100, 0, 0),
			"year 1":    time.Date(1, 1, 2, 3, 0, 0, 0, time.UTC),
			"year 9999": time.Date(9999, 12, 31, 3, 0, 0, 0, time.UTC),
			"elsewhere": three.In(time.FixedZone("", -5*3600)),
		} {
			next := w.set(Schedule{Name: name, Spec: "@every 1d", Anchor: anchor})
			if next%86400 != 3*3600 || next <= w.now() || next > w.now()+86400 {
				w.Errorf("%s: next is %d, want the next three o'clock after %d", name, next, w.now())
			}
		}
	})

	bubble(t, "S3_a_future_anchor_within_the_interval_is_the_first_boundary", func(w *world) {
		anchor := w.now() + 42
		if next := w.set(Schedule{Name: "a", Spec: "@every 1h", Anchor: time.Unix(anchor, 0)}); next != anchor {
			w.Errorf("next %d, want %d", next, anchor)
		}
	})

	bubble(t, "S3_an_anchor_of_now_is_not_strictly_after_now", func(w *world) {
		now := w.now()
		if next := w.set(Schedule{Name: "a", Spec: "@every 1h", Anchor: time.Unix(now, 0)}); next != now+3600 {
			w.Errorf("next %d, want %d", next, now+3600)
		}
	})

	bubble(t, "S4_registering_again_keeps_the_next_boundary", func(w *world) {
		first := w.set(Schedule{Name: "a", Spec: "@every 1h", Payload: []byte("old"), CatchUp: 1})
		for range 7 { // past the first boundary, which stays due
			time.Sleep(10 * time.Minute)
			next := w.set(Schedule{
				Name: "a", Spec: "@every 1h", Payload: []byte("new"), Priority: 3, Queue: "other", CatchUp: 2,
			})
			if next != first {
				w.Errorf("next %d, want %d", next, first)
			}
		}
		if got := w.get("a"); string(got.Payload) != "new" || got.Priority != 3 || got.Queue != "other" || got.CatchUp != 2 {
			w.Errorf("the other fields are not updated: %+v", got)
		}
	})

	bubble(t, "S4_the_same_grid_in_other_words_keeps_it_too", func(w *world) {
		start := w.now()
		first := w.set(Schedule{Name: "a", Spec: "@every 1d", Anchor: time.Unix(start-100, 0)})
		w.sleepUntil(first, time.Second)
		// "The last full day from the program's point of view", worked out anew at a restart one second late.
		if next := w.set(Schedule{Name: "a", Spec: "@every 24h", Anchor: time.Unix(first, 0)}); next != first {
			w.Errorf("next %d, want %d, which is due", next, first)
		}
	})

	bubble(t, "S4_a_changed_spec_or_anchor_moves_it_strictly_after_now", func(w *world) {
		start := w.now()
		w.set(Schedule{Name: "a", Spec: "@every 10s"})
		time.Sleep(60 * time.Second) // six boundaries are due, the last one just now
		if next := w.set(Schedule{Name: "a", Spec: "@every 20s"}); next != start+80 {
			w.Errorf("changed spec: next %d, want %d", next, start+80)
		}
		if next := w.set(Schedule{Name: "a", Spec: "@every 20s", Anchor: time.Unix(start+5, 0)}); next != start+65 {
			w.Errorf("new anchor: next %d, want %d", next, start+65)
		}
		if next := w.set(Schedule{Name: "a", Spec: "@every 20s", Anchor: time.Unix(start+6, 0)}); next != start+66 {
			w.Errorf("changed anchor: next %d, want %d", next, start+66)
		}
		if next := w.set(Schedule{Name: "a", Spec: "@every 20s"}); next != start+80 {
			w.Errorf("no anchor any more: next %d, want %d", next, start+80)
		}
	})

	bubble(t, "S2_a_spec_broken_in_storage_is_repaired_by_the_next_registration", func(w *world) {
		start := w.now()
		w.set(Schedule{Name: "a", Spec: "@every 10s"})
		w.edit("a", func(s *sqlstore.Schedule) { s.Spec = "@hourly" })
		time.Sleep(15 * time.Second)
		if next := w.set(Schedule{Name: "a", Spec: "@every 10s"}); next != start+20 {
			w.Errorf("next %d, want %d", next, start+20)
		}
	})

	for name, next := range map[string]int64{"in_1970": 0, "before_Christ": math.MinInt64, "never": math.MaxInt64} {
		bubble(t, "S2_a_next_time_"+name+"_is_repaired_by_the_next_registration", func(w *world) {
			start := w.now()
			w.set(Schedule{Name: "a", Spec: "@every 10s"})
			w.edit("a", func(s *sqlstore.Schedule) { s.NextFireAt = next })
			time.Sleep(15 * time.Second)
			if next := w.set(Schedule{Name: "a", Spec: "@every 10s"}); next != start+20 {
				w.Errorf("next %d, want %d", next, start+20)
			}
		})
	}

	t.Run("S2_a_time_of_registration_that_was_none_is_that_of_the_next", func(t *testing.T) {
		for _, created := range []int64{0, -1, math.MaxInt64} {
			have := &sqlstore.Schedule{Name: "a", Spec: "@every 10s", CreatedAt: created, NextFireAt: created}
			got, err := merge(1005, have, sqlstore.Schedule{Name: "a", Spec: "@every 10s"})
			if err != nil || got.CreatedAt != 1005 || got.NextFireAt != 1015 {
				t.Errorf("created at %d: got %+v, %v; want it created at 1005 and fired at 1015", created, got, err)
			}
		}
	})

	bubble(t, "E8_S2_a_row_that_makes_no_job_is_not_fired_by_hand_either", func(w *world) {
		for what, broken := range map[string]func(*sqlstore.Schedule){
			"queue name":         func(s *sqlstore.Schedule) { s.Queue = "" },
			"max attempts":       func(s *sqlstore.Schedule) { s.Fire.Stamps.MaxAttempts = 0 },
			"visibility timeout": func(s *sqlstore.Schedule) { s.Fire.Stamps.VisibilityTimeoutS = 0 },
		} {
			w.set(Schedule{Name: "a", Queue: "q", Spec: "@every 1h"})
			w.edit("a", broken)
			_, ok, err := Fire(w.Context(), w.client, "a")
			if ok || !errors.Is(err, queue.ErrInvalid) || !strings.Contains(err.Error(), what) {
				w.Errorf("%s: got %t, %v; want an error that names it", what, ok, err)
			}
		}
		if fired := w.fired("a"); len(fired) > 0 {
			w.Errorf("fired %v", fired)
		}
	})

	bubble(t, "S1_a_pause_survives_a_registration", func(w *world) {
		w.set(Schedule{Name: "a", Spec: "@every 1h", Paused: true})
		if w.get("a").Paused {
			w.Error("Set must not pause")
		}
		if ok, err := Pause(w.Context(), w.client, "a"); !ok || err != nil {
			w.Fatal(ok, err)
		}
		w.set(Schedule{Name: "a", Spec: "@every 1h"})
		w.set(Schedule{Name: "a", Spec: "@every 2h"})
		if !w.get("a").Paused {
			w.Error("Set must not resume")
		}
	})
}

func TestSetRefuses(t *testing.T) {
	t.Parallel()

	bubble(t, "every_problem_is_reported_at_once", func(w *world) {
		err := Set(w.Context(), w.client, Schedule{
			Name: "bell\a", Queue: strings.Repeat("q", 129), Spec: "@daily", Expires: -time.Second,
			Stamps: queue.Options{MaxAttempts: -1, VisibilityTimeout: -1}, CatchUp: 65,
			Anchor: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC),
		})
		if !errors.Is(err, queue.ErrInvalid) {
			w.Fatalf("got %v, want ErrInvalid", err)
		}
		for _, part := range []string{
			"control character", "129 bytes", "@daily", "expiry", "max attempts", "visibility timeout", "catch-up 65", "anchor",
		} {
			if !strings.Contains(err.Error(), part) {
				w.Errorf("%q is missing in:\n%v", part, err)
			}
		}
		var e *queue.Error
		if !errors.As(err, &e) || !strings.Contains(e.Op, "set schedule") || e.Queue == "" {
			w.Errorf("got %#v, want operation and queue (T5)", err)
		}
		var spec *SpecError
		if !errors.As(err, &spec) || spec.Spec != "@daily" {
			w.Errorf("got %#v, want the SpecError inside", err)
		}
		if all, err := List(w.Context(), w.client); len(all) != 0 || err != nil {
			w.Errorf("stored %v, %v, want nothing", all, err)
		}
	})

	for name, broken := range map[string]func(*Schedule){
		"E8_an_empty_name":               func(s *Schedule) { s.Name = "" },
		"E8_an_empty_queue":              func(s *Schedule) { s.Queue = "" },
		"E8_a_name_of_129_bytes":         func(s *Schedule) { s.Name = strings.Repeat("n", 129) },
		"E8_a_name_that_is_not_UTF8":     func(s *Schedule) { s.Name = "\xff" },
		"E8_a_queue_with_a_newline":      func(s *Schedule) { s.Queue = "a\nb" },
		"S2_no_spec":                     func(s *Schedule) { s.Spec = "" },
		"K84_an_interval_that_overflows": func(s *Schedule) { s.Spec = "@every 9999999999999d" },
		"K42_a_negative_expiry":          func(s *Schedule) { s.Expires = -1 },
		"K42_a_negative_catch_up":        func(s *Schedule) { s.CatchUp = -1 },
		"S5_a_catch_up_above_64":         func(s *Schedule) { s.CatchUp = 65 },
		"K42_a_negative_stamp":           func(s *Schedule) { s.Stamps.BackoffBase = -2 },
		"K84_an_anchor_before_year_1":    func(s *Schedule) { s.Anchor = time.Date(0, 12, 31, 0, 0, 0, 0, time.UTC) },
		"K84_an_anchor_after_year_9999":  func(s *Schedule) { s.Anchor = time.Unix(lastSecond+1, 0) },
		"K84_an_anchor_beyond_all":       func(s *Schedule) { s.Anchor = time.Unix(math.MaxInt64, 0) },
	} {
		bubble(t, name, func(w *world) {
			s := Schedule{Name: "a", Queue: "q", Spec: "@every 1h"}
			broken(&s)
			err := Set(w.Context(), w.client, s)
			if !errors.Is(err, queue.ErrInvalid) {
				w.Errorf("got %v, want ErrInvalid", err)
			}
		})
	}

	bubble(t, "E7_a_payload_above_the_limit", func(w *world) {
		s := Schedule{Name: "a", Queue: "q", Spec: "@every 1h", Payload: make([]byte, queue.DefaultMaxPayload+1)}
		if err := Set(w.Context(), w.client, s); !errors.Is(err, queue.ErrPayloadTooLarge) {
			w.Errorf("got %v, want ErrPayloadTooLarge", err)
		}
		s.Payload = s.Payload[1:]
		if err := Set(w.Context(), w.client, s); err != nil {
			w.Errorf("exactly the limit: %v", err)
		}
	})

	bubble(t, "K84_a_next_boundary_after_the_year_9999", func(w *world) {
		w.offset = lastSecond - time.Now().Unix() - 3600
		err := Set(w.Context(), w.client, Schedule{Name: "a", Queue: "q", Spec: "@every 3601s"})
		var bad *SpecError
		if !errors.As(err, &bad) || bad.Schedule != "a" || !errors.Is(err, queue.ErrInvalid) {
			w.Errorf("got %v, want a SpecError that names the schedule", err)
		}
		if all, err := List(w.Context(), w.client); len(all) != 0 || err != nil {
			w.Errorf("stored %v, %v, want nothing", all, err)
		}
		if next := w.set(Schedule{Name: "a", Spec: "@every 3600s"}); next != lastSecond {
			w.Errorf("next %d, want the last second of the year 9999", next)
		}
	})

	bubble(t, "T5_a_failed_store_is_an_error_with_operation_and_name", func(w *world) {
		if err := w.store.Close(); err != nil {
			w.Fatal(err)
		}
		ctx := w.Context()
		errs := map[string]error{"set": Set(ctx, w.client, Schedule{Name: "a", Queue: "q", Spec: "@every 1h"})}
		_, errs["remove"] = Remove(ctx, w.client, "a")
		_, errs["pause"] = Pause(ctx, w.client, "a")
		_, errs["resume"] = Resume(ctx, w.client, "a")
		_, _, errs["fire"] = Fire(ctx, w.client, "a")
		for op, err := range errs {
			want := op + ` schedule "a"`
			if e := new(queue.Error); !errors.As(err, &e) || e.Op != want || !errors.Is(err, queue.ErrClosed) {
				w.Errorf("%s: got %v, want Op %s and ErrClosed", op, err, want)
			}
		}
		if _, err := List(ctx, w.client); !errors.Is(err, queue.ErrClosed) {
			w.Errorf("list: got %v, want ErrClosed", err)
		}
	})
}

func TestChange(t *testing.T) {
	t.Parallel()

	bubble(t, "T5_no_such_schedule_is_a_value", func(w *world) {
		ctx := w.Context()
		for op, call := range map[string]func() (bool, error){
			"remove": func() (bool, error) { return Remove(ctx, w.client, "x") },
			"pause":  func() (bool, error) { return Pause(ctx, w.client, "x") },
			"resume": func() (bool, error) { return Resume(ctx, w.client, "x") },
			"fire":   func() (bool, error) { _, ok, err := Fire(ctx, w.client, "x"); return ok, err },
		} {
			if ok, err := call(); ok || err != nil {
				w.Errorf("%s: %v, %v, want false, nil", op, ok, err)
			}
		}
		if all, err := List(ctx, w.client); len(all) != 0 || err != nil {
			w.Errorf("list: %v, %v, want nothing", all, err)
		}
	})

	bubble(t, "S1_list_is_ordered_by_name", func(w *world) {
		for _, name := range []string{"c", "a", "b"} {
			w.set(Schedule{Name: name, Spec: "@every 1h"})
		}
		all, err := List(w.Context(), w.client)
		if err != nil || len(all) != 3 || all[0].Name != "a" || all[1].Name != "b" || all[2].Name != "c" {
			w.Errorf("got %v, %v", all, err)
		}
	})

	bubble(t, "S1_resume_starts_strictly_after_now", func(w *world) {
		start := w.now()
		w.set(Schedule{Name: "a", Spec: "@every 10s"})
		if ok, err := Pause(w.Context(), w.client, "a"); !ok || err != nil {
			w.Fatal(ok, err)
		}
		if got := w.get("a"); !got.Paused || got.NextFireAt.Unix() != start+10 {
			w.Errorf("paused: %+v", got)
		}
		time.Sleep(60 * time.Second)
		if ok, err := Resume(w.Context(), w.client, "a"); !ok || err != nil {
			w.Fatal(ok, err)
		}
		if got := w.get("a"); got.Paused || got.NextFireAt.Unix() != start+70 {
			w.Errorf("next %d, want %d", got.NextFireAt.Unix(), start+70)
		}
	})

	bubble(t, "S1_resume_of_a_running_schedule_loses_no_boundary", func(w *world) {
		first := w.set(Schedule{Name: "a", Spec: "@every 10s"})
		time.Sleep(15 * time.Second)
		if ok, err := Resume(w.Context(), w.client, "a"); !ok || err != nil {
			w.Fatal(ok, err)
		}
		if got := w.get("a"); got.NextFireAt.Unix() != first {
			w.Errorf("next %d, want %d, which is due", got.NextFireAt.Unix(), first)
		}
	})

	bubble(t, "S2_resume_of_a_broken_spec_is_an_error_that_names_it", func(w *world) {
		w.set(Schedule{Name: "a", Spec: "@every 10s"})
		w.edit("a", func(s *sqlstore.Schedule) { s.Spec, s.Paused = "@every 1ms", true })
		ok, err := Resume(w.Context(), w.client, "a")
		var bad *SpecError
		if ok || !errors.As(err, &bad) || bad.Schedule != "a" || bad.Spec != "@every 1ms" {
			w.Errorf("got %v, %v, want a SpecError that names schedule and spec", ok, err)
		}
		if got := w.get("a"); !got.Paused || got.Spec != "@every 1ms" {
			w.Errorf("got %+v, want it unchanged and listed", got)
		}
	})

	bubble(t, "S7_fire_enqueues_one_job_now_and_moves_nothing", func(w *world) {
		stamps := queue.Options{
			VisibilityTimeout: time.Minute, MaxAttempts: 2, BackoffBase: time.Second, DeadLetterRetention: time.Hour,
		}
		next := w.set(Schedule{
			Name: "a", Spec: "@every 1h", Payload: []byte("p"), Priority: 9, Expires: 5 * time.Minute, Stamps: stamps,
		})
		if _, err := Pause(w.Context(), w.client, "a"); err != nil {
			w.Fatal(err)
		}
		time.Sleep(90 * time.Second)
		id, ok, err := Fire(w.Context(), w.client, "a")
		if !ok || err != nil {
			w.Fatal(ok, err)
		}
		j, err := w.client.Get(w.Context(), id)
		if err != nil || j == nil {
			w.Fatal(j, err)
		}
		if j.Queue != "q" || string(j.Payload) != "p" || j.Priority != 9 || j.ExpiresAt.Unix() != w.now()+300 ||
			j.RunAt.Unix() != w.now() ||
			j.Schedule != "a" || j.ScheduledFor.Unix() != w.now() || j.VisibilityTimeout != time.Minute || j.MaxAttempts != 2 ||
			j.BackoffBase != time.Second || j.DeadLetterRetention != time.Hour {
			w.Errorf("got %+v", j)
		}
		if got := w.get("a"); !got.Paused || got.NextFireAt.Unix() != next {
			w.Errorf("got %+v, want it unchanged", got)
		}
	})

	bubble(t, "S1_remove_keeps_the_jobs", func(w *world) {
		w.set(Schedule{Name: "a", Spec: "@every 1h"})
		if _, _, err := Fire(w.Context(), w.client, "a"); err != nil {
			w.Fatal(err)
		}
		if ok, err := Remove(w.Context(), w.client, "a"); !ok || err != nil {
			w.Fatal(ok, err)
		}
		if got := w.fired("a"); len(got) != 1 {
			w.Errorf("%d jobs, want 1", len(got))
		}
		if ok, err := Remove(w.Context(), w.client, "a"); ok || err != nil {
			w.Errorf("again: %v, %v, want false, nil", ok, err)
		}
	})
}
