package postgres_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
)

// After a crash of many workers, or of one with large jobs, a claim has more to bury than there is time for in one call.
func TestManySpent(t *testing.T) {
	for name, tc := range map[string]struct{ jobs, bytes int }{
		"C6_more_jobs_than_one_claim_buries":     {100_000, 10},
		"C6_more_payload_than_one_claim_carries": {40, 16 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			db, ok := pgtest.New(t)
			if !ok {
				return
			}
			s := open(t, db.DSN(), postgres.Options{})
			beside := pool(t, db)
			execute(t, beside, fmt.Sprintf(`
				INSERT INTO __alkstore_live (
					queue, state, attempts, claimant, claimed_at, claim_expires_at, fence, priority, run_at, created_at,
					max_attempts, visibility_timeout_s, backoff_base_s, payload
				)
				SELECT 'q', 'processing', 1, 'w', 1700000000, 1700000030, 1, 0, 1700000000, 1700000000, 1, 30, 5,
					convert_to(repeat('x', %d), 'UTF8')
				FROM generate_series(1, %d)`, tc.bytes, tc.jobs))
			good := enqueue(t, s, newJob("q"))
			rows, err := s.ClaimBatch(t.Context(), claimOf("q", 10))
			for tries := 1; errors.Is(err, sqlstore.ErrUnavailable) && tries < 4; tries++ { // too much for a slow machine
				rows, err = s.ClaimBatch(t.Context(), claimOf("q", 10))
			}
			if err != nil || len(rows) != 1 || rows[0].ID != good[0] {
				t.Errorf("claimed %d jobs, %v, want the one that has attempts left", len(rows), err)
			}
			dead := value[int](t, beside, "SELECT count(*) FROM __alkstore_dead")
			if dead == 0 || dead == tc.jobs {
				t.Errorf("%d of %d jobs are buried by one claim, want a part", dead, tc.jobs)
			}
		})
	}
}
