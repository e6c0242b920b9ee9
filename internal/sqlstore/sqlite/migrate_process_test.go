package sqlite_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/sqlite"
)

// together makes all children do the same at the same moment.
func together(t *testing.T, children []*child, command string, args ...string) {
	t.Helper()
	for _, c := range children {
		c.tell(command, args...)
	}
	for i, c := range children {
		if _, died, err := c.answer(); err != nil || died {
			t.Errorf("process %d: %s %q: %v, died %v", i, command, args, err, died)
		}
	}
}

func TestProcessesOpenTogether(t *testing.T) {
	children := startChildren(t, 8)
	t.Run("K56_an_absent_file", func(t *testing.T) {
		folder := t.TempDir()
		for round := range 20 / sqlite.Slowness { // -count=5 makes it a hundred
			path := filepath.Join(folder, strconv.Itoa(round)+".db")
			together(t, children, "open", path)
			if n := children[0].must("count", path, "__alkstore_live"); n != "8" {
				t.Errorf("round %d: got %s jobs, want one of each process", round, n)
			}
		}
		if left, err := filepath.Glob(filepath.Join(folder, ".alkworker-*")); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
	t.Run("K57_an_older_file_with_100000_rows", func(t *testing.T) {
		const rows = 100_000 / sqlite.Slowness
		for name, shape := range map[string]string{"as it is": oldestLive, "to be rebuilt": bare(oldestLive)} {
			path := newFile(t)
			db := must(sql.Open("sqlite", "file:"+path))(t)
			execute(t, db, shape)
			execute(t, db, oldestDead)
			execute(t, db, `INSERT INTO __alkstore_live (queue, payload, state, priority, run_at, attempts, max_attempts, created_at)
				WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
				SELECT 'old', x'00', 'pending', 0, i, 0, 5, 0 FROM n`, rows)
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			together(t, children, "migrate", path)
			if n := children[0].must("count", path, "__alkstore_live"); n != strconv.Itoa(rows) {
				t.Errorf("%s: got %s jobs, want %d", name, n, rows)
			}
		}
	})
}

func TestMigrationKilled(t *testing.T) {
	const now = 1_700_000_000
	original := oldFile(t, now, bare(oldestLive), oldestDead)
	old, err := os.ReadFile(original) // no connection is open
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		content []byte // nil: there is no file yet
		steps   int    // at least: one for each statement
		want    string // what can be claimed
	}{
		"of_an_old_file": {old, 40, "[1 2 4]"},
		"of_a_new_file":  {nil, 20, "[]"},
	} {
		t.Run("K58_at_each_step_"+name, func(t *testing.T) {
			t.Parallel()
			for n := 1; ; n += sqlite.Slowness {
				path := newFile(t)
				if c.content != nil {
					if err := os.WriteFile(path, c.content, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				child := startChild(t)
				child.tell("die", path, strconv.Itoa(n))
				steps, died, err := child.answer()
				if err != nil {
					t.Fatalf("killed at step %d: %v", n, err)
				}
				s, err := sqlite.Open(t.Context(), path, sqlite.Options{Clock: func() int64 { return now }})
				if err != nil {
					t.Fatalf("open after a kill at step %d: %v", n, err)
				}
				if got := fmt.Sprint(ids(claim(t, s, "old", 10))); got != c.want {
					t.Errorf("claimed after a kill at step %d: got %s, want %s", n, got, c.want)
				}
				if _, err := s.Enqueue(t.Context(), []sqlstore.NewJob{newJob("new")}); err != nil {
					t.Errorf("enqueue after a kill at step %d: %v", n, err)
				}
				healthy(t, s)
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				if !died {
					if n < c.steps {
						t.Errorf("got %s steps, want one for each statement of the migration", steps)
					}
					t.Logf("%s steps", steps)
					return
				}
			}
		})
	}
}
