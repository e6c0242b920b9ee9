package runtime_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/runtime"
	"github.com/alkstore/alkworker/scheduler"
)

// TestNoIDs: when a person has left the database without ids for new jobs, those that are there run, and schedules fire
// again once that is mended. // K3
func TestNoIDs(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		server     bool
		harm, mend string
	}{
		"on_a_file_none_is_left": {
			harm: "UPDATE sqlite_sequence SET seq = 9223372036854775807 WHERE name = '__alkstore_live'",
			mend: "UPDATE sqlite_sequence SET seq = 9 WHERE name = '__alkstore_live'",
		},
		"on_a_server_none_is_left": {
			server: true,
			harm:   "SELECT setval('__alkstore_live_id_seq', 9223372036854775807)",
			mend:   "SELECT setval('__alkstore_live_id_seq', 9)",
		},
		"on_a_server_the_next_is_taken": {
			server: true,
			harm:   "SELECT setval('__alkstore_live_id_seq', 1, false)",
			mend:   "SELECT 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			driver, dsn := "sqlite", filepath.Join(t.TempDir(), "jobs.db")
			address := queue.SQLiteDSN(dsn)
			if tc.server {
				db, ok := pgtest.New(t)
				if !ok {
					return
				}
				driver, dsn, address = "pgx", db.DSN(), db.SearchPath()
			}
			c := reopen(t, dsn)
			db, err := sql.Open(driver, address)
			must(t, err)
			defer func() { must(t, db.Close()) }()
			id := enqueue(t, c, "q", 1, queue.EnqueueOptions{Delay: 4 * time.Second})[0]
			must(t, scheduler.Set(t.Context(), c, scheduler.Schedule{Name: "s", Queue: "fired", Spec: "@every 1s", CatchUp: 1}))
			_, err = db.ExecContext(t.Context(), tc.harm)
			must(t, err)
			ran := make(chan *queue.Job, 100)
			h := handlers.HandlerFunc(func(_ context.Context, j *queue.Job) error { ran <- j; return nil })
			r := serve("q", h, handlers.Options{})
			r.Register("fired", h, handlers.Options{})
			background(t, c, r, runtime.Config{})
			for j := receive(t, ran); j.ID != id; { // others may come first
				j = receive(t, ran)
			}
			_, err = db.ExecContext(t.Context(), tc.mend)
			must(t, err)
			for j := receive(t, ran); j.Schedule != "s"; {
				j = receive(t, ran)
			}
		})
	}
}
