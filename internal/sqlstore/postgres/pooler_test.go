package postgres_test

import (
	"testing"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
	"github.com/alkstore/alkworker/internal/sqlstore/storetest"
)

// behindPooler starts a server with PgBouncer in transaction mode before it. Without PgBouncer the tests run on the server
// itself, with stores that believe that a pooler is there.
func behindPooler(t *testing.T, connections int) (
	server *pgtest.Server, open func(t *testing.T, db pgtest.Database, o postgres.Options) *postgres.Store, ok bool,
) {
	server, ok = pgtest.NewServer(t)
	if !ok {
		return nil, nil, false
	}
	address, there := server.NewPooler(t, connections)
	return server, func(t *testing.T, db pgtest.Database, o postgres.Options) *postgres.Store {
		if there {
			return openStore(t, postgres.Open, db.Through(address).DSN(), o)
		}
		return openStore(t, postgres.OpenAsPooled, db.DSN(), o)
	}, true
}

// K86: everything works when each transaction meets another server process.
func TestConformanceThroughPooler(t *testing.T) {
	server, open, ok := behindPooler(t, 10)
	if !ok {
		return
	}
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		db := server.New(t)
		return harness(t, db, func(t *testing.T, o postgres.Options) *postgres.Store { return open(t, db, o) })
	})
}

func TestPooler(t *testing.T) {
	t.Run("K86_what_has_to_wait_for_a_row_is_busy_after_a_while", func(t *testing.T) {
		server, open, ok := behindPooler(t, 10)
		if !ok {
			return
		}
		db := server.New(t)
		s := open(t, db, brief)
		busyAfterAWhile(t, s, pool(t, db))
		tickGoesOn(t, s, pool(t, db)) // what is a transaction of several statements
		healthy(t, s)
	})
	t.Run("K86_more_stores_than_connections_find_each_others_jobs_by_polling", func(t *testing.T) {
		server, open, ok := behindPooler(t, 2)
		if !ok {
			return
		}
		db := server.New(t)
		stores := make([]*postgres.Store, 6)
		woken := make(chan int, 100)
		for i := range stores {
			stores[i] = open(t, db, postgres.Options{})
			watching(t, stores[i], 20*time.Millisecond, func(string) {
				select {
				case woken <- i:
				default:
				}
			})
			if stores[i].Hears() {
				t.Error("a listener behind a pooler would hear what is meant for others, or nothing")
			}
		}
		heard := make(map[int]bool)
		patience := time.After(20 * time.Second)
		for len(heard) < len(stores) {
			select {
			case i := <-woken:
				heard[i] = true
			case <-time.After(100 * time.Millisecond): // whoever has begun to watch since then
				enqueue(t, stores[0], newJob("other"))
			case <-patience:
				t.Fatalf("woken: got %v, want all six", heard)
			}
		}
		enqueue(t, stores[0], jobs(60, newJob("q"))...)
		seen := make(map[int64]bool)
		for _, s := range stores {
			rows := claim(t, s, "q", 10)
			for _, r := range rows {
				if seen[r.ID] {
					t.Errorf("job %d was handed out twice", r.ID)
				}
				seen[r.ID] = true
			}
			for _, ok := range must(s.AckBatch(t.Context(), handles(rows)))(t) {
				if !ok {
					t.Error("ack was refused")
				}
			}
		}
		if len(seen) != 60 {
			t.Errorf("claimed: got %d jobs, want 60", len(seen))
		}
		healthy(t, open(t, db, postgres.Options{})) // the others are looking for changes
	})
}

// watching runs a Watch until the test ends, and returns when it is there.
func watching(t *testing.T, s sqlstore.Store, poll time.Duration, wake func(queue string)) {
	t.Helper()
	ended := make(chan error, 1)
	ctx := t.Context()
	go func() { ended <- s.Watch(ctx, poll, wake) }()
	t.Cleanup(func() { <-ended }) // ctx has ended by then
}
