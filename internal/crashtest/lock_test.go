//go:build unix

package crashtest

import (
	"strings"
	"testing"
	"time"

	"github.com/alkstore/alkworker/queue"
)

// TestLockHeld is another program that holds the write lock: for a little longer than the worker waits for it in one
// call, which costs nobody anything, and for three leases, which costs the leases and nothing else.
func TestLockHeld(t *testing.T) {
	t.Run("K11_leases_are_lost_only_when_they_lapse_and_the_log_stays_short", func(t *testing.T) {
		t.Parallel()
		const (
			slots = 4
			busy  = 500 * time.Millisecond
			lease = 3 * slowness * time.Second
		)
		s := newScene(t)
		o := queue.EnqueueOptions{VisibilityTimeout: lease}
		tasks := make([]task, slots)
		for i := range tasks {
			tasks[i] = task{Do: work, For: lease + time.Second}
		}
		ids := s.enqueue(o, tasks...)
		worker := s.start(part{Role: "worker", Queue: "q", Concurrency: slots, BusyTimeout: busy})
		worker.await(started, slots)
		held := func(d time.Duration) {
			t.Helper()
			locker := s.start(part{Role: "locker"})
			locker.await("locked", 1)
			<-time.After(d)
			locker.tell("go")
			locker.finish()
		}
		held(3 * busy / 2)
		worker.await(ended, slots)
		s.until("the acks", s.empty)
		if lines, _ := worker.heard(cut); len(lines) > 0 {
			t.Errorf("a lock held for 1.5 times the busy timeout cost leases: %q", lines)
		}
		short := len(worker.warnings())

		ids = append(ids, s.enqueue(o, tasks...)...)
		worker.await(started, 2*slots)
		note := func(what string) { s.ledger.add(entry{what: what, worker: worker.part.Name, at: time.Now()}) }
		note(stopped) // as far as its leases go
		held(3 * lease)
		note(resumed)
		for _, line := range worker.await(cut, slots) {
			if !strings.HasSuffix(line, " lease_lost") {
				t.Errorf("got %q, want the cause \"lease lost\"", line)
			}
		}
		worker.await(ended, 2*slots)
		s.until("the acks", s.empty)
		worker.stop()
		if again := judge(t, readLedger(t, s.path), ids, lease); again != slots {
			t.Errorf("got %d runs after the first, want one for each lease that was lost", again)
		}
		s.healthy()
		// Claims, answers, heartbeats, sweeps, announcements: each says once that it cannot get through. And each job that it
		// has lost its lease.
		if lines := worker.warnings(); short > 5 || len(lines)-short > 5+slots {
			t.Errorf("got %d warnings in the first, %d in the second outage:\n%s", short, len(lines)-short, strings.Join(lines, "\n"))
		}
		t.Logf("%d warnings in the first, %d in the second outage", short, len(worker.warnings())-short)
	})
}
