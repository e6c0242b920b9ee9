//go:build unix

package crashtest

import (
	"testing"
	"time"

	"github.com/alkstore/alkworker/queue"
)

func TestProcessesDieOfTheirJobs(t *testing.T) { everywhere(t, processesDieOfTheirJobs) }

func processesDieOfTheirJobs(t *testing.T, newScene stager) {
	t.Run("K23_C6_a_job_that_dies_with_its_worker_on_the_last_attempt_is_a_dead_letter", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		id := s.enqueue(queue.EnqueueOptions{VisibilityTimeout: lease, MaxAttempts: 1}, task{Do: die})[0]
		s.start(part{Role: "worker", Queue: "q", Concurrency: 1}).wait()
		s.start(part{Role: "worker", Queue: "q", Concurrency: 1})
		s.until("the death of the job", func() (bool, error) { q, err := s.stats("q"); return q.Dead == 1, err })
		j := s.get(id)
		if j.LastError != "max attempts exceeded" || j.Attempt != 1 {
			t.Errorf("got error %q after %d attempts, want \"max attempts exceeded\" after 1", j.LastError, j.Attempt)
		}
		if len(j.Failures) != 1 || j.Failures[0].Error != "lease lapsed" || j.Failures[0].Attempt != 1 {
			t.Errorf("H10: history: got %+v, want the lease that lapsed", j.Failures)
		}
		if wait := j.DiedAt.Sub(j.ClaimedAt); wait <= lease {
			t.Errorf("died %v after its claim, want it after the lease of %v", wait, lease)
		}
		if n := len(runsOf(readLedger(t, s.path))[id]); n != 1 {
			t.Errorf("got %d runs, want 1", n)
		}
		s.healthy()
	})
	t.Run("K25_a_job_that_kills_its_worker_every_time_takes_none_of_its_neighbours_along", func(t *testing.T) {
		t.Parallel()
		const attempts = 3
		s := newScene(t)
		tasks := make([]task, 10)
		for i := range tasks {
			tasks[i] = task{Do: work, For: 300 * time.Millisecond}
		}
		tasks[4] = task{Do: die, For: 100 * time.Millisecond} // while its neighbours run
		ids := s.enqueue(queue.EnqueueOptions{VisibilityTimeout: lease, MaxAttempts: attempts}, tasks...)
		killer := ids[4]
		deaths := 0
		done := make(chan error, 1)
		go func() { done <- s.reaches(s.empty) }()
		worker := s.start(part{Role: "worker", Queue: "q", Concurrency: len(tasks)})
		for working := true; working; {
			select {
			case <-worker.ended:
				worker.note(killed)
				deaths++
				worker = s.start(part{Role: "worker", Queue: "q", Concurrency: len(tasks)})
			case err := <-done:
				if err != nil {
					t.Fatal(err)
				}
				working = false
			}
		}
		worker.term()
		if deaths != attempts {
			t.Errorf("the job killed %d workers, want %d, its budget", deaths, attempts)
		}
		entries := readLedger(t, s.path)
		judge(t, entries, append(ids[:4:4], ids[5:]...), lease)
		for _, r := range runsOf(entries)[killer] {
			if r.end != nil {
				t.Errorf("the job that kills has ended: %v", r.end)
			}
		}
		for _, id := range ids {
			switch j := s.get(id); {
			case id == killer && (j == nil || j.State != queue.Dead || j.LastError != "max attempts exceeded"):
				t.Errorf("the job that kills: got %+v, want it dead", j)
			case id != killer && j != nil:
				t.Errorf("neighbour %d: got %s with %q, want it done", id, j.State, j.LastError)
			}
		}
		s.healthy()
	})
	t.Run("K28_a_fatal_handler_takes_nothing_with_it", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		tasks := make([]task, 10)
		for i := range tasks {
			tasks[i] = task{Do: hold}
		}
		tasks[9] = task{Do: fatal, Others: 9}
		ids := s.enqueue(queue.EnqueueOptions{VisibilityTimeout: lease}, tasks...)
		first := s.start(part{Role: "worker", Queue: "q", Concurrency: 10})
		if state := first.wait(); state.ExitCode() != 1 {
			t.Errorf("first worker: got %v, want the exit status of log.Fatal", state)
		}
		first.note(killed)
		for _, id := range ids {
			if j := s.get(id); j == nil || j.Attempt != 1 || j.State != queue.Processing {
				t.Errorf("job %d after the death: got %+v, want it held by nobody alive", id, j)
			}
		}
		second := s.start(part{Role: "worker", Queue: "q", Concurrency: 10})
		second.tell("go")
		s.until("the end of all jobs", s.empty)
		second.term()
		entries := readLedger(t, s.path)
		if again := judge(t, entries, ids, lease); again != 10 || s.dead() != 0 {
			t.Errorf("got %d runs after the first and %d dead jobs, want 10 and none", again, s.dead())
		}
		for id, runs := range runsOf(entries) {
			if len(runs) != 2 || runs[0].end != nil || runs[1].end == nil {
				t.Errorf("job %d: got %+v, want one run cut off and one to its end", id, runs)
			}
		}
	})
	t.Run("K22_what_a_killed_worker_held_does_not_count_for_ever", func(t *testing.T) {
		t.Parallel()
		const limit, rounds, jobs = 2, 50 / slowness, 60
		s := newScene(t)
		tasks := make([]task, jobs)
		for i := range tasks {
			tasks[i] = task{Do: hold}
		}
		ids := s.enqueue(queue.EnqueueOptions{VisibilityTimeout: lease}, tasks...)
		for range rounds {
			worker := s.start(part{Role: "worker", Queue: "q", Concurrency: 16, Limit: limit})
			worker.await(started, limit) // as many as ever
			worker.kill()
		}
		last := s.start(part{Role: "worker", Queue: "q", Concurrency: 16, Limit: limit})
		last.await(started, limit)
		if lines, _ := last.heard(started); len(lines) > limit {
			t.Errorf("%d handlers at once, want %d", len(lines), limit)
		}
		last.tell("go")
		s.until("the end of all jobs", s.empty)
		last.term()
		entries := readLedger(t, s.path)
		judge(t, entries, ids, lease)
		running := make(map[string]int)
		for _, e := range entries {
			switch e.what {
			case started:
				if running[e.worker]++; running[e.worker] > limit {
					t.Errorf("%d handlers at once in %s, want at most %d", running[e.worker], e.worker, limit)
				}
			case ended, cut:
				running[e.worker]--
			}
		}
		if n := s.dead(); n != 0 {
			t.Errorf("%d jobs are dead", n)
		}
	})
}
