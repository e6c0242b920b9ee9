//go:build unix

package crashtest

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/alkstore/alkworker/queue"
)

// TestProcessesClaimTogether hands the jobs of one queue to many processes with many goroutines each.
func TestProcessesClaimTogether(t *testing.T) { everywhere(t, processesClaimTogether) }

func processesClaimTogether(t *testing.T, newScene stager) {
	for _, c := range []struct{ processes, goroutines, jobs, batch int }{
		{6, 4, 5000, 10},
		{8, 8, 10_000, 1},
		{8, 8, 10_000, 50},
	} {
		name := fmt.Sprintf("K16_%d_processes_with_%d_goroutines_claim_%d_jobs_by_%d", c.processes, c.goroutines, c.jobs, c.batch)
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			var ids []int64
			for range c.jobs / 1000 {
				ids = append(ids, s.enqueue(queue.EnqueueOptions{}, make([]task, 1000/slowness)...)...)
			}
			var processes []*process
			for range c.processes {
				processes = append(processes, s.start(part{Role: "claimer", Queue: "q", Goroutines: c.goroutines, Batch: c.batch}))
			}
			for _, p := range processes {
				p.await("ready", 1)
			}
			for _, p := range processes {
				p.tell("go")
			}
			busy, slowest, shares := 0, 0, make([]int, len(processes))
			for i, p := range processes {
				p.finish()
				waits, _ := p.heard("busy")
				acks, _ := p.heard(ended)
				busy, shares[i] = busy+len(waits), len(acks)
				calls, _ := p.heard("took")
				for _, call := range calls {
					ms, err := strconv.Atoi(call[len("took "):])
					if err != nil {
						t.Fatal(err)
					}
					slowest = max(slowest, ms)
				}
			}
			runs := runsOf(readLedger(t, s.path))
			for _, id := range ids {
				if r := runs[id]; len(r) != 1 || r[0].start.attempt != 1 || r[0].end == nil {
					t.Errorf("C1: job %d: got %d runs, want one", id, len(r))
				}
			}
			if len(runs) != len(ids) {
				t.Errorf("%d jobs were handed out, want %d", len(runs), len(ids))
			}
			if empty, err := s.empty(); err != nil || !empty {
				t.Errorf("queue is empty: %v, %v", empty, err)
			}
			s.healthy() // PRAGMA integrity_check included
			t.Logf("jobs of each process: %v; %d calls found the database busy; the slowest took %d ms", shares, busy, slowest)
		})
	}
}
