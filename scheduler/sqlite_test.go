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
	"github.com/alkstore/alkworker/internal/sqlstore/sqlite"
	"github.com/alkstore/alkworker/internal/sqlstore/storetest"
	"github.com/alkstore/alkworker/queue"
)

// TestFleetOnAFile is the fleet over real transactions and locks: three schedulers with a handle each on one file, whose
// clock goes a hundred times as fast as theirs.
func TestFleetOnAFile(t *testing.T) {
	t.Parallel()
	const seconds = 300
	for name, flaps := range map[string]bool{"K74_five_minutes_of_every_two_seconds": false, "K75_leadership_flaps_each_second": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, clock := filepath.Join(t.TempDir(), "jobs.db"), storetest.NewClock()
			open := func() sqlstore.Store {
				t.Helper()
				s, err := sqlite.Open(t.Context(), path, sqlite.Options{Synchronous: "NORMAL", Clock: clock.Now})
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
			var fleet errgroup.Group
			for i := range 3 {
				s := New(queue.NewClient(open(), nil), Config{
					Owner: fmt.Sprint(i), Poll: minPoll, Logger: slog.New(slog.NewTextHandler(log, nil)),
				})
				fleet.Go(func() error { return s.Run(ctx) })
			}
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for range seconds {
				<-tick.C
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
			w := &world{T: t, client: client}
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
			if err := fleet.Wait(); err != nil {
				t.Error(err)
			}
			if got := w.fired("a"); !slices.Equal(got, want) {
				t.Errorf("got %d boundaries %v, want %d, each once", len(got), got, len(want))
			}
			if lines := log.lines("level=WARN"); len(lines) > 0 {
				t.Errorf("warnings: %v", lines)
			}
		})
	}
}
