package postgres_test

import (
	"slices"
	"testing"

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
