//go:build unix

package crashtest

import (
	"slices"
	"testing"
	"time"
)

// muffled is a test that only notes whether it failed.
type muffled struct {
	testing.TB
	failed bool
}

func (m *muffled) Helper()               {}
func (m *muffled) Errorf(string, ...any) { m.failed = true }

// TestJudge shows that the judge of the other tests is not blind.
func TestJudge(t *testing.T) {
	const lease, never = 10 * time.Second, -1
	line := func(what, worker string, second int64, note string) entry {
		return entry{what: what, worker: worker, at: time.Unix(second, 0), note: note}
	}
	begun := func(worker string, fence, second int64) entry {
		e := line(started, worker, second, "")
		e.job, e.fence, e.attempt, e.claimedAt = 1, fence, int(fence), second
		return e
	}
	over := func(what, worker string, fence, second int64, note string) entry {
		e := line(what, worker, second, note)
		e.job, e.fence = 1, fence
		return e
	}
	ran := func(worker string, fence, from, to int64) []entry {
		if to == never {
			return []entry{begun(worker, fence, from)}
		}
		return []entry{begun(worker, fence, from), over(ended, worker, fence, to, "")}
	}
	death := func(worker string, second int64) []entry { return []entry{line(killed, worker, second, "")} }
	stop := func(worker string, from, to int64) []entry {
		return []entry{line(stopped, worker, from, ""), line(resumed, worker, to, "")}
	}
	for name, c := range map[string]struct {
		entries [][]entry
		guilty  bool
	}{
		"no run":                             {nil, true},
		"one run":                            {[][]entry{ran("a", 1, 0, 1)}, false},
		"one run, and somebody else's death": {[][]entry{death("b", 0), ran("a", 1, 0, 1)}, false},
		"a run without an end":               {[][]entry{ran("a", 1, 0, never)}, true},
		"again after a kill and the lease":   {[][]entry{ran("a", 1, 0, never), death("a", 1), ran("b", 2, 11, 12)}, false},
		"again at the end of the lease":      {[][]entry{ran("a", 1, 0, never), death("a", 1), ran("b", 2, 10, 12)}, true},
		"twice, killed before the ack":       {[][]entry{ran("a", 1, 0, 1), death("a", 1), ran("b", 2, 11, 12)}, false},
		"twice, killed too late for that":    {[][]entry{ran("a", 1, 0, 1), ran("b", 2, 11, 12), death("a", 13)}, true},
		"twice, though nobody died":          {[][]entry{ran("a", 1, 0, 1), ran("b", 2, 11, 12)}, true},
		"again, though it was never stopped": {[][]entry{ran("a", 1, 0, 20), ran("b", 2, 11, 12)}, true},
		"again while it was stopped":         {[][]entry{ran("a", 1, 0, never), stop("a", 1, 15), ran("b", 2, 11, 12)}, false},
		"stopped before its first line":      {[][]entry{stop("a", 1, 15), ran("b", 2, 11, 12), {begun("a", 1, 0)}}, false},
		"again when all stood still": {
			[][]entry{ran("a", 1, 0, never), {line(stalled, "c", 8, "3s")}, ran("b", 2, 11, 12)}, false,
		},
		"the stall is but the stop of another": {
			[][]entry{ran("a", 1, 0, never), stop("c", 5, 8), {line(stalled, "c", 8, "3s")}, ran("b", 2, 11, 12)}, true,
		},
		"two at the same moment": {[][]entry{ran("a", 1, 0, never), death("a", 1), ran("b", 2, 0, 1)}, true},
		"one claim for two":      {[][]entry{ran("a", 1, 0, never), death("a", 1), ran("b", 1, 11, 12)}, true},
		"again after a failure": {
			[][]entry{{begun("a", 1, 0), over(failed, "a", 1, 1, "again")}, ran("b", 2, 1, 2)}, false,
		},
		"again before its failure": {
			[][]entry{{begun("a", 1, 0), over(failed, "a", 1, 3, "again")}, ran("b", 2, 1, 2)}, true,
		},
		"again after a stop in good order": {
			[][]entry{{begun("a", 1, 0), over(cut, "a", 1, 1, shuttingDown)}, ran("b", 2, 1, 2)}, false,
		},
		"again after a lease lost for no reason": {
			[][]entry{{begun("a", 1, 0), over(cut, "a", 1, 11, "lease lost")}, ran("b", 2, 11, 12)}, true,
		},
	} {
		m := &muffled{TB: t}
		judge(m, slices.Concat(c.entries...), []int64{1}, lease)
		if m.failed != c.guilty {
			t.Errorf("%s: the judge says guilty: %v, want %v", name, m.failed, c.guilty)
		}
	}
}
