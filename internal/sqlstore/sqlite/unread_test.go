package sqlite_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/sqlite"
	"github.com/alkstore/alkworker/internal/sqlstore/storetest"
)

// late is a store whose claims are all read later, where they can be.
type late struct{ *sqlite.Store }

func (s late) ClaimBatch(ctx context.Context, c sqlstore.Claim) ([]sqlstore.Row, error) {
	unread, err := s.ClaimUnread(ctx, c)
	if err != nil {
		return nil, err
	}
	rows, err := unread.Read(ctx)
	if err == nil && len(rows) != unread.N {
		err = errors.New("not as many jobs as were claimed")
	}
	return rows, err
}

func TestConformanceOfUnread(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		h := harness(t)
		second := h.Second
		h.Store = late{h.Store.(*sqlite.Store)}
		h.Second = func(t *testing.T) sqlstore.Store { return late{second(t).(*sqlite.Store)} }
		return h
	}, "Claim", "Lapse", "Suspect", "Race")
}

func TestClaimUnread(t *testing.T) {
	proven := func(n int64) sqlstore.Claim {
		c := claimOf("q", n)
		c.Kind = sqlstore.OnlyProven
		return c
	}
	unread := func(t *testing.T, s *sqlite.Store, n int64) sqlstore.Unread {
		t.Helper()
		return must(s.ClaimUnread(t.Context(), proven(n)))(t)
	}
	moved := func() (sqlite.Options, *storetest.ManualClock) {
		clock := storetest.NewClock()
		o := quick
		o.Clock = clock.Now
		return o, clock
	}

	t.Run("C2_C5_hands_out_what_a_claim_does", func(t *testing.T) {
		o, _ := moved()
		fill := func(retried int64) *sqlite.Store {
			s := open(t, newFile(t), o)
			for i := range int64(40) {
				j := newJob("q")
				j.Priority = i % 3
				switch i % 5 {
				case 0:
					j.Payload = slices.Repeat([]byte{byte(i)}, 100_000)
				case 1:
					soon := int64(1000)
					j.ExpiresS = &soon
				case 2:
					j.Payload = nil
				}
				enqueue(t, s, j)
			}
			for i, r := range claim(t, s, "q", retried) {
				must(s.Retry(t.Context(), []sqlstore.Retrial{{Handle: handle(r), Error: "no", DelayS: int64(i % 2)}}))(t)
			}
			return s
		}
		for _, retried := range []int64{0, 7, 13} { // 13 have the highest priority
			for _, limit := range []int64{1, 20, 100} {
				want := must(fill(retried).ClaimBatch(t.Context(), proven(limit)))(t)
				u := unread(t, fill(retried), limit)
				got := must(u.Read(t.Context()))(t)
				if d := cmp.Diff(want, got); d != "" || u.N != len(want) || u.N == 0 {
					t.Errorf("%d retried, up to %d: %d jobs (-ClaimBatch +ClaimUnread):\n%s", retried, limit, u.N, d)
				}
			}
		}
	})

	t.Run("C1_leaves_out_claims_that_have_ended_since", func(t *testing.T) {
		o, clock := moved()
		s := open(t, newFile(t), o)
		given := enqueue(t, s, jobs(5, newJob("q"))...)
		large := newJob("q")
		large.Payload = make([]byte, 100_000)
		given = append(given, enqueue(t, s, large)...)
		u := unread(t, s, 10)
		if u.N != 6 {
			t.Fatalf("%d jobs claimed, want 6", u.N)
		}
		must(s.Cancel(t.Context(), []int64{given[1], given[5]}))(t)
		must(s.Release(t.Context(), []sqlstore.Releasing{{Handle: sqlstore.Handle{ID: given[4], Fence: 1}, DelayS: 1000}}))(t)
		clock.Set(clock.Now() + 31)
		lapsed := claim(t, s, "q", 1)
		got := must(u.Read(t.Context()))(t)
		if want := []int64{given[2], given[3]}; !slices.Equal(ids(got), want) || lapsed[0].ID != given[0] {
			t.Errorf("got jobs %d, want %d: two are cancelled, one is released, one is somebody else's", ids(got), want)
		}
	})

	t.Run("H6_C1_a_read_that_fails_gives_the_claims_back", func(t *testing.T) {
		s := open(t, newFile(t), quick)
		given := enqueue(t, s, jobs(3, newJob("q"))...)
		u := unread(t, s, 10)
		ended, end := context.WithCancel(t.Context())
		end()
		if rows, err := u.Read(ended); !errors.Is(err, context.Canceled) || rows != nil {
			t.Fatalf("got %d jobs, %v, want the end of the context", len(rows), err)
		}
		again := claim(t, s, "q", 10)
		if !slices.Equal(ids(again), given) || again[0].Attempts != 1 || again[0].Fence != 2 {
			t.Errorf("got %+v, want all jobs on their first attempt, with a new fence", again)
		}
	})

	t.Run("is_read_before_the_store_closes_or_lapses", func(t *testing.T) {
		path := newFile(t)
		s := must(sqlite.Open(t.Context(), path, quick))(t)
		enqueue(t, s, newJob("q"))
		u := unread(t, s, 10)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := u.Read(t.Context()); !errors.Is(err, sqlstore.ErrClosed) {
			t.Errorf("got %v, want %v", err, sqlstore.ErrClosed)
		}
	})

	t.Run("C2_a_fence_that_is_no_number_does_not_stop_the_queue", func(t *testing.T) {
		path := newFile(t)
		s := open(t, path, quick)
		given := enqueue(t, s, jobs(3, newJob("q"))...)
		execute(t, pool(t, path), "UPDATE __alkstore_live SET fence = 'two' WHERE id = ?", given[1])
		u := unread(t, s, 10)
		if got := must(u.Read(t.Context()))(t); !slices.Equal(ids(got), given) {
			t.Errorf("got jobs %d, want %d", ids(got), given)
		}
	})
}
