package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
)

// openTogether opens n stores at the same moment.
func openTogether(t *testing.T, n int, dsn string) []*postgres.Store {
	t.Helper()
	var all errgroup.Group
	var mu sync.Mutex
	var stores []*postgres.Store
	begin := make(chan struct{})
	for range n {
		all.Go(func() error {
			<-begin
			s, err := postgres.Open(t.Context(), dsn, postgres.Options{})
			if err == nil {
				mu.Lock()
				stores = append(stores, s)
				mu.Unlock()
			}
			return err
		})
	}
	close(begin)
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, s := range stores {
			_ = s.Close()
		}
	})
	return stores
}

func TestMigrate(t *testing.T) {
	if _, ok := pgtest.New(t); !ok {
		return
	}
	t.Run("K57_eight_at_the_same_moment_on_an_absent_schema", func(t *testing.T) {
		for range 10 {
			db, _ := pgtest.New(t)
			stores := openTogether(t, 8, db.DSN())
			enqueue(t, stores[0], newJob("q"))
			if n := len(claim(t, stores[7], "q", 5)); n != 1 {
				t.Errorf("claimed: got %d jobs, want 1", n)
			}
		}
	})
	t.Run("K57_eight_at_the_same_moment_on_an_older_schema_with_many_jobs", func(t *testing.T) {
		const n = 20_000
		db, _ := pgtest.New(t)
		s := open(t, db.DSN(), postgres.Options{})
		beside := pool(t, db)
		execute(t, beside, `INSERT INTO __alkstore_live (queue, priority, run_at, created_at, max_attempts, visibility_timeout_s, backoff_base_s, payload)
			SELECT 'q', 0, 1700000000, 1700000000, 20, 30, 5, 'x' FROM generate_series(1, $1)`, n)
		// As the first step left it.
		for _, index := range []string{"live_ready", "live_leases", "live_spent", "live_suspects", "live_tried", "live_expiry",
			"dead_queue", "dead_retention", "scheduler_tasks_due"} {
			execute(t, beside, "DROP INDEX __alkstore_"+index)
		}
		execute(t, beside, "UPDATE __alkstore_schema SET version = 1")
		for _, other := range openTogether(t, 8, db.DSN()) {
			if n := len(claim(t, other, "q", 10)); n != 10 {
				t.Errorf("claimed: got %d jobs, want 10", n)
			}
		}
		if got := value[int](t, beside, "SELECT version FROM __alkstore_schema"); got != postgres.Versions() {
			t.Errorf("version: got %d, want %d", got, postgres.Versions())
		}
		if got := value[int](t, beside, "SELECT count(*) FROM __alkstore_live"); got != n {
			t.Errorf("jobs: got %d, want %d", got, n)
		}
		healthy(t, s)
	})
	t.Run("T4_a_version_that_no_program_has_set_is_named", func(t *testing.T) {
		db, _ := pgtest.New(t)
		s := must(postgres.Open(t.Context(), db.DSN(), postgres.Options{}))(t)
		execute(t, pool(t, db), "UPDATE __alkstore_schema SET version = -1")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := postgres.Open(t.Context(), db.DSN(), postgres.Options{}); !errors.Is(err, sqlstore.ErrCorrupt) ||
			!strings.Contains(err.Error(), "__alkstore_schema") {
			t.Errorf("got %v, want it named", err)
		}
	})
	t.Run("T4_a_schema_from_a_newer_version_is_refused_and_not_touched", func(t *testing.T) {
		db, _ := pgtest.New(t)
		enqueue(t, open(t, db.DSN(), postgres.Options{}), newJob("q"))
		beside := pool(t, db)
		execute(t, beside, "UPDATE __alkstore_schema SET version = version + 1")
		before := value[string](t, beside, "SELECT string_agg(relname || relfilenode, ' ' ORDER BY relname) FROM pg_class WHERE relnamespace = $1::regnamespace", db.Schema)
		_, err := postgres.Open(t.Context(), db.DSN(), postgres.Options{})
		if !errors.Is(err, sqlstore.ErrNewer) || sqlstore.Transient(err) {
			t.Errorf("got %v, want ErrNewer", err)
		}
		after := value[string](t, beside, "SELECT string_agg(relname || relfilenode, ' ' ORDER BY relname) FROM pg_class WHERE relnamespace = $1::regnamespace", db.Schema)
		if before != after {
			t.Errorf("relations: got %s, want %s", after, before)
		}
	})
	t.Run("K58_a_migration_that_fails_midway_leaves_nothing", func(t *testing.T) {
		db, _ := pgtest.New(t)
		beside := pool(t, db)
		execute(t, beside, "CREATE SCHEMA "+db.Schema)
		execute(t, beside, "CREATE TABLE __alkstore_scheduler_tasks (a text)") // the last table of the first step
		_, err := postgres.Open(t.Context(), db.DSN(), postgres.Options{})
		if err == nil || !strings.Contains(err.Error(), "0001_tables.sql") {
			t.Errorf("got %v, want an error that names the step", err)
		}
		if n := value[int](t, beside, "SELECT count(*) FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind = 'r'", db.Schema); n != 1 {
			t.Errorf("tables: got %d, want the one of the user", n)
		}
		execute(t, beside, "DROP TABLE __alkstore_scheduler_tasks")
		enqueue(t, open(t, db.DSN(), postgres.Options{}), newJob("q"))
	})
	t.Run("T4_a_user_who_may_not_create_can_open_what_is_there", func(t *testing.T) {
		db, _ := pgtest.New(t)
		open(t, db.DSN(), postgres.Options{})
		beside := pool(t, db)
		role := db.Schema + "_role"
		execute(t, beside, "CREATE ROLE "+role+" LOGIN")
		t.Cleanup(func() {
			if _, err := beside.ExecContext(context.WithoutCancel(t.Context()), "DROP OWNED BY "+role+"; DROP ROLE "+role); err != nil {
				t.Error(err)
			}
		})
		execute(t, beside, fmt.Sprintf("GRANT USAGE ON SCHEMA %[1]s TO %[2]s", db.Schema, role))
		execute(t, beside, fmt.Sprintf("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %[1]s TO %[2]s", db.Schema, role))
		execute(t, beside, fmt.Sprintf("GRANT SELECT ON ALL SEQUENCES IN SCHEMA %[1]s TO %[2]s", db.Schema, role))
		as := func(d pgtest.Database) string { return strings.Replace(d.DSN(), "user=postgres", "user="+role, 1) }
		if !strings.Contains(as(db), role) {
			return // the address of the environment names its user in another way
		}
		s := open(t, as(db), postgres.Options{})
		enqueue(t, s, newJob("q"))
		if n := len(claim(t, s, "q", 1)); n != 1 {
			t.Errorf("claimed: got %d jobs, want 1", n)
		}
		other, _ := pgtest.New(t)
		if _, err := postgres.Open(t.Context(), as(other), postgres.Options{}); !errors.Is(err, sqlstore.ErrReadOnly) {
			t.Errorf("open what is not there: got %v, want ErrReadOnly", err)
		}
	})
}

func TestSchema(t *testing.T) {
	db, ok := pgtest.New(t)
	if !ok {
		return
	}
	t.Run("T2_two_schemas_of_a_database_are_two_queues", func(t *testing.T) {
		one, two := db, db
		one.Schema += "-Ünö $1 :a __alkstore_x % it"
		two.Schema += "b"
		for _, d := range []pgtest.Database{one, two} {
			t.Cleanup(func() { dropSchema(t, db, `DROP SCHEMA IF EXISTS "`+d.Schema+`" CASCADE`) })
		}
		a, b := open(t, one.DSN(), postgres.Options{}), open(t, db.URL, postgres.Options{Schema: two.Schema})
		if a.Schema() != one.Schema || b.Schema() != two.Schema {
			t.Errorf("schemas: got %q and %q", a.Schema(), b.Schema())
		}
		other := open(t, one.DSN(), postgres.Options{})
		woken := make(chan string, 100)
		watching(t, b, 1<<62, func(queue string) { woken <- queue })
		enqueue(t, a, newJob("q"), newJob("q"))
		enqueue(t, b, newJob("mine"))
		for q := range woken {
			if q == "q" {
				t.Error("a notification about another schema woke a watcher")
			}
			if q == "mine" {
				break
			}
		}
		if n := len(claim(t, b, "q", 5)); n != 0 {
			t.Errorf("claimed from the other schema: got %d jobs, want none", n)
		}
		if n := len(claim(t, other, "q", 5)); n != 2 {
			t.Errorf("claimed: got %d jobs, want 2", n)
		}
		healthy(t, a)
		healthy(t, b)
	})
	t.Run("T2_without_a_name_it_is_where_the_server_would_put_a_table", func(t *testing.T) {
		mine, _ := pgtest.New(t)
		execute(t, pool(t, mine), "CREATE SCHEMA "+mine.Schema)
		s := open(t, mine.SearchPath(), postgres.Options{})
		if s.Schema() != mine.Schema {
			t.Errorf("schema: got %q, want %q", s.Schema(), mine.Schema)
		}
		enqueue(t, s, newJob("q"))
		names := strings.Split(value[string](t, pool(t, mine),
			"SELECT string_agg(tablename, ',') FROM pg_tables WHERE schemaname = $1", mine.Schema), ",")
		if slices.ContainsFunc(names, func(n string) bool { return !strings.HasPrefix(n, "__alkstore_") }) || len(names) < 8 {
			t.Errorf("tables: got %v, want all under one prefix", names)
		}
	})
}

func dropSchema(t *testing.T, db pgtest.Database, statement string) {
	t.Helper()
	p := pool(t, pgtest.Database{URL: db.URL, Schema: "public"})
	if _, err := p.ExecContext(context.WithoutCancel(t.Context()), statement); err != nil {
		t.Error(err)
	}
}
