package queue

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestSQLitePath(t *testing.T) {
	for dsn, want := range map[string]string{
		"jobs.db":               "jobs.db",
		"sqlite:jobs.db":        "jobs.db",
		"sqlite:sqlite:jobs.db": "sqlite:jobs.db",
		"./:memory:":            "./:memory:",
		"/a b/ü?x=1&#%20.db":    "/a b/ü?x=1&#%20.db",
		"file:jobs.db?mode=ro":  "file:jobs.db?mode=ro",
		`C:\data\jobs.db`:       `C:\data\jobs.db`,
		"mysql://host/db":       "mysql://host/db",
	} {
		if got, err := sqlitePath(dsn); got != want || err != nil {
			t.Errorf("%s: got %q, %v; want %q", dsn, got, err, want)
		}
	}
	for dsn, want := range map[string]error{
		"": ErrInvalid, "sqlite:": ErrInvalid, ":memory:": ErrInvalid, "sqlite::memory:": ErrInvalid, "a\x00b": ErrInvalid,
	} {
		_, err := sqlitePath(dsn)
		if msg := fmt.Sprint(err); !errors.Is(err, want) || strings.Contains(msg, "secret") {
			t.Errorf("%s: got %v, want %v and no password", dsn, err, want)
		}
	}
}

func TestPostgresAddress(t *testing.T) {
	for dsn, want := range map[string]bool{
		"postgres://u:secret@host/db": true, "postgresql://host": true, "postgres:": false, "sqlite:postgres://x": false,
		"./postgres://x": false, "postgres.db": false, "": false,
	} {
		if got := isPostgres(dsn); got != want {
			t.Errorf("%s: got %v, want %v", dsn, got, want)
		}
	}
}

// FuzzSQLitePath: a DSN is refused, or it is a path and nothing of it is lost. No error shows a password.
func FuzzSQLitePath(f *testing.F) {
	for _, dsn := range []string{
		"", "jobs.db", "sqlite:", "sqlite:jobs.db", "sqlite::memory:", ":memory:", "postgres://u:secret@h/db",
		"postgresql://u:secret@h", "POSTGRES://u:secret@h", "a\x00b", "file:x?mode=memory", "\xff", "/a b/?&#%20",
	} {
		f.Add(dsn)
	}
	f.Fuzz(func(t *testing.T, dsn string) {
		path, err := sqlitePath(dsn)
		switch {
		case err != nil:
			if !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrUnsupported) {
				t.Errorf("%q: got %v, want ErrInvalid or ErrUnsupported", dsn, err)
			}
			if _, secret, ok := strings.Cut(dsn, "://"); ok && errors.Is(err, ErrUnsupported) && len(secret) > 8 &&
				strings.Contains(err.Error(), secret) {
				t.Errorf("%q: the error shows it: %v", dsn, err)
			}
		case path == "" || strings.ContainsRune(path, 0) || path != dsn && "sqlite:"+path != dsn:
			t.Errorf("%q: got path %q", dsn, path)
		}
	})
}
