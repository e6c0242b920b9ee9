package postgres_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
)

func benchStore(b *testing.B) (*postgres.Store, pgtest.Database) {
	b.Helper()
	db, ok := pgtest.New(b)
	if !ok {
		b.FailNow()
	}
	s, err := postgres.Open(b.Context(), db.DSN(), postgres.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s, db
}

func benchJob() sqlstore.NewJob {
	return sqlstore.NewJob{
		Queue: "mail", Payload: make([]byte, 100),
		Stamps: sqlstore.Stamps{VisibilityTimeoutS: 30, MaxAttempts: 20, BackoffBaseS: 5, DeadLetterRetentionS: new(int64(7_776_000))},
	}
}

func BenchmarkEnqueue(b *testing.B) {
	for _, callers := range []int{1, 8, 64, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			s, _ := benchStore(b)
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ResetTimer()
			var all errgroup.Group
			for range callers {
				all.Go(func() error {
					for left.Add(-1) >= 0 {
						if _, err := s.Enqueue(b.Context(), []sqlstore.NewJob{benchJob()}); err != nil {
							return err
						}
					}
					return nil
				})
			}
			if err := all.Wait(); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}

func BenchmarkEnqueueMany(b *testing.B) {
	for _, size := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprintf("jobs=%d", size), func(b *testing.B) {
			s, _ := benchStore(b)
			batch := make([]sqlstore.NewJob, size)
			for i := range batch {
				batch[i] = benchJob()
			}
			b.ResetTimer()
			for range b.N {
				if _, err := s.Enqueue(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}

func BenchmarkDrain(b *testing.B) {
	for _, c := range []struct{ callers, batch int }{{1, 100}, {2, 100}, {4, 100}, {4, 500}, {8, 16}} {
		b.Run(fmt.Sprintf("callers=%d,batch=%d", c.callers, c.batch), func(b *testing.B) {
			s, _ := benchStore(b)
			fill(b, s, b.N)
			b.ResetTimer()
			var all errgroup.Group
			for range c.callers {
				all.Go(func() error {
					for {
						rows, err := s.ClaimBatch(b.Context(), sqlstore.Claim{
							Queue: "mail", Claimant: "bench", Limit: int64(c.batch), Kind: sqlstore.OnlyProven,
						})
						if err != nil || len(rows) == 0 {
							return err
						}
						handles := make([]sqlstore.Handle, len(rows))
						for i, r := range rows {
							handles[i] = sqlstore.Handle{ID: r.ID, Fence: r.Fence}
						}
						if _, err := s.AckBatch(b.Context(), handles); err != nil {
							return err
						}
					}
				})
			}
			if err := all.Wait(); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}

func fill(b *testing.B, s *postgres.Store, n int) {
	b.Helper()
	batch := make([]sqlstore.NewJob, 0, 10_000)
	for i := range n {
		batch = append(batch, benchJob())
		if len(batch) == cap(batch) || i == n-1 {
			if _, err := s.Enqueue(b.Context(), batch); err != nil {
				b.Fatal(err)
			}
			batch = batch[:0]
		}
	}
}
