package postgres_test

import (
	"context"
	"database/sql"
	"slices"
	"testing"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres"
)

// newJob is a job that is ready at once.
func newJob(queue string) sqlstore.NewJob {
	return sqlstore.NewJob{
		Queue: queue, Payload: []byte("payload"),
		Stamps: sqlstore.Stamps{VisibilityTimeoutS: 30, MaxAttempts: 3, BackoffBaseS: 5},
	}
}

func jobs(n int, j sqlstore.NewJob) []sqlstore.NewJob { return slices.Repeat([]sqlstore.NewJob{j}, n) }

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func second[T any](_ T, err error) error { return err }

func enqueue(t *testing.T, s sqlstore.Store, jobs ...sqlstore.NewJob) []int64 {
	t.Helper()
	return must(s.Enqueue(t.Context(), jobs))(t)
}

func claimOf(queue string, n int64) sqlstore.Claim {
	return sqlstore.Claim{
		Queue: queue, Claimant: "test", Limit: n, ExhaustedText: "max attempts exceeded", LapsedText: "lease lapsed",
	}
}

func claim(t *testing.T, s sqlstore.Store, queue string, n int64) []sqlstore.Row {
	t.Helper()
	return must(s.ClaimBatch(t.Context(), claimOf(queue, n)))(t)
}

// hold claims the job that is ready.
func hold(t *testing.T, s sqlstore.Store, queue string) sqlstore.Handle {
	t.Helper()
	rows := claim(t, s, queue, 1)
	if len(rows) != 1 {
		t.Fatalf("claim from %q: got %d jobs, want 1", queue, len(rows))
	}
	return handle(rows[0])
}

func handle(r sqlstore.Row) sqlstore.Handle { return sqlstore.Handle{ID: r.ID, Fence: r.Fence} }

func handles(rows []sqlstore.Row) []sqlstore.Handle {
	out := make([]sqlstore.Handle, len(rows))
	for i, r := range rows {
		out[i] = handle(r)
	}
	return out
}

func ids(rows []sqlstore.Row) []int64 {
	out := make([]int64, len(rows))
	for i, r := range rows {
		out[i] = r.ID
	}
	return out
}

func get(t *testing.T, s sqlstore.Store, id int64) sqlstore.Row {
	t.Helper()
	r := must(s.GetJob(t.Context(), id))(t)
	if r == nil {
		t.Fatalf("job %d is not there", id)
	}
	return *r
}

// healthy fails the test unless Check finds nothing and no connection is in use.
func healthy(t *testing.T, s *postgres.Store) {
	t.Helper()
	if problems := must(s.Check(t.Context()))(t); len(problems) > 0 {
		t.Errorf("problems: got %+v, want none", problems)
	}
	shared, reserved := s.Pools()
	if shared.AcquiredConns() > 0 || reserved.AcquiredConns() > 0 {
		t.Errorf("connections in use: got %d and %d, want none", shared.AcquiredConns(), reserved.AcquiredConns())
	}
}

// value reads one value beside the store.
func value[T any](t *testing.T, db *sql.DB, query string, args ...any) (v T) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

func begin(t *testing.T, db *sql.DB) *sql.Tx {
	t.Helper()
	tx := must(db.BeginTx(context.WithoutCancel(t.Context()), nil))(t)
	t.Cleanup(func() { _ = tx.Rollback() }) // of no effect after its end
	return tx
}
