package postgres_test

import (
	"database/sql"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore/postgres"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
)

// never is a poll that does not come within a test.
const never = 10 * time.Hour

// patience is how long a test waits for what should come at once.
const patience = 30 * time.Second

// until waits for a condition that nobody tells of.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%s: waited in vain", what)
		}
	}
}

// awaits reads until the queue is named.
func awaits(t *testing.T, woken <-chan string, queue string) {
	t.Helper()
	end := time.After(patience)
	for {
		select {
		case q := <-woken:
			if q == queue {
				return
			}
		case <-end:
			t.Fatalf("no signal for %q", queue)
		}
	}
}

func into(woken chan string) func(string) {
	return func(queue string) {
		select {
		case woken <- queue:
		default: // nobody reads any more
		}
	}
}

func TestListen(t *testing.T) {
	t.Parallel() // most of it is waiting
	server, ok := pgtest.NewServer(t)
	if !ok {
		return
	}
	// behindProxy is a store that reaches the server through a proxy and watches, and another one that does not.
	behindProxy := func(t *testing.T, poll, quiet time.Duration) (
		proxy *pgtest.Proxy, s, other *postgres.Store, woken chan string,
	) {
		db := server.New(t)
		other = open(t, db.DSN(), postgres.Options{})
		proxy, address := server.NewProxy(t)
		s = open(t, db.Through(address).DSN(), postgres.Options{})
		if quiet > 0 {
			s.Quicken(quiet)
		}
		woken = make(chan string, 1<<10)
		watching(t, s, poll, into(woken))
		until(t, "listening", s.Hears)
		return proxy, s, other, woken
	}
	t.Run("a_notification_wakes_another_process_without_a_poll", func(t *testing.T) {
		_, _, other, woken := behindProxy(t, never, 0)
		enqueue(t, other, newJob("mail"))
		awaits(t, woken, "mail")
		if err := other.SetPaused(t.Context(), "paused", false); err != nil {
			t.Fatal(err)
		}
		awaits(t, woken, "paused")
	})
	t.Run("a_commit_of_the_caller_wakes_all_processes_and_no_sooner", func(t *testing.T) {
		db := server.New(t)
		s, other := open(t, db.DSN(), postgres.Options{}), open(t, db.DSN(), postgres.Options{})
		here, there := make(chan string, 100), make(chan string, 100)
		watching(t, s, never, into(here))
		watching(t, other, never, into(there))
		until(t, "listening", func() bool { return s.Hears() && other.Hears() })
		tx := begin(t, pool(t, db))
		must(s.EnqueueTx(t.Context(), tx, jobs(3, newJob("mail"))))(t)
		enqueue(t, s, newJob("marker"))
		for _, woken := range []chan string{here, there} {
			end := time.After(patience)
			for marked := false; !marked; {
				select {
				case q := <-woken:
					marked = q == "marker"
					if q == "mail" {
						t.Error("woken before the commit")
					}
				case <-end:
					t.Fatal("no signal for the marker")
				}
			}
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		awaits(t, here, "mail")
		awaits(t, there, "mail")
	})
	t.Run("K85_a_connection_that_is_cut_comes_back", func(t *testing.T) {
		proxy, s, other, woken := behindProxy(t, never, 0)
		proxy.Cut()
		until(t, "the loss is noticed", func() bool { return !s.Hears() })
		until(t, "listening again", s.Hears)
		awaits(t, woken, "") // something may have been missed
		enqueue(t, other, newJob("mail"))
		awaits(t, woken, "mail")
	})
	t.Run("K85_a_connection_that_dies_without_a_word_comes_back_and_polling_goes_on", func(t *testing.T) {
		proxy, s, other, woken := behindProxy(t, 10*time.Millisecond, 200*time.Millisecond)
		proxy.Mute()
		enqueue(t, other, newJob("mail"))
		awaits(t, woken, "") // the poll, over a new connection as soon as the old one is given up
		until(t, "listening on a new connection", func() bool {
			enqueue(t, other, newJob("again"))
			select {
			case q := <-woken:
				return q == "again"
			default:
				return false
			}
		})
		if n := proxy.Connections(); n > 10 {
			t.Errorf("connections: got %d, want few", n)
		}
		_ = s
	})
	t.Run("K85_no_spin_while_the_server_is_away", func(t *testing.T) {
		own, ok := pgtest.NewServer(t)
		if !ok {
			return
		}
		db := own.New(t)
		s := open(t, db.DSN(), postgres.Options{})
		var wakes atomic.Int64
		watching(t, s, 50*time.Millisecond, func(string) { wakes.Add(1) })
		until(t, "listening", s.Hears)
		if err := own.Kill(); err != nil {
			t.Fatal(err)
		}
		until(t, "the loss is noticed", func() bool { return !s.Hears() })
		before := wakes.Load()
		<-time.After(2 * time.Second)
		if n := wakes.Load() - before; n > 60 {
			t.Errorf("wake-ups in two seconds of an outage: got %d, want at most one for each poll", n)
		}
		if err := own.Start(); err != nil {
			t.Fatal(err)
		}
		until(t, "listening again", s.Hears)
	})
	t.Run("the_listener_ends_with_its_last_user", func(t *testing.T) {
		db := server.New(t)
		proxy, address := server.NewProxy(t)
		s := open(t, db.Through(address).DSN(), postgres.Options{})
		until(t, "only what the setup needed", func() bool { return proxy.Connections() == 0 })
		for range 3 {
			t.Run("watch", func(t *testing.T) {
				watching(t, s, never, func(string) {})
				watching(t, s, never, func(string) {})
				until(t, "listening", s.Hears)
			})
			if s.Hears() {
				t.Error("a listener is there, and nobody watches")
			}
		}
		shared, reserved := s.Pools()
		until(t, "connections of the pools are all there are", func() bool {
			return proxy.Connections() == int(shared.TotalConns()+reserved.TotalConns())
		})
	})
}

// K89: a fleet that is told of one job settles at about one claim for it.
func TestFleetIsNotTold(t *testing.T) {
	db, ok := pgtest.New(t)
	if !ok {
		return
	}
	t.Run("K89_few_claims_for_each_job", func(t *testing.T) {
		const processes, rounds = 4, 30
		producer := open(t, db.DSN(), postgres.Options{})
		var claims, done atomic.Int64
		var all []*postgres.Store
		for range processes {
			s := open(t, db.DSN(), postgres.Options{})
			all = append(all, s)
			bell := make(chan string, 100)
			watching(t, s, never, into(bell))
			go func() { // as a worker does: by name a claim, without one a look first
				for {
					select {
					case <-t.Context().Done():
						return
					case q := <-bell:
						if q == "" {
							_, next, err := s.NextReady(t.Context(), []string{"mail"})
							if err != nil || len(next) == 0 {
								continue
							}
						}
					}
					c := claimOf("mail", 200)
					claims.Add(1)
					rows, err := s.ClaimBatch(t.Context(), c)
					if err != nil || len(rows) == 0 {
						continue
					}
					if _, err := s.AckBatch(t.Context(), handles(rows)); err == nil {
						done.Add(int64(len(rows)))
					}
				}
			}()
		}
		until(t, "listening", func() bool {
			for _, s := range all {
				if !s.Hears() {
					return false
				}
			}
			return true
		})
		for i := range rounds {
			enqueue(t, producer, newJob("mail"))
			until(t, "done", func() bool { return done.Load() == int64(i+1) })
			<-time.After(40 * time.Millisecond) // the others have looked by then
		}
		per := float64(claims.Load()) / rounds
		t.Logf("%.1f claims for each job", per)
		if per >= 5 {
			t.Errorf("claims for each job: got %.1f, want fewer than five", per)
		}
	})
}

// The configuration that a pool of the caller gives away has hooks of its own connections in it.
func TestListenBesideAPoolOfTheCaller(t *testing.T) {
	db, ok := pgtest.New(t)
	if !ok {
		return
	}
	other := open(t, db.DSN(), postgres.Options{})
	theirs := must(sql.Open("pgx", db.URL))(t)
	t.Cleanup(func() { must(0, theirs.Close())(t) })
	s := must(postgres.OpenDB(t.Context(), theirs, postgres.Options{Schema: db.Schema}))(t)
	t.Cleanup(func() { must(0, s.Close())(t) })
	woken := make(chan string, 100)
	watching(t, s, never, into(woken))
	until(t, "listening", s.Hears)
	enqueue(t, other, newJob("mail"))
	awaits(t, woken, "mail")
}
