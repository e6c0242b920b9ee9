//go:build unix

package crashtest

import (
	"testing"

	"github.com/alkstore/alkworker/queue"
)

func TestQueuesWithoutWorkers(t *testing.T) { everywhere(t, queuesWithoutWorkers) }

func queuesWithoutWorkers(t *testing.T, newScene stager) {
	t.Run("K17_jobs_that_nobody_serves_wait_untouched_and_stats_say_so", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		ids, err := s.client.Enqueue(t.Context(), queue.NewJob{Queue: "misspelled"})
		if err != nil {
			t.Fatal(err)
		}
		workers := func(name string, n int) {
			t.Helper()
			s.until("workers of "+name, func() (bool, error) { q, err := s.stats(name); return q.Workers == n, err })
		}
		first := s.start(part{Role: "worker", Queue: "q"})
		workers("q", 1)
		second := s.start(part{Role: "worker", Queue: "q"})
		workers("q", 2)
		done := s.enqueue(queue.EnqueueOptions{}, make([]task, 20)...)
		s.until("the end of the jobs that are served", s.empty)
		first.term()
		workers("q", 1)
		second.term()
		workers("q", 0)
		q, err := s.stats("misspelled")
		if err != nil || q.Workers != 0 || q.Ready != 1 {
			t.Errorf("queue that nobody serves: got %+v, %v, want one ready job and no worker", q, err)
		}
		if j := s.get(ids[0]); j.State != queue.Pending || j.Attempt != 0 || j.Fence != 0 {
			t.Errorf("its job: got %+v, want it untouched", j)
		}
		judge(t, readLedger(t, s.path), done, lease)
	})
}
