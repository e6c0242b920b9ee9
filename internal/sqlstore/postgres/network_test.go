package postgres_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
)

// TestNetwork is for connections that are cut, and for those over which nothing comes any more.
func TestNetwork(t *testing.T) {
	t.Parallel() // most of it is waiting
	server, ok := pgtest.NewServer(t)
	if !ok {
		return
	}
	t.Run("K87_connections_that_are_cut_cost_nothing_but_the_calls_on_them", func(t *testing.T) {
		db := server.New(t)
		proxy, address := server.NewProxy(t)
		l := startLoad(t, db.Through(address).DSN())
		for range 10 {
			l.moves(t)
			proxy.Cut()
			l.resumes(t, "the cut")
		}
		l.end(t)
	})
	t.Run("K87_connections_that_have_gone_silent_are_given_up", func(t *testing.T) {
		db := server.New(t)
		proxy, address := server.NewProxy(t)
		l := startLoad(t, db.Through(address).DSN())
		l.moves(t)
		proxy.Silence(true)
		err := second(l.stores[0].ClaimBatch(t.Context(), claimOf("none", 1)))
		proxy.Silence(false)
		if err == nil {
			t.Error("a claim over a silent network: got no error")
		}
		l.resumes(t, "the network was back")
		l.moves(t)
		proxy.Mute() // the connections there are, but no new ones
		l.resumes(t, "all connections had gone silent")
		l.end(t)
	})
}

// TestFailover: the address names two servers; one dies, the other is a standby, and is promoted later. K87
func TestFailover(t *testing.T) {
	t.Parallel() // most of it is waiting
	primary, ok := pgtest.NewServer(t)
	if !ok {
		return
	}
	t.Run("K87_a_standby_takes_over_and_nothing_acknowledged_is_lost", func(t *testing.T) {
		standby := primary.NewStandby(t)
		db := primary.New(t)
		ask := func(server *pgtest.Server, statement string) (answer string) {
			conn := must(pgx.Connect(t.Context(), server.URL))(t)
			defer func() { _ = conn.Close(t.Context()) }()
			rows := must(conn.Query(t.Context(), statement))(t)
			values := must(pgx.CollectRows(rows, pgx.RowTo[any]))(t)
			return fmt.Sprint(values...)
		}
		// What is acknowledged is on both.
		for _, statement := range []string{"ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"} {
			ask(primary, statement)
		}
		until(t, "the standby follows", func() bool {
			return ask(primary, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == "1"
		})
		both := fmt.Sprintf("postgres://postgres@127.0.0.1:%d,127.0.0.1:%d/postgres?sslmode=disable&target_session_attrs=read-write",
			primary.Port, standby.Port)
		l := startLoad(t, db.Through(both).DSN())
		l.moves(t)
		if err := primary.Kill(); err != nil {
			t.Fatal(err)
		}
		until(t, "nothing can be claimed", func() bool {
			return second(l.stores[0].ClaimBatch(t.Context(), claimOf("none", 1))) != nil
		})
		if ask(standby, "SELECT pg_promote()") != "true" {
			t.Fatal("the standby does not take over")
		}
		l.resumes(t, "the standby had taken over")
		l.moves(t)
		l.end(t)
	})
}
