//go:build unix

package crashtest

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alkstore/alkworker/queue"
)

// lease is the visibility timeout where a test has to wait for its end.
const lease = slowness * time.Second

func TestLeases(t *testing.T) { everywhere(t, leases) }

func leases(t *testing.T, newScene stager) {
	t.Run("K5_a_worker_that_stood_still_is_told_that_its_lease_is_lost", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		id := s.enqueue(queue.EnqueueOptions{VisibilityTimeout: lease}, task{Do: hold})[0]
		first := s.start(part{Role: "worker", Queue: "q", Concurrency: 1})
		first.await(started, 1)
		first.freeze()
		second := s.start(part{Role: "worker", Queue: "q", Concurrency: 1})
		second.await(started, 1) // once the lease has lapsed
		first.resume()
		if line := first.await(cut, 1)[0]; !strings.HasSuffix(line, " lease_lost") {
			t.Errorf("first worker: got %q, want the cause \"lease lost\"", line)
		}
		first.term()
		// Its handler has returned nil, which must not have counted.
		if j := s.get(id); j == nil || j.State != queue.Processing || j.Attempt != 2 {
			t.Fatalf("job after the first worker's answer: got %+v, want it processing for the second time", j)
		}
		second.tell("go")
		second.await(ended, 1)
		second.term()
		if j := s.get(id); j != nil {
			t.Errorf("job at the end: got %+v, want none", j)
		}
		if again := judge(t, readLedger(t, s.path), []int64{id}, lease); again != 1 {
			t.Errorf("got %d runs after the first, want 1", again)
		}
	})
	for _, cancel := range []bool{false, true} {
		t.Run(fmt.Sprintf("K2_H1_nothing_works_with_a_claim_that_is_over_cancelled_%v", cancel), func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			id := s.enqueue(queue.EnqueueOptions{VisibilityTimeout: lease}, task{})[0]
			late := s.start(part{Role: "holder", Queue: "q"})
			late.await(started, 1)
			late.freeze()
			if cancel {
				if there, err := s.client.Cancel(t.Context(), id); err != nil || !there[0] {
					t.Fatalf("cancel: %v, %v", there, err)
				}
				s.enqueue(queue.EnqueueOptions{VisibilityTimeout: lease}, task{})
			}
			j := s.claim()
			late.resume()
			late.tell("try")
			late.finish()
			for _, operation := range []string{"heartbeat", "release", "retry", "fail", "ack"} {
				if line := late.await(operation, 1)[0]; line != operation+" [false]" {
					t.Errorf("got %q, want [false]", line)
				}
			}
			if after := s.get(j.ID); after == nil || after.Fence != j.Fence || after.Attempt != j.Attempt || after.LastError != "" {
				t.Errorf("job of the new claim: got %+v, want it unchanged", after)
			}
			if held, err := s.client.Heartbeat(t.Context(), j.Handle()); err != nil || !held[0] {
				t.Errorf("heartbeat of the new claim: got %v, %v", held, err)
			}
			if acked, err := s.client.Ack(t.Context(), j.Handle()); err != nil || !acked[0] {
				t.Errorf("ack of the new claim: got %v, %v", acked, err)
			}
			s.healthy()
		})
	}
	t.Run("K10_heartbeats_go_on_while_a_worker_drains", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		id := s.enqueue(queue.EnqueueOptions{VisibilityTimeout: lease}, task{Do: work, For: 3 * lease})[0]
		first := s.start(part{Role: "worker", Queue: "q", Concurrency: 1})
		first.await(started, 1)
		second := s.start(part{Role: "worker", Queue: "q", Concurrency: 1})
		second.await("up", 1)
		first.signal(syscall.SIGTERM)
		first.finish()
		second.term()
		runs := runsOf(readLedger(t, s.path))[id]
		if len(runs) != 1 || runs[0].start.worker != first.part.Name || runs[0].end == nil || runs[0].end.what != ended {
			t.Errorf("runs: got %+v, want one, by the worker that was stopped, to its end", runs)
		}
		if j := s.get(id); j != nil {
			t.Errorf("job: got %+v, want none: its ack is lost", j)
		}
	})
}

// TestLockedFile is about files alone: on a server there is no lock of everything.
func TestLockedFile(t *testing.T) {
	for _, busy := range []time.Duration{0, 300 * time.Millisecond} {
		t.Run(fmt.Sprintf("K21_a_job_due_while_the_database_is_locked_starts_once_it_is_free_%v", busy), func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			id := s.enqueue(queue.EnqueueOptions{Delay: 3 * slowness * time.Second}, task{Do: work})[0]
			due := s.get(id).RunAt
			worker := s.start(part{Role: "worker", Queue: "q", Concurrency: 1, Poll: 30 * time.Second, BusyTimeout: busy})
			s.until("the worker", func() (bool, error) { q, err := s.stats("q"); return q.Workers == 1, err })
			locker := s.start(part{Role: "locker"})
			locker.await("locked", 1)
			if s.get(id).State != queue.Pending {
				t.Fatal("the job ran before the lock was taken")
			}
			<-time.After(time.Until(due) + 2*time.Second)
			locker.tell("go")
			free, err := strconv.ParseInt(strings.TrimPrefix(locker.await("free", 1)[0], "free "), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			locker.finish()
			worker.await(ended, 1)
			worker.term()
			runs := runsOf(readLedger(t, s.path))[id]
			if len(runs) != 1 {
				t.Fatalf("got %d runs, want 1", len(runs))
			}
			if late := runs[0].start.at.Sub(time.Unix(0, free)); late > slowness*time.Second {
				t.Errorf("started %v after the lock was released, want at most a second", late)
			}
		})
	}
}
