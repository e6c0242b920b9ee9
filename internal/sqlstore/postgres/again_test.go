package postgres_test

import (
	"slices"
	"testing"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
	"github.com/alkstore/alkworker/internal/sqlstore/storetest"
)

// A claim that finds too little looks again. A job that it has found before, and that has died and was brought back in
// between, is not handed out twice by it. The store reads the clock once for each look: that is when it happens. // C1
func TestClaimLooksAgain(t *testing.T) {
	db, ok := pgtest.New(t)
	if !ok {
		return
	}
	clock := storetest.NewClock()
	beside := open(t, db.DSN(), postgres.Options{Clock: clock.Now})
	for queue, spent := range map[string]bool{
		"C1_when_all_jobs_have_attempts_left":   false,
		"C6_when_one_has_lapsed_with_none_left": true, // for which there is another statement
	} {
		t.Run(queue, func(t *testing.T) {
			looks, between := 0, func() {}
			s := open(t, db.DSN(), postgres.Options{Clock: func() int64 {
				if looks++; looks == 2 {
					between()
				}
				return clock.Now()
			}})
			if spent {
				last := newJob(queue)
				last.Stamps.MaxAttempts, last.Stamps.VisibilityTimeoutS = 1, 1
				enqueue(t, beside, last)
				hold(t, beside, queue)
			}
			expiring := newJob(queue)
			expiring.ExpiresS = new(int64(1))
			want := enqueue(t, beside, expiring)
			between = func() {
				clock.Set(clock.Now() + 2)
				must(beside.SweepExpired(t.Context(), queue, "expired"))(t)
				if back := must(beside.Requeue(t.Context(), want))(t); !back[0] {
					t.Error("requeue: got false, want true")
				}
			}
			s.LookAgain(queue)
			rows := claim(t, s, queue, 3)
			if looks < 2 {
				t.Fatal("the claim has not looked again: the test shows nothing")
			}
			if got := ids(rows); !slices.Equal(got, want) {
				t.Errorf("claimed: got jobs %v, want %v", got, want)
			}
			if next := hold(t, beside, queue); next.ID != want[0] || next.Fence != 2 {
				t.Errorf("next claim: got %+v, want the second of job %d", next, want[0])
			}
		})
	}
}

// An ack locks jobs in the order of their places. Whoever goes by ids may wait for it while it waits for him: one of the
// two has to give way, and if that is the ack, it comes again.
func TestAckInACircle(t *testing.T) {
	t.Parallel() // most of it is waiting
	server, ok := pgtest.NewServer(t, "deadlock_timeout=2s")
	if !ok {
		return
	}
	db := server.New(t)
	s, beside := open(t, db.DSN(), postgres.Options{BusyTimeout: time.Minute}), pool(t, db)
	const n = 50
	enqueue(t, s, jobs(n, newJob("q"))...)
	rows := claim(t, s, "q", n)
	must(s.Heartbeat(t.Context(), []sqlstore.Extension{{Handle: handle(rows[0]), S: new(int64(3600))}}))(t) // now its row is last
	tx := begin(t, beside)
	must(tx.ExecContext(t.Context(), "SET LOCAL deadlock_timeout = '1min'"))(t) // so that it is the ack that notices
	lock := func(id int64) {
		must(tx.ExecContext(t.Context(), "SELECT 1 FROM __alkstore_live WHERE id = $1 FOR UPDATE", id))(t)
	}
	lock(rows[0].ID)
	acked := make(chan []bool, 1)
	go func() {
		held, err := s.AckBatch(t.Context(), handles(rows))
		if err != nil {
			t.Errorf("ack: %v", err)
		}
		acked <- held
	}()
	until(t, "the ack waits", func() bool {
		return value[bool](t, beside, "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock')")
	})
	if locked := must(s.Locked(t.Context(), []int64{rows[1].ID}))(t); len(locked) == 0 {
		t.Fatal("the ack has locked nothing yet: the test shows nothing")
	}
	lock(rows[1].ID) // which the ack gives up for that, and for nothing else
	must(0, tx.Rollback())(t)
	if held := <-acked; len(held) != n || slices.Contains(held, false) {
		t.Errorf("ack: got %v, want all %d", held, n)
	}
}

// A claim that has found jobs does not look for more until their leases are over. C4
func TestSecondLookIsBrief(t *testing.T) {
	db, ok := pgtest.New(t)
	if !ok {
		return
	}
	looks := 0
	s := open(t, db.DSN(), postgres.Options{Clock: func() int64 {
		looks++
		return time.Now().Unix()
	}})
	short := newJob("q")
	short.Stamps.VisibilityTimeoutS = 3
	tx := begin(t, pool(t, db))
	must(tx.ExecContext(t.Context(), "LOCK TABLE __alkstore_dead"))(t) // only the second look needs it, and is kept waiting
	c := claimOf("q", 5)
	c.Kind = sqlstore.OnlyProven
	s.LookAgain("q")
	for _, want := range []int{2, 1} { // the second claim knows what the look has cost the first
		enqueue(t, s, short)
		looks = 0
		rows := must(s.ClaimBatch(t.Context(), c))(t)
		if len(rows) != 1 || looks != want {
			t.Fatalf("claimed: got %d jobs with %d looks, want 1 with %d", len(rows), looks, want)
		}
		if kept := must(s.Heartbeat(t.Context(), []sqlstore.Extension{{Handle: handle(rows[0])}}))(t); !kept[0] {
			t.Error("the lease of the job is over when it is handed out")
		}
	}
}
