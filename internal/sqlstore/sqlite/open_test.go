package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/sqlite"
)

// patient would wait an hour for a lock: what it answers at all, it answers at once.
var patient = sqlite.Options{BusyTimeout: time.Hour}

func TestOpenRefuses(t *testing.T) {
	folder := t.TempDir()
	file := func(name string, mode os.FileMode, content string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	dir := func(name string, mode os.FileMode) string {
		path := filepath.Join(folder, name)
		if err := errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	text := strings.Repeat("Dear diary, today I opened a text file as a database.\n", 200)
	readOnly, unavailable, corrupt := sqlstore.ErrReadOnly, sqlstore.ErrUnavailable, sqlstore.ErrCorrupt
	cut := "SQLite format 3\x00" + strings.Repeat("\x00", 84)
	sealed, plain := dir("0555", 0o555), file("plain", 0o600, "")
	tests := map[string]struct {
		path  string
		cause error
		says  string
	}{
		"K61_a_file_without_write_permission":        {file("0444.db", 0o444, ""), readOnly, "write permission"},
		"K61_a_new_file_in_a_read-only_directory":    {filepath.Join(sealed, "new.db"), readOnly, "write permission"},
		"K61_a_directory_that_does_not_exist":        {filepath.Join(folder, "missing", "new.db"), unavailable, "missing"},
		"K61_a_directory_as_path":                    {dir("jobs.db", 0o700), unavailable, "directory"},
		"K61_a_file_as_directory":                    {filepath.Join(plain, "new.db"), unavailable, "not a directory"},
		"K61_a_long_text_file":                       {file("long.txt", 0o600, text), corrupt, "not a database"},
		"K61_a_short_text_file":                      {file("short.txt", 0o600, "hi"), corrupt, "not a database"},
		"K61_a_text_file_of_a_page":                  {file("page.txt", 0o600, text[:4096]), corrupt, "not a database"},
		"K61_a_database_cut_off":                     {file("cut.db", 0o600, cut), corrupt, "database"},
		"K61_a_path_with_a_NUL_byte":                 {folder + "/a\x00b", nil, "NUL"},
		"K61_an_empty_path_is_the_working_directory": {"", unavailable, "directory"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			var before []byte
			if strings.HasPrefix(name, "K61_a_long") || strings.HasPrefix(name, "K61_a_short") {
				before = must(os.ReadFile(c.path))(t)
			}
			s, err := sqlite.Open(t.Context(), c.path, patient)
			if err == nil {
				t.Fatalf("open %q: got no error; close: %v", c.path, s.Close())
			}
			if c.cause != nil && !errors.Is(err, c.cause) {
				t.Errorf("got %v, want a cause of %v", err, c.cause)
			}
			if !strings.Contains(err.Error(), strings.Trim(filepath.Base(c.path), "\x00b")) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %q, want the path and %q in it", err, c.says)
			}
			var typed *sqlstore.Error
			if !errors.As(err, &typed) || !strings.HasPrefix(typed.Op, "open") {
				t.Errorf("T5: got %#v, want a *sqlstore.Error of the operation open", err)
			}
			if before != nil && !bytes.Equal(must(os.ReadFile(c.path))(t), before) {
				t.Error("the refused file has been changed")
			}
		})
	}
	t.Run("K61_nothing_is_left_behind", func(t *testing.T) {
		for _, pattern := range []string{"*-wal", "*-shm", "*-journal", ".alkworker-*", "0555/*"} {
			if left, err := filepath.Glob(filepath.Join(folder, pattern)); err != nil || len(left) > 0 {
				t.Errorf("%s: %v, %v", pattern, left, err)
			}
		}
	})
	t.Run("K42_options_that_make_no_sense", func(t *testing.T) {
		path := newFile(t)
		_, err := sqlite.Open(t.Context(), path, sqlite.Options{BusyTimeout: -1, Synchronous: "OFF"})
		if err == nil || !strings.Contains(err.Error(), "busy timeout") || !strings.Contains(err.Error(), "OFF") {
			t.Errorf("got %v, want both problems", err)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a file was made: %v", err)
		}
	})
	t.Run("T6_a_cancelled_open", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := sqlite.Open(ctx, newFile(t), sqlite.Options{}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
	})
}

func TestPathIsLiteral(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{
		"plain.db", "with space.db", "what?.db", "50%.db", "%20.db", "hash#tag.db", "a&b=c.db", "a+b.db", "a;b.db", "täst 日本.db",
		`it's "quoted".db`, "`tick`.db", "-leading.db", "--db.db", "file:x.db", "sqlite:x.db", ":memory:", "?mode=memory",
		"file::memory:?cache=shared", "tab\tand\nline.db", "back\\slash.db", "~home.db", "$HOME.db", "*.db", "trailing ",
		"\xff\xfe.db",
	} {
		path := filepath.Join(folder, name)
		func() {
			s, err := sqlite.Open(t.Context(), path, quick)
			if err != nil {
				t.Errorf("open %q: %v", name, err)
				return
			}
			defer s.Close()
			id := enqueue(t, s, newJob("q"))[0]
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%q: %v", name, err)
			}
			db := pool(t, path)
			if n := value[int64](t, db, "SELECT count(*) FROM __alkstore_live"); n != 1 {
				t.Errorf("%q through DSN: got %d jobs, want 1", name, n)
			}
			other, err := sqlite.OpenDB(t.Context(), db, quick)
			if err != nil {
				t.Errorf("OpenDB %q: %v", name, err)
				return
			}
			defer other.Close()
			if r := get(t, other, id); r.ID != id {
				t.Errorf("%q through OpenDB: got %+v", name, r)
			}
			backup := path + ".copy"
			if err := s.Backup(t.Context(), backup); err != nil {
				t.Errorf("backup of %q: %v", name, err)
			}
			if _, err := os.Stat(backup); err != nil {
				t.Errorf("backup of %q: %v", name, err)
			}
		}()
	}
	t.Run("relative_to_the_directory_of_the_call", func(t *testing.T) {
		t.Chdir(folder)
		s := open(t, "-relative.db", quick)
		t.Chdir(t.TempDir()) // later connections must not look there
		enqueue(t, s, newJob("q"))
		if n := len(must(s.ListJobs(t.Context(), sqlstore.Filter{Limit: 10}))(t)); n != 1 {
			t.Errorf("got %d jobs, want 1", n)
		}
		if _, err := os.Stat(filepath.Join(folder, "-relative.db")); err != nil {
			t.Error(err)
		}
	})
}

// foreign is a driver of somebody else.
type foreign struct{}

func (foreign) Open(string) (driver.Conn, error) { return nil, errors.New("not reached") }

func (f foreign) Connect(context.Context) (driver.Conn, error) { return f.Open("") }

func (f foreign) Driver() driver.Driver { return f }

func TestOpenDB(t *testing.T) {
	t.Run("K66_a_pool_of_another_driver_is_refused", func(t *testing.T) {
		db := sql.OpenDB(foreign{})
		defer db.Close()
		if _, err := sqlite.OpenDB(t.Context(), db, quick); !errors.Is(err, sqlstore.ErrUnsupported) {
			t.Errorf("got %v, want ErrUnsupported", err)
		}
	})
	t.Run("K68_a_database_in_memory_is_refused", func(t *testing.T) {
		for _, dsn := range []string{":memory:", "file::memory:?cache=shared", "file:x?mode=memory", ""} {
			db := must(sql.Open("sqlite", dsn))(t)
			if _, err := sqlite.OpenDB(t.Context(), db, quick); !errors.Is(err, sqlstore.ErrUnsupported) {
				t.Errorf("%q: got %v, want ErrUnsupported", dsn, err)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("a_pool_of_one_connection_is_enough", func(t *testing.T) {
		db := pool(t, newFile(t))
		db.SetMaxOpenConns(1)
		s := must(sqlite.OpenDB(t.Context(), db, quick))(t)
		enqueue(t, s, newJob("q"))
		tx := must(db.BeginTx(t.Context(), nil))(t)
		must(s.EnqueueTx(t.Context(), tx, jobs(2, newJob("q"))))(t)
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if n := len(claim(t, s, "q", 10)); n != 3 {
			t.Errorf("claimed %d jobs, want 3", n)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := db.PingContext(t.Context()); err != nil {
			t.Errorf("pool of the caller after Close: %v", err)
		}
	})
	t.Run("a_pool_that_is_not_in_WAL_mode", func(t *testing.T) {
		path := newFile(t)
		db := must(sql.Open("sqlite", "file:"+path))(t)
		defer db.Close()
		execute(t, db, "CREATE TABLE orders (id INTEGER PRIMARY KEY)")
		s := must(sqlite.OpenDB(t.Context(), db, quick))(t)
		defer s.Close()
		enqueue(t, s, newJob("q"))
		if n := value[int64](t, db, "SELECT count(*) FROM __alkstore_live"); n != 1 {
			t.Errorf("jobs that the pool sees: got %d, want 1", n)
		}
		if mode := value[string](t, db, "PRAGMA journal_mode"); mode != "wal" {
			t.Errorf("journal mode: got %s, want wal", mode)
		}
	})
}
