package sqlite_test

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/sqlite"
	"github.com/alkstore/alkworker/internal/sqlstore/storetest"
)

// The oldest shape of the two job tables, as rule T4 lists it.
const (
	oldestLive = `CREATE TABLE __alkstore_live (id INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT NOT NULL,
		payload BLOB NOT NULL, state TEXT NOT NULL DEFAULT 'pending', priority INTEGER NOT NULL DEFAULT 0,
		run_at INTEGER NOT NULL, claimant TEXT, claim_expires_at INTEGER, attempts INTEGER NOT NULL DEFAULT 0,
		max_attempts INTEGER NOT NULL, created_at INTEGER NOT NULL, expires_at INTEGER)`
	oldestDead = `CREATE TABLE __alkstore_dead (id INTEGER PRIMARY KEY, queue TEXT NOT NULL, payload BLOB NOT NULL,
		state TEXT NOT NULL DEFAULT 'dead', priority INTEGER NOT NULL DEFAULT 0, run_at INTEGER NOT NULL,
		attempts INTEGER NOT NULL DEFAULT 0, max_attempts INTEGER NOT NULL, created_at INTEGER NOT NULL,
		expires_at INTEGER, last_error TEXT, died_at INTEGER NOT NULL)`
)

// oldShapes are the shapes that a file without a version may have.
func oldShapes() map[string][]string {
	return map[string][]string{
		"T4_oldest_shape":           {oldestLive, oldestDead},
		"T4_without_autoincrement":  {strings.Replace(oldestLive, "AUTOINCREMENT", "", 1), oldestDead},
		"T4_without_defaults":       {strings.NewReplacer("DEFAULT 'pending'", "", "DEFAULT 0", "").Replace(oldestLive), oldestDead},
		"T4_dead_without_state":     {oldestLive, strings.Replace(oldestDead, "state TEXT NOT NULL DEFAULT 'dead',", "", 1)},
		"T4_without_constraints":    {strings.ReplaceAll(oldestLive, "NOT NULL", ""), strings.ReplaceAll(oldestDead, "NOT NULL", "")},
		"T4_bare_types":             {bare(oldestLive), bare(oldestDead)},
		"T4_with_indexes_of_theirs": {oldestLive, oldestDead, `CREATE INDEX __alkstore_live_ready ON __alkstore_live (run_at)`},
	}
}

// bare takes everything away from a table that SQLite does not insist on.
func bare(table string) string {
	for _, w := range []string{"NOT NULL", "DEFAULT 'pending'", "DEFAULT 'dead'", "DEFAULT 0", "AUTOINCREMENT"} {
		table = strings.ReplaceAll(table, w, "")
	}
	return strings.NewReplacer("BLOB", "", "TEXT", "").Replace(table)
}

// oldFile makes a file of an old shape with jobs of each kind. It is an ordinary SQLite file, not in WAL mode, and holds a
// table of the user as well.
func oldFile(t *testing.T, now int64, shape ...string) string {
	t.Helper()
	path := newFile(t)
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, s := range shape {
		execute(t, db, s)
	}
	for _, r := range []struct {
		id               int64
		payload          any
		state            string
		runAt            int64
		claimant         any
		claimExpiresAt   any
		attempts, budget int64
	}{
		{1, []byte("bytes \x00\xff"), "pending", now - 50, nil, nil, 0, 5},
		{2, "text with ümlauts", "pending", now - 40, nil, nil, 2, 5},
		{3, "", "pending", now + 1000, nil, nil, 0, 5},
		{4, []byte("lapsed"), "processing", now - 30, "gone", now - 1, 1, 5},
		{5, []byte("spent"), "processing", now - 20, "gone", now - 1, 5, 5},
		{6, []byte(strings.Repeat("x", 5000)), "processing", now - 10, "busy", now + 100, 1, 5},
	} {
		execute(t, db, `INSERT INTO __alkstore_live
			(id, queue, payload, state, priority, run_at, claimant, claim_expires_at, attempts, max_attempts, created_at)
			VALUES (?, 'old', ?, ?, 0, ?, ?, ?, ?, ?, ?)`,
			r.id, r.payload, r.state, r.runAt, r.claimant, r.claimExpiresAt, r.attempts, r.budget, now-100)
	}
	execute(t, db, `INSERT INTO __alkstore_dead
		(id, queue, payload, priority, run_at, attempts, max_attempts, created_at, last_error, died_at)
		VALUES (90, 'old', 'dead text', 0, ?, 5, 5, ?, 'boom', ?)`, now-10, now-100, now-5)
	execute(t, db, `CREATE TABLE users (name TEXT)`)
	execute(t, db, `INSERT INTO users VALUES ('ada')`)
	return path
}

func TestMigrate(t *testing.T) {
	for name, shape := range oldShapes() {
		t.Run(name, func(t *testing.T) {
			clock := storetest.NewClock()
			path := oldFile(t, clock.Now(), shape...)
			s := open(t, path, sqlite.Options{Clock: clock.Now})

			rows := claim(t, s, "old", 10)
			if got, want := ids(rows), []int64{1, 2, 4}; !slices.Equal(got, want) {
				t.Fatalf("claimed: got jobs %v, want %v", got, want)
			}
			for i, want := range []string{"bytes \x00\xff", "text with ümlauts", "lapsed"} {
				if got := string(rows[i].Payload); got != want || rows[i].PayloadSize != int64(len(want)) {
					t.Errorf("payload of job %d: got %q of %d bytes, want %q", rows[i].ID, got, rows[i].PayloadSize, want)
				}
			}
			retention := int64(90 * 24 * 3600)
			stamps := sqlstore.Stamps{VisibilityTimeoutS: 30, MaxAttempts: 5, BackoffBaseS: 5, DeadLetterRetentionS: &retention}
			if d := cmp.Diff(stamps, rows[0].Stamps); d != "" {
				t.Errorf("stamps (-want +got):\n%s", d)
			}
			if r := get(t, s, 5); r.State != sqlstore.Dead || r.LastError == nil || *r.LastError != "max attempts exceeded" {
				t.Errorf("C6: got %+v, want a dead job", r)
			}
			if r := get(t, s, 90); string(r.Payload) != "dead text" || *r.LastError != "boom" || r.Stamps.DeadLetterRetentionS != nil {
				t.Errorf("job that was dead before: got %+v", r)
			}
			page := must(s.ListJobs(t.Context(), sqlstore.Filter{Limit: 100, PayloadLimit: 14}))(t)
			for _, r := range page {
				if r.ID == 2 && string(r.Payload) != "text with üml" {
					t.Errorf("preview of 14 bytes of a text: got %q", r.Payload)
				}
			}

			if acked := must(s.AckBatch(t.Context(), []sqlstore.Handle{handle(rows[0]), handle(rows[1])}))(t); !acked[0] || !acked[1] {
				t.Errorf("ack: got %v", acked)
			}
			if back := must(s.Requeue(t.Context(), []int64{5, 90}))(t); !back[0] || !back[1] {
				t.Errorf("requeue: got %v", back)
			}
			if got, want := ids(claim(t, s, "old", 10)), []int64{5, 90}; !slices.Equal(got, want) {
				t.Errorf("claimed after requeue: got %v, want %v", got, want)
			}
			fresh := append(enqueue(t, s, newJob("old")), enqueue(t, s, jobs(2, newJob("old"))...)...)
			newest := claim(t, s, "old", 10)
			if got := ids(newest); !slices.Equal(got, fresh) || fresh[0] <= 90 {
				t.Errorf("claimed after enqueue: got %v, want %v", got, fresh)
			}
			for _, r := range newest {
				must(s.AckBatch(t.Context(), []sqlstore.Handle{handle(r)}))(t)
			}
			clock.Set(clock.Now() + 101)
			if got, want := ids(claim(t, s, "old", 10)), []int64{6, 5, 4, 90}; !slices.Equal(sorted(got), sorted(want)) {
				t.Errorf("claimed after the leases: got %v, want %v", got, want)
			}
			if id := enqueue(t, s, newJob("old"))[0]; id <= 90 {
				t.Errorf("E1: new job got id %d, want one above 90, which a dead job had", id)
			}
			if name := value[string](t, pool(t, path), "SELECT name FROM users"); name != "ada" {
				t.Errorf("table of the user: got %q", name)
			}
			healthy(t, s)
		})
	}
	t.Run("E2_stamps_that_a_file_without_a_version_has_are_kept", func(t *testing.T) {
		clock := storetest.NewClock()
		path := oldFile(t, clock.Now(), strings.Replace(oldestLive, "AUTOINCREMENT", "", 1), oldestDead,
			"ALTER TABLE __alkstore_live ADD COLUMN visibility_timeout_s INTEGER NOT NULL DEFAULT 77",
			"ALTER TABLE __alkstore_live ADD COLUMN fence INTEGER NOT NULL DEFAULT 8")
		s := open(t, path, sqlite.Options{Clock: clock.Now})
		if r := get(t, s, 1); r.Stamps.VisibilityTimeoutS != 77 || r.Fence != 8 {
			t.Errorf("got a visibility timeout of %d and fence %d, want 77 and 8", r.Stamps.VisibilityTimeoutS, r.Fence)
		}
		healthy(t, s)
	})
	t.Run("E1_ids_of_finished_jobs_are_not_used_again", func(t *testing.T) {
		for name, live := range map[string]string{"with": oldestLive, "without": strings.Replace(oldestLive, "AUTOINCREMENT", "", 1)} {
			path := oldFile(t, 1_700_000_000, live, oldestDead)
			s := open(t, path, quick)
			last := enqueue(t, s, newJob("new"))[0]
			if acked := must(s.AckBatch(t.Context(), []sqlstore.Handle{hold(t, s, "new")}))(t); !acked[0] {
				t.Fatal("ack was refused")
			}
			if next := enqueue(t, s, newJob("new"))[0]; next <= last {
				t.Errorf("%s autoincrement: got id %d after %d", name, next, last)
			}
		}
	})
	t.Run("T2_a_file_of_somebody_else_gains_the_tables", func(t *testing.T) {
		path := newFile(t)
		db := must(sql.Open("sqlite", "file:"+path))(t)
		execute(t, db, "CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT)")
		execute(t, db, "INSERT INTO orders DEFAULT VALUES")
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		s := open(t, path, quick)
		enqueue(t, s, newJob("q"))
		if n := value[int64](t, pool(t, path), "SELECT seq FROM sqlite_sequence WHERE name = 'orders'"); n != 1 {
			t.Errorf("sequence of the user's table: got %d, want 1", n)
		}
	})
}

func sorted(s []int64) []int64 { return slices.Sorted(slices.Values(s)) }

func TestNewerFile(t *testing.T) {
	t.Run("T4_is_refused_and_not_touched", func(t *testing.T) {
		path := newFile(t)
		s := must(sqlite.Open(t.Context(), path, sqlite.Options{}))(t)
		enqueue(t, s, newJob("q"))
		db := pool(t, path)
		execute(t, db, "UPDATE __alkstore_schema SET version = version + 1")
		if err := errors.Join(s.Close(), db.Close()); err != nil {
			t.Fatal(err)
		}
		c := startChild(t)
		before := c.must("hash", filepath.Dir(path))
		_, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		if !errors.Is(err, sqlstore.ErrNewer) || !strings.Contains(fmt.Sprint(err), path) {
			t.Errorf("open: got %v, want ErrNewer and the path", err)
		}
		if after := c.must("hash", filepath.Dir(path)); after != before {
			t.Errorf("folder before:\n%sand after:\n%s", before, after)
		}
	})
	t.Run("T4_is_refused_and_not_touched_while_others_use_it", func(t *testing.T) {
		path := newFile(t)
		s := open(t, path, sqlite.Options{})
		db := pool(t, path)
		execute(t, db, "UPDATE __alkstore_schema SET version = version + 1")
		version := value[int64](t, db, "PRAGMA data_version")
		if _, err := sqlite.Open(t.Context(), path, sqlite.Options{}); !errors.Is(err, sqlstore.ErrNewer) {
			t.Errorf("open: got %v, want ErrNewer", err)
		}
		if now := value[int64](t, db, "PRAGMA data_version"); now != version {
			t.Error("the database has been changed")
		}
		enqueue(t, s, newJob("q"))
	})
}

// TestEditedVersion: a version that no program has set is named, and what is advised helps. // T4
func TestEditedVersion(t *testing.T) {
	for _, version := range []string{"-1", "(-9223372036854775807 - 1)", "'abc'", "1.5", "x'00'"} {
		path := newFile(t)
		s := must(sqlite.Open(t.Context(), path, sqlite.Options{}))(t)
		enqueue(t, s, newJob("q"))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		db := pool(t, path)
		execute(t, db, "UPDATE __alkstore_schema SET version = "+version)
		if _, err := sqlite.Open(t.Context(), path, sqlite.Options{}); !errors.Is(err, sqlstore.ErrCorrupt) ||
			!strings.Contains(err.Error(), "__alkstore_schema") {
			t.Errorf("version %s: got %v, want it named", version, err)
		}
		execute(t, db, "DELETE FROM __alkstore_schema")
		s = open(t, path, quick)
		healthy(t, s)
		if n := len(claim(t, s, "q", 9)); n != 1 {
			t.Errorf("version %s: claimed %d jobs, want 1", version, n)
		}
	}
}
