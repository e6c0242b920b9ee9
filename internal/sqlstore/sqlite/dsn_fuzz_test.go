package sqlite_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alkstore/alkworker/internal/sqlstore/sqlite"
)

// FuzzDSN: whatever a file is called, the DSN leads to it and to no other.
func FuzzDSN(f *testing.F) {
	for _, name := range []string{
		"plain.db", "with space", "what?", "50%", "%20", "#", "a&b=c", "a+b", ":memory:", "?mode=memory", "file:x", "täst",
		"\xff\xfe", "back\\slash", "it's", `"q"`, "tab\t", "new\nline", "a;b", "-x", "~", "$HOME", "*", "trailing ",
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if name == "" || name == "." || name == ".." || len(name) > 100 || strings.ContainsAny(name, "/\x00") {
			return
		}
		dir := t.TempDir()
		db, err := sql.Open("sqlite", sqlite.DSN(filepath.Join(dir, name), quick))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.ExecContext(t.Context(), "CREATE TABLE t (x)"); err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		there := false
		for _, e := range entries {
			there = there || e.Name() == name
			if !strings.HasPrefix(e.Name(), name) {
				t.Errorf("%q: there is a file %q", name, e.Name())
			}
		}
		if !there {
			t.Errorf("%q was not made", name)
		}
		if mode := value[string](t, db, "PRAGMA journal_mode"); mode != "wal" {
			t.Errorf("%q: the settings are lost: journal mode %s", name, mode)
		}
	})
}
