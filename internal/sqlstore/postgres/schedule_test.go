package postgres_test

import (
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
	"github.com/alkstore/alkworker/internal/sqlstore/storetest"
)

// caughtUp plans so many boundaries for each schedule.
func caughtUp(n int64) func(now int64, due sqlstore.Schedule) (sqlstore.Plan, error) {
	return func(now int64, due sqlstore.Schedule) (p sqlstore.Plan, err error) {
		for i := range n {
			p.Boundaries = append(p.Boundaries, due.NextFireAt+i)
		}
		p.NextFireAt = now + 60
		return p, nil
	}
}

func fired(ticked []sqlstore.Ticked, name string, jobs int) bool {
	return slices.ContainsFunc(ticked, func(t sqlstore.Ticked) bool { return t.Name == name && len(t.IDs) == jobs })
}

// No schedule keeps the others from firing.
func TestTickGoesOn(t *testing.T) {
	t.Run("S5_behind_one_with_a_large_payload_and_much_to_make_up_for", func(t *testing.T) {
		db, ok := pgtest.New(t)
		if !ok {
			return
		}
		clock := storetest.NewClock()
		s := open(t, db.DSN(), postgres.Options{Clock: clock.Now})
		for name, payload := range map[string][]byte{"a": make([]byte, 16<<20), "b": nil} {
			must(0, s.Register(t.Context(), name, func(now int64, have *sqlstore.Schedule) (*sqlstore.Schedule, error) {
				schedule, err := everyMinute(name)(now, have)
				schedule.Payload = payload
				return schedule, err
			}))(t)
		}
		clock.Set(clock.Now() + 100)
		ticked, err := s.Tick(t.Context(), caughtUp(sqlstore.MaxCatchUpFires))
		if err != nil || !fired(ticked, "a", sqlstore.MaxCatchUpFires) || !fired(ticked, "b", sqlstore.MaxCatchUpFires) {
			t.Errorf("tick: got %d schedules, %v, want both with 64 jobs", len(ticked), err)
		}
		if n := value[int](t, pool(t, db), "SELECT count(DISTINCT scheduled_for) FROM __alkstore_live WHERE schedule = 'a'"); n != 64 {
			t.Errorf("the large one has jobs for %d boundaries, want 64", n)
		}
	})
	t.Run("S5_behind_those_that_somebody_has_locked_without_a_wait", func(t *testing.T) {
		db, ok := pgtest.New(t)
		if !ok {
			return
		}
		s, beside := open(t, db.DSN(), postgres.Options{BusyTimeout: time.Minute}), pool(t, db)
		for _, name := range []string{"a", "b", "c"} {
			must(0, s.Register(t.Context(), name, everyMinute(name)))(t)
		}
		execute(t, beside, "UPDATE __alkstore_scheduler_tasks SET next_fire_at = next_fire_at - 5")
		tx := begin(t, beside)
		must(tx.ExecContext(t.Context(), "SELECT 1 FROM __alkstore_scheduler_tasks WHERE name < 'c' FOR UPDATE"))(t)
		ticked := make(chan []sqlstore.Ticked, 1)
		go func() {
			all, err := s.Tick(t.Context(), caughtUp(1))
			if err != nil {
				t.Error(err)
			}
			ticked <- all
		}()
		until(t, "the one that is free has fired", func() bool {
			return value[int](t, beside, "SELECT count(*) FROM __alkstore_live") == 1
		})
		must(0, tx.Rollback())(t)
		all := <-ticked
		for _, name := range []string{"a", "b", "c"} {
			if !fired(all, name, 1) {
				t.Errorf("tick: got %+v, want all three, those that were locked behind the other", all)
			}
		}
	})
	t.Run("S5_behind_one_that_somebody_has_locked", func(t *testing.T) {
		db, ok := pgtest.New(t)
		if !ok {
			return
		}
		tickGoesOn(t, open(t, db.DSN(), brief), pool(t, db))
	})
}

// tickGoesOn locks the first of two schedules, on a store that is brief.
func tickGoesOn(t *testing.T, s *postgres.Store, beside *sql.DB) {
	for _, name := range []string{"a", "b"} {
		must(0, s.Register(t.Context(), name, everyMinute(name)))(t)
	}
	execute(t, beside, "UPDATE __alkstore_scheduler_tasks SET next_fire_at = next_fire_at - 5")
	tx := begin(t, beside)
	must(tx.ExecContext(t.Context(), "SELECT 1 FROM __alkstore_scheduler_tasks WHERE name = 'a' FOR UPDATE"))(t)
	ticked, err := s.Tick(t.Context(), caughtUp(1))
	if !errors.Is(err, sqlstore.ErrBusy) || !fired(ticked, "b", 1) || fired(ticked, "a", 1) {
		t.Errorf("tick: got %+v, %v, want b alone and that a is busy", ticked, err)
	}
}

// A notification has 8000 bytes at most, and the name of a queue in a row that was edited any number.
func TestNotificationOfAnEditedQueue(t *testing.T) {
	db, ok := pgtest.New(t)
	if !ok {
		return
	}
	s := open(t, db.DSN(), postgres.Options{})
	must(0, s.Register(t.Context(), "a", everyMinute("q")))(t)
	execute(t, pool(t, db), "UPDATE __alkstore_scheduler_tasks SET queue = $1", strings.Repeat("x", 10_000))
	pause := func(_ int64, have *sqlstore.Schedule) (*sqlstore.Schedule, error) {
		have.Paused = true
		return have, nil
	}
	if err := s.Register(t.Context(), "a", pause); err != nil {
		t.Errorf("pause: %v", err)
	}
}
