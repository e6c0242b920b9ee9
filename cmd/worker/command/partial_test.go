package command_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/alkstore/alkworker/cmd/worker/command"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
)

// A command that is stopped while it waits for a job that somebody has locked says what it has done to the others.
func TestPartOfTheWork(t *testing.T) {
	db, ok := pgtest.New(t)
	if !ok {
		return
	}
	call(t.Context(), t, db.DSN(), nil, "enqueue", "q", "x")
	call(t.Context(), t, db.DSN(), nil, "enqueue", "q", "x")
	beside, err := sql.Open("pgx", db.SearchPath())
	must(t, err)
	defer func() { _ = beside.Close() }()
	_, err = beside.ExecContext(t.Context(), "UPDATE __alkstore_live SET expires_at = 1")
	must(t, err)
	for _, step := range []struct {
		table string // has both jobs
		args  []string
		want  string
	}{
		{"live", []string{"sweep", "--json"}, `"expired":1`},
		{"dead", []string{"purge", "--queue", "q", "--all"}, "1 jobs were purged, then: "},
	} {
		tx, err := beside.BeginTx(context.WithoutCancel(t.Context()), nil)
		must(t, err)
		_, err = tx.ExecContext(t.Context(), "SELECT 1 FROM __alkstore_"+step.table+" WHERE id = 1 FOR UPDATE")
		must(t, err)
		ctx, stop := context.WithCancel(t.Context())
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			defer stop()
			look := time.NewTicker(5 * time.Millisecond)
			defer look.Stop()
			for left := 2; left > 1; <-look.C {
				if beside.QueryRowContext(ctx, "SELECT count(*) FROM __alkstore_"+step.table).Scan(&left) != nil {
					return
				}
			}
		}()
		status, out, errs := call(ctx, t, db.DSN(), nil, step.args...)
		stop()
		<-watched
		if status != command.ExitFailed || !strings.Contains(out+errs, step.want) {
			t.Errorf("%v: got status %d, %q and %q, want %d and %q", step.args, status, out, errs, command.ExitFailed, step.want)
		}
		must(t, tx.Rollback())
		call(t.Context(), t, db.DSN(), nil, "sweep")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
