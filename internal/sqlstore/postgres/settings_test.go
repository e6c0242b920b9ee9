package postgres_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
)

// What an administrator has set for a role, a database or the server is meant for other programs.
func TestSettings(t *testing.T) {
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run("T6_default_transaction_isolation_"+level, func(t *testing.T) {
			server, ok := pgtest.NewServer(t, "default_transaction_isolation='"+level+"'")
			if !ok {
				return
			}
			for range 5 {
				openTogether(t, 8, server.New(t).DSN()) // T4
			}
			db := server.New(t)
			enqueue(t, open(t, db.DSN(), postgres.Options{}), jobs(500, newJob("q"))...)
			var workers sync.WaitGroup
			var done, failed atomic.Int64
			for range 8 {
				s := open(t, db.DSN(), postgres.Options{})
				workers.Go(func() {
					for done.Load() < 500 && failed.Load() == 0 {
						rows, err := s.ClaimBatch(t.Context(), claimOf("q", 10))
						if err != nil {
							failed.Add(1)
						}
						if _, err := s.AckBatch(t.Context(), handles(rows)); err != nil {
							failed.Add(1)
						}
						if err := s.Register(t.Context(), "a", everyMinute("q")); err != nil {
							failed.Add(1)
						}
						done.Add(int64(len(rows)))
					}
				})
			}
			workers.Wait()
			if n := failed.Load(); n > 0 {
				t.Errorf("%d calls failed, want none", n)
			}
		})
	}
	t.Run("E7_client_encoding", func(t *testing.T) {
		server, ok := pgtest.NewServer(t)
		if !ok {
			return
		}
		db := server.New(t)
		admin := must(pgx.Connect(t.Context(), server.URL))(t)
		defer func() { _ = admin.Close(context.WithoutCancel(t.Context())) }()
		must(admin.Exec(t.Context(), "ALTER ROLE postgres SET client_encoding = 'LATIN1'"))(t)
		s := open(t, db.DSN(), postgres.Options{})
		for _, queue := range []string{"größe", "寸法"} {
			enqueue(t, s, newJob(queue))
			must(s.Retry(t.Context(), []sqlstore.Retrial{{Handle: hold(t, s, queue), Error: "失敗", DeadText: "失敗"}}))(t)
			if rows := claim(t, s, queue, 10); len(rows) != 1 || rows[0].LastError == nil || *rows[0].LastError != "失敗" {
				t.Errorf("queue %s: got %+v, want its job with its error", queue, rows)
			}
		}
		if n := value[int](t, pool(t, db), "SELECT sum(octet_length(queue)) FROM __alkstore_live"); n != len("größe寸法") {
			t.Errorf("the names of the queues have %d bytes, want %d", n, len("größe寸法"))
		}
	})
}

// everyMinute registers a schedule whose first boundary is in the next second.
func everyMinute(queue string) func(now int64, have *sqlstore.Schedule) (*sqlstore.Schedule, error) {
	return func(now int64, _ *sqlstore.Schedule) (*sqlstore.Schedule, error) {
		return &sqlstore.Schedule{
			Queue: queue, Spec: "@every 1m", CatchUp: 1, NextFireAt: now + 1, Fire: sqlstore.FireOptions{Stamps: newJob("").Stamps},
		}, nil
	}
}
