package storetest

import (
	"context"
	"math"
	"testing"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// CheckInvariants fails the test unless the jobs of the store, pending, processing and dead, are exactly those of
// want, in any order, each is in a state that can be, and [sqlstore.Store.Check] finds nothing wrong (D5).
func CheckInvariants(t testing.TB, store sqlstore.Store, want []int64) {
	t.Helper()
	wanted := make(map[int64]bool)
	for _, id := range want {
		wanted[id] = true
	}
	if d := diff(wanted, present(t, store)); d != "" {
		t.Errorf("D5: jobs in the store (-want +got):\n%s", d)
	}
}

// present lists every job after checking each row, and the database as a whole.
func present(t testing.TB, store sqlstore.Store) map[int64]bool {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // it has ended already when cleanups run
	problems, err := store.Check(ctx)
	if err != nil {
		t.Errorf("Check: %v", err)
	}
	for _, p := range problems {
		t.Errorf("Check: %+v", p)
	}
	ids := make(map[int64]bool)
	counts := make(map[string]sqlstore.QueueStats)
	for _, r := range listAll(t, store) {
		if ids[r.ID] {
			t.Errorf("D5: job %d is listed twice", r.ID)
		}
		ids[r.ID] = true
		checkRow(t, r)
		c := counts[r.Queue]
		count(&c, r.State)
		counts[r.Queue] = c
	}
	stats, err := store.Stats(ctx)
	if err != nil {
		t.Errorf("Stats: %v", err)
	}
	for _, s := range stats {
		got := [3]int64{s.Ready + s.Delayed, s.Processing, s.Dead}
		c := counts[s.Queue]
		if want := [3]int64{c.Ready, c.Processing, c.Dead}; got != want {
			t.Errorf("stats of %q disagree with its jobs: got pending, processing, dead %v, want %v", s.Queue, got, want)
		}
		delete(counts, s.Queue)
	}
	for q := range counts {
		t.Errorf("queue %q has jobs and no stats", q)
	}
	return ids
}

func count(c *sqlstore.QueueStats, s sqlstore.State) {
	switch s {
	case sqlstore.Pending:
		c.Ready++
	case sqlstore.Processing:
		c.Processing++
	case sqlstore.Dead:
		c.Dead++
	}
}

// listAll walks through all pages.
func listAll(t testing.TB, store sqlstore.Store) []sqlstore.Row {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	var all []sqlstore.Row
	f := sqlstore.Filter{Limit: 500, PayloadLimit: 16}
	for {
		page, err := store.ListJobs(ctx, f)
		if err != nil {
			t.Fatalf("ListJobs: %v", err)
		}
		if len(page) == 0 {
			return all
		}
		if f.Before != 0 && page[0].ID >= f.Before { // or this would go on for ever
			t.Fatalf("ListJobs before %d: got job %d", f.Before, page[0].ID)
		}
		all = append(all, page...)
		f.Before = page[len(page)-1].ID
	}
}

// checkRow says what no row may look like, whatever has happened to it.
func checkRow(t testing.TB, r sqlstore.Row) {
	t.Helper()
	bad := func(what string) { t.Errorf("job %d: %s: %+v", r.ID, what, r) }
	switch r.State {
	case sqlstore.Pending:
		if r.Claimant != "" || r.ClaimedAt != nil || r.ClaimExpiresAt != nil {
			bad("pending, and claimed")
		}
	case sqlstore.Processing:
		if r.ClaimedAt == nil || r.ClaimExpiresAt == nil {
			bad("processing without a claim")
		}
	case sqlstore.Dead:
		if r.DiedAt == nil || r.LastError == nil {
			bad("dead without a time or a reason")
		}
		if r.Claimant != "" || r.ClaimExpiresAt != nil {
			bad("dead, and claimed")
		}
	default:
		bad("unknown state")
	}
	if r.State != sqlstore.Dead && r.DiedAt != nil {
		bad("alive, and died")
	}
	if r.Attempts < 0 || r.Attempts > r.Fence || r.Fence == math.MaxInt64 {
		bad("attempts or fence that no claims can have made")
	}
	if r.Payload == nil || int64(len(r.Payload)) > r.PayloadSize {
		bad("payload and its size disagree")
	}
	if (r.Schedule == "") != (r.ScheduledFor == nil) {
		bad("half of a schedule")
	}
}
