package postgres_test

import (
	"database/sql"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// BenchmarkClaimAtDepth claims and acks a hundred jobs at a time from a queue that holds much else. The numbers beside
// the mean are percentiles of a claim.
func BenchmarkClaimAtDepth(b *testing.B) {
	const live = `INSERT INTO __alkstore_live (queue, priority, run_at, created_at, max_attempts, visibility_timeout_s, backoff_base_s,
		state, claim_expires_at, payload, attempts) SELECT 'mail', %s, %s, 1700000000, 20, 30, 5, %s, %s, decode(repeat('00', 100), 'hex'), 0
		FROM generate_series(1, 1000000)`
	for _, c := range []struct{ name, fill string }{
		{"ready=10000", ""},
		{"ready=1000000", fmt.Sprintf(live, "0", "1700000000", "'pending'", "NULL::bigint")},
		{"delayed=1000000", fmt.Sprintf(live, "0", "9900000000", "'pending'", "NULL::bigint")},
		{"delayed_of_a_higher_priority=1000000", fmt.Sprintf(live, "9", "9900000000", "'pending'", "NULL::bigint")},
		{"in_process=1000000", fmt.Sprintf(live, "0", "1700000000", "'processing'", "9900000000")},
		{"dead=1000000", `INSERT INTO __alkstore_dead (id, queue, priority, run_at, created_at, attempts, max_attempts, visibility_timeout_s,
			backoff_base_s, fence, died_at, last_error, payload) SELECT 100000000 + i, 'mail', 0, 1700000000, 1700000000, 1, 20, 30, 5, 1,
			1700000000, 'x', decode(repeat('00', 100), 'hex') FROM generate_series(1, 1000000) AS i`},
	} {
		b.Run(c.name, func(b *testing.B) {
			s, db := benchStore(b)
			beside, err := sql.Open("pgx", db.SearchPath())
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = beside.Close() }()
			if c.fill != "" {
				if _, err := beside.ExecContext(b.Context(), c.fill); err != nil {
					b.Fatal(err)
				}
			}
			fill(b, s, 100*(b.N+2))
			if _, err := beside.ExecContext(b.Context(), "CHECKPOINT"); err != nil {
				b.Fatal(err)
			}
			var took []time.Duration
			b.ResetTimer()
			for i := range b.N + 1 {
				began := time.Now()
				rows, err := s.ClaimBatch(b.Context(), sqlstore.Claim{
					Queue: "mail", Claimant: "bench", Limit: 100, Kind: sqlstore.OnlyProven, LapsedText: "l", ExhaustedText: "e",
				})
				if err != nil || len(rows) != 100 {
					b.Fatalf("claimed %d jobs, %v", len(rows), err)
				}
				if i > 0 { // the first one has to prepare
					took = append(took, time.Since(began))
				}
				handles := make([]sqlstore.Handle, len(rows))
				for i, r := range rows {
					handles[i] = sqlstore.Handle{ID: r.ID, Fence: r.Fence}
				}
				if _, err := s.AckBatch(b.Context(), handles); err != nil {
					b.Fatal(err)
				}
			}
			slices.Sort(took)
			for _, p := range []int{50, 99} {
				b.ReportMetric(float64(took[len(took)*p/100].Microseconds())/1000, fmt.Sprintf("ms/claim-p%d", p))
			}
		})
	}
}

// BenchmarkDrainBesideOpenTransaction drains a queue while a transaction elsewhere keeps everything that is gone from being
// taken away.
func BenchmarkDrainBesideOpenTransaction(b *testing.B) {
	for _, beside := range []bool{false, true} {
		b.Run(fmt.Sprintf("open=%v", beside), func(b *testing.B) {
			s, db := benchStore(b)
			pool, err := sql.Open("pgx", db.SearchPath())
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = pool.Close() }()
			if beside {
				tx, err := pool.BeginTx(b.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = tx.Rollback() }()
				if _, err := tx.ExecContext(b.Context(), "SELECT count(*) FROM __alkstore_live"); err != nil {
					b.Fatal(err)
				}
			}
			b.ResetTimer()
			const round = 20_000
			var first, last time.Duration
			for done := 0; done < b.N; done += round {
				fill(b, s, round)
				began := time.Now()
				for n := 0; n < round; {
					rows, err := s.ClaimBatch(b.Context(), sqlstore.Claim{Queue: "mail", Claimant: "bench", Limit: 100, Kind: sqlstore.OnlyProven})
					if err != nil {
						b.Fatal(err)
					}
					handles := make([]sqlstore.Handle, len(rows))
					for i, r := range rows {
						handles[i] = sqlstore.Handle{ID: r.ID, Fence: r.Fence}
					}
					if _, err := s.AckBatch(b.Context(), handles); err != nil {
						b.Fatal(err)
					}
					n += len(rows)
				}
				if last = time.Since(began); done == 0 {
					first = last
				}
				if _, _, err := s.NextReady(b.Context(), []string{"mail"}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(round/first.Seconds(), "jobs/s-first")
			b.ReportMetric(round/last.Seconds(), "jobs/s-last")
		})
	}
}
