package postgres_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
	"github.com/alkstore/alkworker/internal/sqlstore/storetest"
)

func TestConformance(t *testing.T) {
	if _, ok := pgtest.New(t); !ok {
		return
	}
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		db, _ := pgtest.New(t)
		return harness(t, db, func(t *testing.T, o postgres.Options) *postgres.Store { return open(t, db.DSN(), o) })
	})
}

// harness is a store on db, however it is opened, and what may be done to it from beside.
func harness(
	t *testing.T, db pgtest.Database, open func(t *testing.T, o postgres.Options) *postgres.Store,
) storetest.Harness {
	clock := storetest.NewClock()
	options := postgres.Options{Clock: clock.Now, BusyTimeout: time.Minute}
	beside := pool(t, db)
	return storetest.Harness{
		Store:  open(t, options),
		Clock:  clock,
		Second: func(t *testing.T) sqlstore.Store { return open(t, options) },
		Begin: func(t *testing.T) storetest.Tx {
			tx, err := beside.BeginTx(context.WithoutCancel(t.Context()), nil)
			if err != nil {
				t.Fatal(err)
			}
			return storetest.Tx{Tx: tx, Commit: tx.Commit, Rollback: tx.Rollback}
		},
		FailDeath: func(t *testing.T, step storetest.DeathStep) func() {
			event, table := "INSERT", "__alkstore_dead"
			if step == storetest.DeleteLive {
				event, table = "DELETE", "__alkstore_live"
			}
			execute(t, beside, fmt.Sprintf(`CREATE FUNCTION fault() RETURNS trigger LANGUAGE plpgsql
				AS $$ BEGIN RAISE EXCEPTION '%s'; END $$`, storetest.Injected))
			execute(t, beside, fmt.Sprintf("CREATE TRIGGER fault BEFORE %s ON %s FOR EACH ROW EXECUTE FUNCTION fault()",
				event, table))
			return func() {
				execute(t, beside, "DROP TRIGGER fault ON "+table)
				execute(t, beside, "DROP FUNCTION fault")
			}
		},
		Edit: func(t *testing.T, id int64, column string, value any) {
			execute(t, beside, fmt.Sprintf("UPDATE __alkstore_live SET %q = $1 WHERE id = $2", column), value, id)
		},
	}
}

func open(t *testing.T, dsn string, o postgres.Options) *postgres.Store {
	t.Helper()
	return openStore(t, postgres.Open, dsn, o)
}

func openStore(
	t *testing.T, how func(context.Context, string, postgres.Options) (*postgres.Store, error), dsn string, o postgres.Options,
) *postgres.Store {
	t.Helper()
	s, err := how(t.Context(), dsn, o)
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

// pool is a pool of a user on the same database, in which tables need no schema.
func pool(t *testing.T, db pgtest.Database) *sql.DB {
	t.Helper()
	p, err := sql.Open("pgx", db.SearchPath())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close pool: %v", err)
		}
	})
	return p
}

func execute(t *testing.T, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}
