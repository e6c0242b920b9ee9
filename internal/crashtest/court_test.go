//go:build unix

package crashtest

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"
)

// span is a time in which a process could not keep its claims. That of a dead one begins and ends with its death.
type span struct{ from, to time.Time }

func (s span) touches(from, to time.Time) bool { return !s.from.After(to) && !s.to.Before(from) }

// court is the ledger as evidence.
type court struct {
	lease   time.Duration
	runs    map[int64][]run       // of each job in the order of its claims
	unable  map[string][]span     // of each process: deaths, and the times when the test had stopped it
	revived map[int64][]time.Time // when a dead job was requeued
	stalls  []span                // when a process was kept from running by something else
	excused int                   // leases that lapsed for no other reason
}

func newCourt(entries []entry, lease time.Duration) *court {
	c := &court{lease: lease, runs: runsOf(entries), unable: make(map[string][]span), revived: make(map[int64][]time.Time)}
	for _, runs := range c.runs {
		// A process that is stopped between a claim and the first line of its handler writes that line late.
		slices.SortStableFunc(runs, func(a, b run) int { return cmp.Compare(a.start.fence, b.start.fence) })
	}
	since := make(map[string]time.Time)
	for _, e := range entries {
		switch e.what {
		case requeued:
			c.revived[e.job] = append(c.revived[e.job], e.at)
		case killed:
			c.unable[e.worker] = append(c.unable[e.worker], span{e.at, e.at})
		case stopped:
			since[e.worker] = e.at
		case resumed:
			c.unable[e.worker] = append(c.unable[e.worker], span{since[e.worker], e.at})
			delete(since, e.worker)
		}
	}
	for worker, from := range since {
		c.unable[worker] = append(c.unable[worker], span{from, time.Unix(1<<40, 0)})
	}
	for _, e := range entries {
		if e.what != stalled {
			continue
		}
		gap, err := time.ParseDuration(e.note)
		if err != nil {
			panic(err)
		}
		stall := span{e.at.Add(-gap), e.at}
		if !slices.ContainsFunc(c.unable[e.worker], func(s span) bool { return s.touches(stall.from, stall.to) }) {
			c.stalls = append(c.stalls, stall)
		}
	}
	return c
}

// reruns counts the runs of a job after its first, and fails the test unless each was due: the run before has answered
// that it wants to run again, the job was dead and is requeued, or the lease has lapsed and the process had a reason to
// let it. C1
func (c *court) reruns(t testing.TB, id int64) (again int) {
	t.Helper()
	runs := c.runs[id]
	for i := 1; i < len(runs); i++ {
		before, r := runs[i-1], runs[i]
		if before.start.fence == r.start.fence {
			t.Errorf("C1: job %d: claim %d was handed out to %s and to %s", id, r.start.fence, before.start.worker, r.start.worker)
			continue
		}
		again++
		if c.revival(id, before, r) {
			continue
		}
		wants := before.did(failed) || before.did(cut) && before.end.note == shuttingDown
		if wants && r.start.claimedAt >= before.end.at.Unix() {
			continue
		}
		if why := c.lapsed(before, r); why != "" {
			t.Errorf("C1: job %d ran in %s and again in %s: %s\n%s", id, before.start.worker, r.start.worker, why, c.story(id))
		}
	}
	return again
}

// revival says whether the job was dead and requeued between two of its runs.
func (c *court) revival(id int64, before, next run) bool {
	return slices.ContainsFunc(c.revived[id], func(at time.Time) bool {
		return before.start.claimedAt <= at.Unix() && at.Unix() <= next.start.claimedAt
	})
}

// lapsed says why the lease of a run cannot have lapsed before the next claim, and nothing if it can.
func (c *court) lapsed(before, next run) (why string) {
	from := time.Unix(before.start.claimedAt, 0)
	if to := time.Unix(next.start.claimedAt, 0); !to.After(from.Add(c.lease)) {
		return fmt.Sprintf("claimed at %d and again at %d, lease %v", before.start.claimedAt, next.start.claimedAt, c.lease)
	}
	within := func(s span) bool { return s.touches(from, next.start.at) }
	switch {
	case slices.ContainsFunc(c.unable[before.start.worker], within):
	case slices.ContainsFunc(c.stalls, within):
		c.excused++
	default:
		return "the process of the run before was neither dead nor stopped"
	}
	return ""
}

// story is what the ledger says about one job.
func (c *court) story(id int64) string {
	var text string
	for _, r := range c.runs[id] {
		text += "  " + r.start.String() + "\n"
		if r.end != nil {
			text += "  " + r.end.String() + "\n"
		}
	}
	return text
}

// judge fails the test unless each of the jobs had its effect at least once, and ran again only across a lapsed lease.
func judge(t testing.TB, entries []entry, ids []int64, lease time.Duration) (again int) {
	t.Helper()
	c := newCourt(entries, lease)
	for _, id := range ids {
		again += c.reruns(t, id)
		if !slices.ContainsFunc(c.runs[id], func(r run) bool { return r.did(ended) }) {
			t.Errorf("D5: job %d never had its effect: %d runs", id, len(c.runs[id]))
		}
	}
	return again
}
