package postgres

import (
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

func row(priority, runAt, id int64) sqlstore.Row {
	return sqlstore.Row{Priority: priority, RunAt: runAt, ID: id}
}

func claimOf(limit int64, kind sqlstore.ClaimKind) sqlstore.Claim {
	return sqlstore.Claim{Queue: "q", Limit: limit, Kind: kind}
}

// marksOf are the priorities that a hint knows, and where it enters them.
func marksOf(h hint) map[int64]mark {
	marks := make(map[int64]mark)
	for i, p := range h.priorities {
		marks[p] = mark{h.runAts[i], h.ids[i]}
	}
	return marks
}

// In a bubble no look is due because the machine was slow.
func TestFrontier(t *testing.T) { synctest.Test(t, testFrontier) }

func testFrontier(t *testing.T) {
	var fs frontiers
	learn := func(h hint, c sqlstore.Claim, now int64, rows ...sqlstore.Row) {
		fs.claimed(c, h, time.Now(), now, rows)
	}
	first := fs.forClaim("q")
	if !first.whole || !first.wholeLeases || first.leaseFrom != math.MinInt64 {
		t.Fatalf("first claim: got %+v, want one from the beginning", first)
	}
	learn(first, claimOf(3, sqlstore.AnyJob), 100, row(5, 90, 1), row(5, 91, 2), row(0, 10, 3))

	h := fs.forClaim("q")
	want := map[int64]mark{math.MinInt64: nowhere, 5: {91, 2}, 0: {10, 3}}
	if h.whole || h.wholeLeases || !equal(marksOf(h), want) {
		t.Errorf("second claim: got %+v, want marks %v", h, want)
	}

	learn(h, claimOf(1, sqlstore.OnlyProven), 101, row(5, 95, 9))
	if got := marksOf(fs.forClaim("q"))[5]; got != (mark{95, 9}) {
		t.Errorf("mark after another claim: got %v", got)
	}

	// A doubt makes the next claim look from the beginning, and a second one while that is on its way is not forgotten.
	fs.doubt("other")
	if fs.forClaim("q").whole {
		t.Error("a doubt about another queue: got a look from the beginning")
	}
	fs.doubt("q")
	h = fs.forClaim("q")
	if !h.whole {
		t.Error("after a doubt: got no look from the beginning")
	}
	fs.doubt("")
	learn(h, claimOf(1, sqlstore.OnlyProven), 102, row(5, 92, 4)) // it was behind
	if h = fs.forClaim("q"); !h.whole {
		t.Error("after a doubt during a claim: got no look from the beginning")
	}
	learn(h, claimOf(9, sqlstore.OnlyProven), 102)
	h = fs.of("q").hint()
	if got := marksOf(h); got[5] != (mark{92, 4}) {
		t.Errorf("marks: got %v, want the place of what was found behind", got)
	}
	if _, ok := marksOf(h)[0]; ok {
		t.Error("a look that stopped at a higher priority has confirmed the mark of a lower one")
	}

	// A look that ended with a job whose claim had lapsed has not come to the end of its priority.
	fs.doubt("q")
	lapsed := row(5, 92, 4)
	lapsed.LapsedFence = 1
	learn(fs.forClaim("q"), claimOf(1, sqlstore.AnyJob), 103, lapsed)
	if _, ok := marksOf(fs.forClaim("q"))[5]; ok {
		t.Error("a look that stopped at a lapsed job has confirmed the mark of its priority")
	}

	// After a claim that found too little the next one looks from the beginning, unless that has been dear.
	learn(fs.forClaim("q"), claimOf(2, sqlstore.OnlyProven), 103, row(5, 96, 10))
	if !fs.forClaim("q").whole {
		t.Error("after a claim that found too little: got no look from the beginning")
	}
	fs.of("q").looked = pace{time.Now(), 2 * dearLook}
	if fs.forClaim("q").whole {
		t.Error("after a claim that found too little, and a dear look: got another look from the beginning")
	}
	fs.of("q").looked.cost = 0
	learn(fs.forClaim("q"), claimOf(1, sqlstore.OnlyProven), 103, row(5, 96, 11))
	if fs.forClaim("q").whole {
		t.Error("after a claim that found enough: got a look from the beginning")
	}

	// Deadlines: only what lapsed long ago is behind, and only once a claim has had all of it.
	learn(fs.forClaim("q"), claimOf(2, sqlstore.OnlySuspects), 200, row(0, 1, 1), row(0, 1, 2))
	before := fs.forClaim("q").leaseFrom
	learn(fs.forClaim("q"), claimOf(2, sqlstore.OnlySuspects), 300, row(0, 1, 3))
	if after := fs.forClaim("q").leaseFrom; after != 300-leaseMargin || before > 200-leaseMargin {
		t.Errorf("deadlines: got %d, then %d, want the second to be %d", before, after, 300-leaseMargin)
	}

	// A clock that was set back has made everything uncertain.
	learn(fs.forClaim("q"), claimOf(2, sqlstore.OnlyProven), 250)
	if h := fs.forClaim("q"); h.leaseFrom != math.MinInt64 && !h.wholeLeases {
		t.Errorf("after the clock was set back: got %+v", h)
	}

	// It remembers no more than is good.
	for p := range int64(2 * maxMarks) {
		learn(fs.forClaim("q"), claimOf(1, sqlstore.OnlyProven), 300, row(p, 1, p))
	}
	if n := len(fs.forClaim("q").priorities); n > maxMarks+1 {
		t.Errorf("priorities: got %d, want at most %d", n, maxMarks+1)
	}
}

// What was on its way when the clock was set back knows nothing of the doubts and marks there are now.
func TestFrontierAfterReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fs frontiers
		learn := func(h hint, now int64, rows ...sqlstore.Row) {
			fs.claimed(claimOf(1, sqlstore.AnyJob), h, time.Now(), now, rows)
		}
		learn(fs.forClaim("q"), 100, row(0, 10, 1))
		for range 50 {
			fs.doubt("q")
		}
		late := []hint{fs.forClaim("q"), fs.forClaim("q")}
		learn(fs.forClaim("q"), 99, row(0, 9, 2))
		learn(fs.forClaim("q"), 99, row(0, 9, 3))
		for i, now := range []int64{100, 99} {
			learn(late[i], now, row(0, 10, 4))
		}
		if h := fs.forClaim("q"); h.whole || marksOf(h)[0] != (mark{9, 3}) {
			t.Errorf("after two late claims: got %+v, want the mark of the first that began behind the reset", h)
		}
		fs.doubt("q")
		if !fs.forClaim("q").whole {
			t.Error("after a doubt: got no look from the beginning")
		}

		// An answer that is overtaken by a later one shows no reset.
		slow := fs.forClaim("q")
		learn(fs.forClaim("q"), 101, row(0, 9, 5))
		learn(slow, 100, row(0, 9, 6))
		if h := fs.forClaim("q"); h.whole {
			t.Errorf("after an answer that was overtaken: got %+v, want what was known", h)
		}
	})
}

func equal(a, b map[int64]mark) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}

func TestRivalry(t *testing.T) {
	var r rivalry
	if r.wait() != 0 {
		t.Error("a process that knows of no rival waits")
	}
	r.claimed(true)
	for range 100 {
		r.claimed(false)
	}
	if r.wait() != 0 {
		t.Error("claims that nobody has told of count: one that had taken all it could is always followed by one in vain")
	}
	for range 100 {
		r.claimed(false)
		r.wait()
	}
	var waits []time.Duration
	for range 1000 {
		waits = append(waits, r.wait())
	}
	if longest := slices.Max(waits); longest > maxJitter+1 || longest < maxJitter/2 || slices.Min(waits) > maxJitter/4 {
		t.Errorf("waits: got %v to %v, want them spread up to %v", slices.Min(waits), longest, maxJitter)
	}
	for range 10 {
		r.claimed(true)
		r.wait()
	}
	if r.wait() != 0 {
		t.Error("a process that finds what it is told of still waits")
	}
}
