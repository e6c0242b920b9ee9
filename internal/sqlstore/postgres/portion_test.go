package postgres_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
)

// What is too much for the six seconds that a claim has is asked for in smaller portions, until it is not.
func TestTooMuchForOneClaim(t *testing.T) {
	t.Parallel() // most of it is waiting
	for name, tc := range map[string]struct {
		kind sqlstore.ClaimKind
		edit string // of jobs 1 to 20; job 21 is as it was enqueued
		slow string // what takes half a second for each row
	}{
		"jobs": {sqlstore.AnyJob, "", "UPDATE ON __alkstore_live"},
		"proven_jobs_beside_a_spent_one": {
			sqlstore.OnlyProven, "UPDATE __alkstore_live SET attempts = max_attempts WHERE id = 1", "UPDATE ON __alkstore_live",
		},
		"C6_spent_jobs": {
			sqlstore.OnlyProven, "UPDATE __alkstore_live SET attempts = max_attempts WHERE id < 21", "INSERT ON __alkstore_dead",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, ok := pgtest.New(t)
			if !ok {
				return
			}
			s, beside := open(t, db.DSN(), postgres.Options{}), pool(t, db)
			enqueue(t, s, jobs(21, newJob("q"))...)
			if tc.edit != "" {
				execute(t, beside, tc.edit)
			}
			execute(t, beside, `CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql
				AS $$ BEGIN PERFORM pg_sleep(0.5); RETURN NEW; END $$`)
			execute(t, beside, fmt.Sprintf("CREATE TRIGGER slowly BEFORE %s FOR EACH ROW EXECUTE FUNCTION slowly()", tc.slow))
			c := claimOf("q", 16)
			c.Kind = tc.kind
			for range 4 {
				rows, err := s.ClaimBatch(t.Context(), c)
				if len(rows) > 0 {
					return
				}
				if !errors.Is(err, sqlstore.ErrUnavailable) {
					t.Fatalf("claim: got no jobs and %v, want some, or that the server has not answered", err)
				}
			}
			t.Error("nothing was claimed in four tries")
		})
	}
}
