package postgres_test

import (
	"database/sql"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres"
)

const millionDead = `INSERT INTO __alkstore_dead (id, queue, priority, run_at, created_at, attempts, max_attempts,
	visibility_timeout_s, backoff_base_s, fence, died_at, last_error, payload)
	SELECT 100000000 + i, 'mail', 0, 1700000000, 1700000000, 1, 20, 30, 5, 1, 1700000000, 'x', decode(repeat('00', 100), 'hex')
	FROM generate_series(1, 1000000) AS i`

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
		{"dead=1000000", millionDead},
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

// BenchmarkDrainAmongTheDead enqueues and drains b.N jobs while what is gone of them cannot be taken away, or not yet, and
// then some more when it was: the rates are those of the first and the last round until then, and of the last one after.
func BenchmarkDrainAmongTheDead(b *testing.B) {
	for _, c := range []struct{ name, prepare, hold string }{
		{name: "vacuumed"},
		{name: "autovacuum_is_late", prepare: "ALTER TABLE __alkstore_live SET (autovacuum_enabled = off)"},
		{name: "a_transaction_is_open", hold: "SELECT count(*) FROM __alkstore_live"},
		{name: "million_dead_letters", prepare: millionDead},
	} {
		b.Run(c.name, func(b *testing.B) {
			s, db := benchStore(b)
			pool, err := sql.Open("pgx", db.SearchPath())
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = pool.Close() }()
			execute := func(statement string) {
				if _, err := pool.ExecContext(b.Context(), statement); err != nil {
					b.Fatal(err)
				}
			}
			if c.prepare != "" {
				execute(c.prepare)
			}
			release := func() error { return nil }
			if c.hold != "" {
				tx, err := pool.BeginTx(b.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = tx.Rollback() }()
				if _, err := tx.ExecContext(b.Context(), c.hold); err != nil {
					b.Fatal(err)
				}
				release = tx.Rollback
			}
			const round = 20_000
			rate := func() float64 {
				fill(b, s, round)
				began := time.Now()
				drain(b, s, round)
				took := time.Since(began)
				if _, _, err := s.NextReady(b.Context(), []string{"mail"}); err != nil {
					b.Fatal(err)
				}
				return round / took.Seconds()
			}
			b.ResetTimer()
			first := rate()
			last := first
			for done := round; done < b.N; done += round {
				last = rate()
			}
			b.StopTimer()
			b.ReportMetric(first, "jobs/s-first")
			b.ReportMetric(last, "jobs/s-last")
			if err := release(); err != nil {
				b.Fatal(err)
			}
			execute("VACUUM __alkstore_live")
			for range 2 {
				last = rate()
			}
			b.ReportMetric(last, "jobs/s-after")
		})
	}
}

// drain claims and acks n jobs, a hundred at a time.
func drain(b *testing.B, s *postgres.Store, n int) {
	b.Helper()
	for n > 0 {
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
		n -= len(rows)
	}
}
