//go:build unix

package crashtest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
)

// TestFleet is all that can happen to a fleet on one server at once: eight workers and four producers, one of which is
// killed every moment and replaced, and the server itself killed twice. The judge is the ledger, outside of it all.
func TestFleet(t *testing.T) {
	server, ok := pgtest.NewServer(t)
	if !ok {
		return
	}
	t.Run("K87_D5_whatever_dies_each_job_has_its_effect_and_none_runs_twice_within_a_lease", func(t *testing.T) {
		const (
			workers, producers = 8, 4
			lease              = 8 * slowness * time.Second
			deaths             = 24
			crashes            = 2 // of the server
		)
		s := newSceneOn(t, server.New(t))
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 0))
		fleet := make([]*process, workers+producers)
		cast := func(i int) {
			if i < workers {
				fleet[i] = s.start(part{Role: "worker", Queue: "q", Concurrency: 4})
				return
			}
			fleet[i] = s.start(part{Role: "feeder", Queue: "q", Lease: lease, Pause: 50 * slowness * time.Millisecond})
		}
		connected := func() {
			for _, p := range fleet {
				p.await("connected", 1)
			}
		}
		for i := range fleet {
			cast(i)
		}
		for i := range fleet {
			fleet[i].await(map[bool]string{true: started, false: stored}[i < workers], 1)
		}
		var outages []time.Duration
		tick := time.NewTicker(300 * slowness * time.Millisecond)
		defer tick.Stop()
		for death := range deaths {
			<-tick.C
			victim := random.IntN(len(fleet))
			fleet[victim].kill()
			cast(victim)
			if death%(deaths/crashes) == deaths/crashes/2 {
				connected() // none starts while there is no server
				outages = append(outages, s.outage(server))
			}
		}
		connected()
		for _, p := range fleet[workers:] {
			p.term()
		}
		s.until("the end of all jobs", s.empty)
		for _, p := range fleet[:workers] {
			p.term()
		}
		entries := readLedger(t, s.path)
		var ids []int64
		for _, e := range entries {
			if e.what == stored {
				ids = append(ids, e.job)
			}
		}
		again := judge(t, entries, ids, lease)
		if n := s.dead(); n > 0 {
			t.Errorf("%d jobs are dead", n)
		}
		s.healthy()
		if len(ids) < 200 {
			t.Errorf("%d jobs were stored: the test shows nothing", len(ids))
		}
		t.Logf("seed %d: %d jobs known to be stored, and %d with those of whom nobody was told, all run; %d processes killed, "+
			"%d runs after the first; first claims after the server was back: %v", seed, len(ids), len(runsOf(entries)), deaths, again,
			outages)
	})
}

// outage kills the server, starts it again, and waits until one of the workers has claimed a job since.
func (s *scene) outage(server *pgtest.Server) time.Duration {
	s.Helper()
	if err := server.Kill(); err != nil {
		s.Fatal(err)
	}
	if err := server.Start(); err != nil {
		s.Fatal(err)
	}
	back := time.Now()
	claimed := func() (bool, error) {
		for _, e := range readLedger(s.T, s.path) {
			if e.what == started && e.at.After(back) {
				return true, nil
			}
		}
		return false, nil
	}
	s.until("the first claim after an outage", claimed)
	took := time.Since(back)
	if took > 10*slowness*time.Second {
		s.Errorf("K87: claims resumed %v after the server was back", took)
	}
	return took.Round(time.Millisecond)
}
