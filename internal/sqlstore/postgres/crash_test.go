package postgres_test

import (
	"errors"
	"testing"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
)

// K87: the server dies under load and comes back. What was acknowledged is there, and work goes on by itself.
func TestServerDies(t *testing.T) {
	server, ok := pgtest.NewServer(t)
	if !ok {
		return
	}
	t.Run("K87_nothing_acknowledged_is_lost_and_claims_resume", func(t *testing.T) {
		const crashes = 3
		l := startLoad(t, server.New(t).DSN())
		for range crashes {
			l.moves(t)
			if err := server.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
			l.resumes(t, "the server was back")
		}
		l.end(t)
	})
	t.Run("K38_goroutines_and_connections_are_flat_while_the_server_is_away", func(t *testing.T) {
		db := server.New(t)
		s := open(t, db.DSN(), postgres.Options{})
		enqueue(t, s, newJob("q"))
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		until(t, "its children have noticed", func() bool { return second(s.ClaimBatch(t.Context(), claimOf("none", 1))) != nil })
		for range 300 {
			_, err := s.ClaimBatch(t.Context(), claimOf("q", 1))
			var typed *sqlstore.Error
			if !errors.Is(err, sqlstore.ErrUnavailable) || !errors.As(err, &typed) || typed.Queue != "q" {
				t.Fatalf("claim: got %v, want ErrUnavailable about the queue", err)
			}
		}
		shared, reserved := s.Pools()
		if shared.TotalConns() > 0 || reserved.TotalConns() > 0 {
			t.Errorf("connections: got %d and %d, want none", shared.TotalConns(), reserved.TotalConns())
		}
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		if n := len(claim(t, s, "q", 1)); n != 1 {
			t.Errorf("claimed: got %d jobs, want 1", n)
		}
	})
	t.Run("K87_a_server_that_was_demoted_may_be_replaced", func(t *testing.T) {
		db := server.New(t)
		s := open(t, db.DSN(), postgres.Options{})
		enqueue(t, s, newJob("q"))
		beside := pool(t, db)
		execute(t, beside, "ALTER SYSTEM SET default_transaction_read_only = on")
		execute(t, beside, "SELECT pg_reload_conf()")
		until(t, "the server takes no writes", func() bool { return second(s.Enqueue(t.Context(), jobs(1, newJob("q")))) != nil })
		_, err := s.ClaimBatch(t.Context(), claimOf("q", 1))
		if !errors.Is(err, sqlstore.ErrReadOnly) || !sqlstore.Transient(err) {
			t.Errorf("claim: got %v, want an ErrReadOnly that may pass", err)
		}
		conn := must(beside.Conn(t.Context()))(t)
		defer func() { _ = conn.Close() }()
		for _, statement := range []string{"SET default_transaction_read_only = off", "ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()"} {
			if _, err := conn.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		until(t, "claims resume", func() bool {
			rows, err := s.ClaimBatch(t.Context(), claimOf("q", 1))
			return err == nil && len(rows) == 1
		})
	})
}
