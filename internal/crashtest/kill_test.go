//go:build unix

package crashtest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/alkstore/alkworker/queue"
)

// TestWorkersAreKilled is what a fleet has to bear: three workers, one of them killed every second and replaced.
func TestWorkersAreKilled(t *testing.T) { everywhere(t, workersAreKilled) }

func workersAreKilled(t *testing.T, newScene stager) {
	t.Run("D5_every_job_has_its_effect_and_none_runs_twice_within_a_lease", func(t *testing.T) {
		const lease = 2 * slowness * time.Second
		s := newScene(t)
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 0))
		tasks := make([]task, 500)
		for i := range tasks {
			tasks[i] = task{Do: work, For: 20*time.Millisecond + time.Duration(random.Int64N(int64(180*time.Millisecond)))}
		}
		ids := s.enqueue(queue.EnqueueOptions{VisibilityTimeout: lease}, tasks...)
		fleet := make([]*process, 3)
		for i := range fleet {
			fleet[i] = s.start(part{Role: "worker", Queue: "q", Concurrency: 4})
		}
		done := make(chan error, 1)
		go func() { done <- s.reaches(s.empty) }()
		deaths := 0
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for working := true; working; {
			select {
			case <-tick.C:
				victim := deaths % len(fleet)
				fleet[victim].kill()
				fleet[victim] = s.start(part{Role: "worker", Queue: "q", Concurrency: 4})
				deaths++
			case err := <-done:
				if err != nil {
					t.Fatal(err)
				}
				working = false
			}
		}
		for _, p := range fleet {
			p.term()
		}
		again := judge(t, readLedger(t, s.path), ids, lease)
		if n := s.dead(); n > 0 {
			t.Errorf("%d jobs are dead", n)
		}
		s.healthy()
		if deaths < 3 {
			t.Errorf("%d workers were killed, want at least 3: the test shows nothing", deaths)
		}
		t.Logf("seed %d: %d workers killed, %d runs after the first", seed, deaths, again)
	})
}
