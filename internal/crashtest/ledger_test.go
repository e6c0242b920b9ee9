//go:build unix

package crashtest

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alkstore/alkworker/queue"
)

// ledger is where the effects of jobs are written down. Each line is one write to a file opened for appending, so that
// the lines of many processes do not mix and a killed process leaves all that it has done.
type ledger struct {
	file   *os.File
	worker string
}

func openLedger(path, worker string) (*ledger, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	return &ledger{file: f, worker: worker}, err
}

// The things that are written down.
const (
	started = "start"
	ended   = "end"
	cut     = "cut"    // the handler returned because its context had ended
	killed  = "kill"   // a process was killed, by the test
	stored  = "stored" // the producer was told so
)

// entry is one line.
type entry struct {
	what      string
	job       int64
	attempt   int
	claimedAt int64 // by the database's clock
	worker    string
	at        time.Time
	cause     string // of a cut
}

func (e entry) String() string {
	return fmt.Sprintf("%s %d %d %d %s %d %s",
		e.what, e.job, e.attempt, e.claimedAt, e.worker, e.at.UnixNano(), strings.ReplaceAll(e.cause, " ", "_"))
}

// write also tells the test.
func (l *ledger) write(what string, j *queue.Job, cause string) {
	line := entry{what, j.ID, j.Attempt, j.ClaimedAt.Unix(), l.worker, time.Now(), cause}.String()
	if _, err := l.file.WriteString(line + "\n"); err != nil {
		panic(err) // a test without its ledger proves nothing
	}
	say("%s", line)
}

// readLedger returns what was written, in the order in which it was written.
func readLedger(t *testing.T, path string) (entries []entry) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var e entry
		var at int64
		n, err := fmt.Sscanf(line, "%s %d %d %d %s %d", &e.what, &e.job, &e.attempt, &e.claimedAt, &e.worker, &at)
		if n != 6 {
			t.Fatalf("ledger line %q: %v", line, err)
		}
		e.at = time.Unix(0, at)
		if fields := strings.Fields(line); len(fields) > 6 {
			e.cause = strings.ReplaceAll(fields[6], "_", " ")
		}
		entries = append(entries, e)
	}
	return entries
}

// run is one attempt of one job as the ledger tells it.
type run struct {
	start entry
	end   *entry // nil: it was never heard of again
}

// runsOf gathers the attempts of each job in the order of their starts.
func runsOf(entries []entry) map[int64][]run {
	runs := make(map[int64][]run)
	for _, e := range entries {
		switch e.what {
		case started:
			runs[e.job] = append(runs[e.job], run{start: e})
		case ended, cut:
			for i := range runs[e.job] {
				if r := &runs[e.job][i]; r.start.worker == e.worker && r.start.attempt == e.attempt && r.end == nil {
					r.end = &e
				}
			}
		}
	}
	return runs
}

// judge fails the test unless each of the jobs had its effect at least once, and none ran again before the lease of the
// run before had lapsed, or although that run had ended in time and its process was left alone.
func judge(t testing.TB, entries []entry, ids []int64, lease time.Duration) (again int) {
	t.Helper()
	deaths := make(map[string]bool)
	for _, e := range entries {
		if e.what == killed {
			deaths[e.worker] = true
		}
	}
	runs := runsOf(entries)
	for _, id := range ids {
		effects := 0
		for i, r := range runs[id] {
			if r.end != nil && r.end.what == ended {
				effects++
			}
			if i == 0 {
				continue
			}
			again++
			before := runs[id][i-1]
			leaseEnd := time.Unix(before.start.claimedAt, 0).Add(lease)
			if !time.Unix(r.start.claimedAt, 0).After(leaseEnd) {
				t.Errorf("C1: job %d was claimed at %d and again at %d, lease %v", id, before.start.claimedAt, r.start.claimedAt, lease)
			}
			if e := before.end; e != nil && e.what == ended && !deaths[before.start.worker] && e.at.Add(time.Second).Before(leaseEnd) {
				t.Errorf("job %d ended in time in process %s, which was not killed, and ran again", id, before.start.worker)
			}
		}
		if effects == 0 {
			t.Errorf("D5: job %d never had its effect: %d runs", id, len(runs[id]))
		}
	}
	return again
}
