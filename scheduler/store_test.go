package scheduler

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
	"github.com/alkstore/alkworker/internal/sqlstore/sqlite"
	"github.com/alkstore/alkworker/internal/sqlstore/storetest"
	"github.com/alkstore/alkworker/queue"
)

// TestFleetOverStores is the fleet over real transactions and locks: three schedulers with a handle each on one database,
// whose clock goes a hundred times as fast as theirs.
func TestFleetOverStores(t *testing.T) {
	t.Parallel()
	for store, address := range map[string]func(t *testing.T, clock storetest.Clock) (open opener, ok bool){
		"sqlite": func(t *testing.T, clock storetest.Clock) (opener, bool) {
			path := filepath.Join(t.TempDir(), "jobs.db")
			return func(ctx context.Context) (sqlstore.Store, error) {
				return sqlite.Open(ctx, path, sqlite.Options{Synchronous: "NORMAL", Clock: clock.Now})
			}, true
		},
		"postgres": func(t *testing.T, clock storetest.Clock) (opener, bool) {
			db, ok := pgtest.New(t)
			return func(ctx context.Context) (sqlstore.Store, error) {
				return postgres.Open(ctx, db.DSN(), postgres.Options{Clock: clock.Now})
			}, ok
		},
	} {
		for name, flaps := range map[string]bool{
			"K74_five_minutes_of_every_two_seconds": false, "K75_leadership_flaps_each_second": true,
		} {
			t.Run(store+"/"+name, func(t *testing.T) {
				t.Parallel()
				clock := storetest.NewClock()
				if open, ok := address(t, clock); ok {
					fleet(t, clock, open, flaps)
				}
			})
		}
	}
}

type opener func(ctx context.Context) (sqlstore.Store, error)

// fleet lets five minutes go by, in which the leader changes each second or not, and fails unless each boundary was fired
// once.
func fleet(t *testing.T, clock storetest.Clock, opened opener, flaps bool) {
	const seconds = 300
	open := func() sqlstore.Store {
		t.Helper()
		s, err := opened(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	}
	own := open()
	client := queue.NewClient(own, nil)
	if err := Set(t.Context(), client, Schedule{Name: "a", Spec: "@every 2s", Queue: "q"}); err != nil {
		t.Fatal(err)
	}
	first := clock.Now() + 2
	log := new(logbook)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var schedulers errgroup.Group
	for i := range 3 {
		s := New(queue.NewClient(open(), nil), Config{
			Owner: fmt.Sprint(i), Poll: minPoll, Logger: slog.New(slog.NewTextHandler(log, nil)),
		})
		schedulers.Go(func() error { return s.Run(ctx) })
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	w := &world{T: t, client: client}
	for second := range seconds {
		<-tick.C
		// However long the database may stall: no boundary is to be skipped. // S5
		for second%10 == 0 && len(w.fired("a")) < second/2-sqlstore.MaxCatchUpFires/2 {
			<-tick.C
		}
		clock.Set(clock.Now() + 1)
		for i := range 3 {
			if !flaps {
				break
			}
			if err := own.Resign(t.Context(), lockName, fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := every(first, 2, seconds/2)
	caughtUp, enough := context.WithCancel(t.Context())
	defer enough()
	err := own.Watch(caughtUp, minPoll, func(string) {
		if fired := w.fired("a"); len(fired) >= len(want) {
			enough()
		}
	})
	if caughtUp.Err() == nil {
		t.Fatal(err)
	}
	stop()
	if err := schedulers.Wait(); err != nil {
		t.Error(err)
	}
	if got := w.fired("a"); !slices.Equal(got, want) {
		t.Errorf("got %d boundaries %v, want %d, each once", len(got), got, len(want))
	}
	if lines := log.lines("level=WARN"); len(lines) > 0 {
		t.Errorf("warnings: %v", lines)
	}
}
