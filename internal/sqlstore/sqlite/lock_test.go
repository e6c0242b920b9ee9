package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/sqlite"
)

// POSIX locks belong to the process and to the file: a process that opens and closes the file of a database, for a look
// at its size or a copy, has thrown away every lock that SQLite holds on it, and another process may take the database
// apart under its feet.
func TestLocksAreKept(t *testing.T) {
	path := newFile(t)
	other := startChild(t)
	s := open(t, path, quick)
	beside := pool(t, path)
	enqueue(t, s, newJob("q"))
	tx := begin(t, beside)
	must(s.EnqueueTx(t.Context(), tx, jobs(1, newJob("q"))))(t)
	if got := other.must("lock", path); got != "" {
		t.Fatalf("another process gets the locks of a transaction that is open: %s", got)
	}
	for name, do := range map[string]func() error{
		"open and close": func() error {
			again, err := sqlite.Open(t.Context(), path, quick)
			if err != nil {
				return err
			}
			return again.Close()
		},
		"open by pool": func() error {
			again, err := sqlite.OpenDB(t.Context(), beside, quick)
			if err != nil {
				return err
			}
			return again.Close()
		},
		"open, refused": func() error {
			_, err := sqlite.Open(t.Context(), path, sqlite.Options{Synchronous: "OFF"})
			if err == nil {
				return errors.New("was not refused")
			}
			return nil
		},
		"open of a file beside it": func() error {
			again, err := sqlite.Open(t.Context(), filepath.Join(filepath.Dir(path), "other.db"), quick)
			if err != nil {
				return err
			}
			return again.Close()
		},
		"read":   func() error { return second(s.Stats(t.Context())) },
		"check":  func() error { return second(s.Check(t.Context())) },
		"backup": func() error { return s.Backup(t.Context(), path+".copy") },
		"backup onto itself": func() error {
			if err := s.Backup(t.Context(), path); !errors.Is(err, os.ErrExist) {
				return errors.Join(errors.New("was not refused"), err)
			}
			return nil
		},
		"a write that is busy": func() error {
			again, err := sqlite.Open(t.Context(), path, impatient)
			if err != nil {
				return err
			}
			if _, err := again.Enqueue(t.Context(), jobs(1, newJob("q"))); !errors.Is(err, sqlstore.ErrBusy) {
				return errors.Join(errors.New("was not busy"), err, again.Close())
			}
			return again.Close()
		},
		"stat": func() error { return second(os.Stat(path)) },
	} {
		t.Run("K66_"+name, func(t *testing.T) {
			if err := do(); err != nil {
				t.Error(err)
			}
			if got := other.must("lock", path); got != "" {
				t.Errorf("another process now gets the lock of: %s", got)
			}
		})
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if n := len(must(s.ListJobs(t.Context(), sqlstore.Filter{Limit: 9}))(t)); n != 2 {
		t.Errorf("got %d jobs, want 2", n)
	}
	t.Run("K66_this_test_would_notice", func(t *testing.T) {
		path := newFile(t)
		tx := begin(t, pool(t, path))
		if _, err := tx.ExecContext(t.Context(), "CREATE TABLE orders (id)"); err != nil {
			t.Fatal(err)
		}
		if got := other.must("lock", path); got != "" {
			t.Fatalf("another process gets: %s", got)
		}
		for _, step := range [][2]string{{path + "-shm", "write "}, {path, "write database "}} {
			must(os.ReadFile(step[0]))(t) // which nobody may ever do
			if got := other.must("lock", path); got != step[1] {
				t.Errorf("after reading %s: another process gets %q, want %q", step[0], got, step[1])
			}
		}
	})
}
