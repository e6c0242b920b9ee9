package sqlite_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/sqlite"
	"github.com/alkstore/alkworker/internal/sqlstore/storetest"
)

func TestConformance(t *testing.T) { storetest.Run(t, harness) }

func harness(t *testing.T) storetest.Harness {
	path := filepath.Join(t.TempDir(), "queue.db")
	clock := storetest.NewClock()
	// The suite has a crowd of handles on one file, and judges answers, not durability or patience.
	options := sqlite.Options{Clock: clock.Now, Synchronous: "NORMAL", BusyTimeout: time.Minute}
	beside := pool(t, path)
	return storetest.Harness{
		Store:  open(t, path, options),
		Clock:  clock,
		Second: func(t *testing.T) sqlstore.Store { return open(t, path, options) },
		Begin: func(t *testing.T) storetest.Tx {
			tx, err := beside.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			return storetest.Tx{Tx: tx, Commit: tx.Commit, Rollback: tx.Rollback}
		},
		FailDeath: func(t *testing.T, step storetest.DeathStep) func() {
			event := "INSERT ON __alkstore_dead"
			if step == storetest.DeleteLive {
				event = "DELETE ON __alkstore_live"
			}
			execute(t, beside, fmt.Sprintf("CREATE TRIGGER fault BEFORE %s BEGIN SELECT RAISE(FAIL, '%s'); END",
				event, storetest.Injected))
			return func() { execute(t, beside, "DROP TRIGGER fault") }
		},
		Edit: func(t *testing.T, id int64, column string, value any) {
			execute(t, beside, fmt.Sprintf("UPDATE __alkstore_live SET %q = ? WHERE id = ?", column), value, id)
		},
	}
}

func open(t *testing.T, path string, o sqlite.Options) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// pool is a pool of a user on the same file.
func pool(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", sqlite.DSN(path, sqlite.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close pool: %v", err)
		}
	})
	return db
}

func execute(t *testing.T, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}
