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
	ended   = "end"  // the handler has done its work
	failed  = "fail" // the handler returned an error or panicked; the note says which
	cut     = "cut"  // the handler returned because its context had ended; the note says why

	stored = "stored" // a feeder was told so

	// By the test.
	killed  = "kill" // a process is dead, by its own hand or that of the test
	stopped = "stop" // a process stands still
	resumed = "cont" // and goes on

	// By the process itself.
	stalled = "stall" // it was not given the processor for a while; the note says how long
)

// entry is one line.
type entry struct {
	what      string
	job       int64
	attempt   int
	fence     int64
	claimedAt int64 // by the database's clock
	boundary  int64 // that the job was fired for by a schedule, otherwise zero
	worker    string
	at        time.Time
	note      string
}

func (e entry) String() string {
	return fmt.Sprintf("%s %d %d %d %d %d %s %d %s", e.what, e.job, e.attempt, e.fence, e.claimedAt, e.boundary, e.worker,
		e.at.UnixNano(), strings.ReplaceAll(e.note, " ", "_"))
}

// write also tells the test.
func (l *ledger) write(what string, j *queue.Job, note string) {
	e := entry{
		what: what, job: j.ID, attempt: j.Attempt, fence: j.Fence, claimedAt: j.ClaimedAt.Unix(), worker: l.worker,
		at: time.Now(), note: note,
	}
	if j.Schedule != "" {
		e.boundary = j.ScheduledFor.Unix()
	}
	l.add(e)
	say("%s", e)
}

// add writes one line.
func (l *ledger) add(e entry) {
	if _, err := l.file.WriteString(e.String() + "\n"); err != nil {
		panic(err) // a test without its ledger proves nothing
	}
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
		n, err := fmt.Sscanf(line, "%s %d %d %d %d %d %s %d",
			&e.what, &e.job, &e.attempt, &e.fence, &e.claimedAt, &e.boundary, &e.worker, &at)
		if n != 8 {
			t.Fatalf("ledger line %q: %v", line, err)
		}
		e.at = time.Unix(0, at)
		if fields := strings.Fields(line); len(fields) > 8 {
			e.note = strings.ReplaceAll(fields[8], "_", " ")
		}
		entries = append(entries, e)
	}
	return entries
}

// run is one claim of one job as the ledger tells it.
type run struct {
	start entry
	end   *entry // nil: it was never heard of again
}

// did says whether the run ended in this way.
func (r run) did(what string) bool { return r.end != nil && r.end.what == what }

// runsOf gathers the runs of each job in the order of their starts.
func runsOf(entries []entry) map[int64][]run {
	runs := make(map[int64][]run)
	for _, e := range entries {
		switch e.what {
		case started:
			runs[e.job] = append(runs[e.job], run{start: e})
		case ended, failed, cut:
			for i := range runs[e.job] {
				if r := &runs[e.job][i]; r.start.worker == e.worker && r.start.fence == e.fence {
					r.end = &e
				}
			}
		}
	}
	return runs
}
