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
	ran := func(worker string, attempt int, claimedAt, endedAt int64) []entry {
		begun := entry{what: started, job: 1, attempt: attempt, claimedAt: claimedAt, worker: worker, at: time.Unix(claimedAt, 0)}
		if endedAt == never {
			return []entry{begun}
		}
		done := begun
		done.what, done.at = ended, time.Unix(endedAt, 0)
		return []entry{begun, done}
	}
	death := func(worker string, second int64) []entry {
		return []entry{{what: killed, worker: worker, at: time.Unix(second, 0)}}
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
		"twice, though nobody died":          {[][]entry{ran("a", 1, 0, 1), ran("b", 2, 11, 12)}, true},
		"twice, since it outlived its lease": {[][]entry{ran("a", 1, 0, 20), ran("b", 2, 11, 12)}, false},
		"two at the same moment":             {[][]entry{ran("a", 1, 0, never), ran("b", 2, 0, 1)}, true},
	} {
		m := &muffled{TB: t}
		judge(m, slices.Concat(c.entries...), []int64{1}, lease)
		if m.failed != c.guilty {
			t.Errorf("%s: the judge says guilty: %v, want %v", name, m.failed, c.guilty)
		}
	}
}
