//go:build unix

package crashtest

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/alkstore/alkworker/queue"
)

// file is what is known about one job of a script.
type file struct {
	script
	asked     time.Time
	cancelled time.Time // zero if it was not
	lives     int
}

// trial compares the ledger and what is dead at the end, when nothing lives, with the scripts of the jobs.
func trial(t *testing.T, entries []entry, dead map[int64]*queue.Job) {
	t.Helper()
	c := newCourt(entries, chaosLease)
	files := make(map[int64]*file)
	for _, e := range entries {
		f := files[e.job]
		switch e.what {
		case enqueued:
			f = &file{asked: e.at, lives: 1}
			if err := json.Unmarshal([]byte(e.note), &f.script); err != nil {
				t.Fatal(err)
			}
			files[e.job] = f
		case cancelled:
			f.cancelled = e.at
		case requeued:
			f.lives++
		}
	}
	runs, reruns, cancels, requeues := 0, 0, 0, 0
	kinds := make(map[string]int)
	for id, f := range files {
		runs += len(c.runs[id])
		reruns += c.reruns(t, id)
		requeues += f.lives - 1
		if !f.cancelled.IsZero() {
			cancels++
		}
		kinds[f.kind()]++
		if why := c.verdict(id, f, dead[id]); why != "" {
			t.Errorf("D5: job %d, %+v: %s\n%s", id, *f, why, c.story(id))
		}
	}
	for id := range dead {
		if files[id] == nil {
			t.Errorf("dead job %d is in no script: %+v", id, *dead[id])
		}
	}
	if len(kinds) < len(repertoire) {
		t.Errorf("got %d kinds of jobs, want %d: the test shows less than it should", len(kinds), len(repertoire))
	}
	boundaries := c.boundaries(t, files)
	t.Logf("%d jobs %v, %d cancelled, %d requeued; %d runs, of which %d again; %d boundaries", len(files), kinds, cancels, requeues,
		runs, reruns, boundaries)
	if c.excused > 0 {
		t.Logf("%d leases lapsed since the machine was too slow", c.excused)
	}
	c.recovery(t, entries, files)
}

func (f *file) kind() string {
	switch {
	case f.Queue == unserved:
		return "unserved"
	case f.Delay > 0:
		return "delayed"
	case f.Do == work && f.For >= chaosLease:
		return "slow"
	case f.spends():
		return "spent"
	}
	return f.Do
}

// spends says whether the job fails in each of its attempts.
func (f *file) spends() bool { return f.Attempts > 0 && f.Do == fails }

// verdict says how a job ended otherwise than its script says, and nothing if it did not. d is its dead letter, if it has
// one.
func (c *court) verdict(id int64, f *file, d *queue.Job) string {
	runs := c.runs[id]
	var last run // whose answer counts
	if len(runs) > 0 {
		last = runs[len(runs)-1]
	}
	if !f.cancelled.IsZero() {
		switch {
		case d != nil:
			return "cancelled and dead as " + d.LastError
		case last.start.claimedAt > f.cancelled.Unix():
			return fmt.Sprintf("claimed after it was cancelled at %d", f.cancelled.Unix())
		}
		return ""
	}
	var death string
	switch {
	case f.Queue == unserved:
		if len(runs) > 0 {
			return "ran, though nobody serves its queue"
		}
		death = queue.TextExpired
	case f.Do == outlive && f.lives == 1:
		death = queue.TextExpired
	case f.Do == refuse:
		death = refused
	case f.Do == die:
		death = queue.TextMaxAttempts
	case f.spends():
		death = again
		if d != nil && d.LastError == queue.TextMaxAttempts && (last.start.attempt < f.Attempts || c.unableAfter(last)) {
			death = queue.TextMaxAttempts // the last attempt, or the word of it, died with its worker
		}
	}
	switch {
	case death != "" && d == nil:
		return fmt.Sprintf("gone, want it dead as %q", death)
	case death != "" && d.LastError != death:
		return fmt.Sprintf("dead as %q after attempt %d of %d, want %q", d.LastError, d.Attempt, d.MaxAttempts, death)
	case death == queue.TextMaxAttempts && d.Attempt != f.Attempts:
		return fmt.Sprintf("dead after attempt %d of %d", d.Attempt, f.Attempts)
	case death != "":
		return ""
	case d != nil:
		return fmt.Sprintf("dead as %q after attempt %d of %d, want it done", d.LastError, d.Attempt, d.MaxAttempts)
	case !last.did(ended):
		return "gone, but the last claim of it was not done"
	case runs[0].start.claimedAt < f.asked.Add(f.Delay).Unix():
		return "ran before its time"
	}
	return ""
}

// unableAfter says whether the process of a run was dead or stopped at any time after the run had begun.
func (c *court) unableAfter(r run) bool {
	return slices.ContainsFunc(c.unable[r.start.worker], func(s span) bool { return !s.to.Before(r.start.at) })
}

// boundaries fails the test unless each boundary of the schedule was fired once and its job done, and counts them.
func (c *court) boundaries(t *testing.T, files map[int64]*file) int {
	t.Helper()
	jobs := make(map[int64]int64)
	for id, runs := range c.runs {
		at := runs[0].start.boundary
		if at == 0 {
			if files[id] == nil {
				t.Errorf("job %d is neither of a script nor of a schedule\n%s", id, c.story(id))
			}
			continue
		}
		if jobs[at] != 0 {
			t.Errorf("S5: boundary %d was fired as job %d and as job %d", at, jobs[at], id)
		}
		jobs[at] = id
		c.reruns(t, id)
		if !runs[len(runs)-1].did(ended) {
			t.Errorf("job %d of boundary %d was not done\n%s", id, at, c.story(id))
		}
	}
	var all []int64
	for at := range jobs {
		all = append(all, at)
	}
	slices.Sort(all)
	for i := 1; i < len(all); i++ {
		if all[i] != all[i-1]+1 {
			t.Errorf("S5: no job for the boundaries between %d and %d", all[i-1], all[i])
		}
	}
	return len(all)
}

// recovery measures how long after the death of a process the jobs that it was running have started again.
//
// It says so always, and asserts it only under torture, on a machine that has nothing else to do.
func (c *court) recovery(t *testing.T, entries []entry, files map[int64]*file) {
	t.Helper()
	deaths := make(map[string]time.Time)
	for _, e := range entries {
		if e.what == killed && len(c.unable[e.worker]) == 1 { // of one that was stopped before, leases had lapsed already
			deaths[e.worker] = e.at
		}
	}
	var waits []time.Duration
	with := make(map[string]bool)
	for id, runs := range c.runs {
		if f := files[id]; f != nil && f.Do == die {
			continue // waits until it is alone
		}
		for i, r := range runs {
			if at, died := deaths[r.start.worker]; died && r.end == nil && i+1 < len(runs) && !c.revival(id, r, runs[i+1]) {
				waits = append(waits, runs[i+1].start.at.Sub(at))
				with[r.start.worker] = true
			}
		}
	}
	if len(waits) == 0 {
		t.Error("nobody was killed with a job in flight: the test shows nothing")
		return
	}
	slices.Sort(waits)
	at := func(percent int) time.Duration { return waits[len(waits)*percent/100].Round(time.Millisecond) }
	most := chaosLease + 2*time.Second
	t.Logf("recovery of %d jobs of %d processes: p50 %v, p99 %v, longest %v; at most %v is right", len(waits), len(with), at(50),
		at(99), waits[len(waits)-1].Round(time.Millisecond), most)
	if os.Getenv(durationVariable) != "" && at(99) > most {
		t.Errorf("recovery: p99 %v, want at most %v", at(99), most)
	}
}
