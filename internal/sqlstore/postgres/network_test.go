package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/alkstore/alkworker/internal/sqlstore/postgres"
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

// TestSilentPool is for a store whose connections are all in use when nothing comes any more over any of them. K87
func TestSilentPool(t *testing.T) {
	t.Parallel() // most of it is waiting
	server, ok := pgtest.NewServer(t)
	if !ok {
		return
	}
	proxy, address := server.NewProxy(t)
	s := must(postgres.Open(t.Context(), server.New(t).Through(address).DSN(), postgres.Options{}))(t)
	shared, _ := s.Pools()
	claims := make(chan error, 1000)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 2 * shared.MaxConns() {
		all.Go(func() {
			for ctx.Err() == nil {
				select {
				case claims <- second(s.ClaimBatch(ctx, claimOf("none", 1))):
				default:
				}
			}
		})
	}
	until(t, "all connections are in use", func() bool {
		shared, _ := s.Pools()
		return shared.AcquiredConns() == shared.MaxConns()
	})
	proxy.Mute()
	muted := time.Now()
	until(t, "a claim fails", func() bool { return <-claims != nil })
	until(t, "claims resume", func() bool { return <-claims == nil })
	took := time.Since(muted)
	t.Logf("first claim after %v", took.Round(time.Millisecond))
	if took > 10*time.Second {
		t.Errorf("claims resumed after %v", took)
	}
	stop()
	all.Wait()
	ended := time.Now()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(ended); took > 5*time.Second {
		t.Errorf("Close took %v", took)
	}
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
		// The sender knows before the checkpointer does, which is who makes commits wait.
		until(t, "commits wait for the standby", func() bool {
			return ask(primary, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") != "0"
		})
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
