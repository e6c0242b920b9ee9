package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// reportOf makes a report of one round.
func reportOf(results ...Result) *Report {
	r := &Report{Options: Options{Rounds: 5, Scale: 1, Steady: steadyLength}}
	for i := range results {
		results[i].Round = 1
	}
	r.Results = results
	r.summarize()
	return r
}

func rateOf(work, subject string, rate float64) Result {
	return Result{Work: work, Subject: subject, Metrics: Metrics{"rate": rate}}
}

func find(t *testing.T, r *Report, work, part string) Reached {
	t.Helper()
	for _, g := range r.Reached {
		if g.Work == work && strings.Contains(g.What, part) {
			return g
		}
	}
	t.Fatalf("no goal of %s about %q in %+v", work, part, r.Reached)
	return Reached{}
}

func TestReach(t *testing.T) {
	t.Run("the_best_peer_counts", func(t *testing.T) {
		r := reportOf(rateOf("W1", "alkworker-normal", 30), rateOf("W1", "goqite", 20), rateOf("W1", "backlite", 25),
			rateOf("W1", "asynq", 100))
		if g := find(t, r, "W1", "backlite"); g.OK || g.Ratio != 1.2 || g.Against != 25 {
			t.Errorf("got %+v, want a ratio of 1.2 that does not reach 1.3", g)
		}
	})
	t.Run("medians_of_all_rounds", func(t *testing.T) {
		r := reportOf(rateOf("W1", "alkworker-normal", 30), rateOf("W1", "alkworker-normal", 10),
			rateOf("W1", "alkworker-normal", 26), rateOf("W1", "goqite", 20))
		if g := find(t, r, "W1", "goqite"); !g.OK || g.Ratio != 1.3 {
			t.Errorf("got %+v, want a ratio of 1.3 that is enough", g)
		}
	})
	t.Run("a_failed_measurement_does_not_count", func(t *testing.T) {
		failed := rateOf("W1", "goqite", 1000)
		failed.Error = "lost jobs"
		r := reportOf(rateOf("W1", "alkworker-normal", 30), failed)
		if g := find(t, r, "W1", ""); g.Missing == "" || g.OK {
			t.Errorf("got %+v, want a missing answer", g)
		}
	})
	t.Run("less_is_better", func(t *testing.T) {
		latency := func(subject string, p50, delivered float64) Result {
			return Result{Work: "W7", Subject: subject, Metrics: Metrics{"second_p50_ms": p50, "second_delivered": delivered}}
		}
		r := reportOf(latency("alkworker-normal", 0.7, 100), latency("goqite-1ms", 1.4, 100), latency("backlite", 0.2, 3))
		g := find(t, r, "W7", "second process p50 ms : lowest peer, whatever its settings (goqite-1ms)")
		if !g.OK || g.Ratio != 0.5 {
			t.Errorf("got %+v, want 0.5; a peer that delivers next to nothing does not count", g)
		}
		if g := find(t, r, "W7", "second process p50 ms"); !g.OK || g.Against != 1 {
			t.Errorf("got %+v, want to be below 1 ms", g)
		}
	})
	t.Run("the_depth_is_judged_by_our_own_work", func(t *testing.T) {
		r := reportOf(rateOf("W4", "alkworker", 100), rateOf("W5", "alkworker", 85))
		if g := find(t, r, "W5", "W4"); g.OK || g.Ratio != 0.85 {
			t.Errorf("got %+v, want 0.85, which is not 0.9", g)
		}
	})
	t.Run("nothing_is_less_than_some", func(t *testing.T) {
		idle := Result{Work: "W8", Subject: "alkworker", Metrics: Metrics{"cpu_ms_per_s": 0.5, "disk_bytes": 4096}}
		r := reportOf(idle)
		if g := find(t, r, "W8", "CPU"); !g.OK {
			t.Errorf("got %+v, want 0.5 to be below 1", g)
		}
		if g := find(t, r, "W8", "bytes"); g.OK {
			t.Errorf("got %+v, want 4096 bytes to be too many", g)
		}
	})
	t.Run("a_short_steady_run_is_not_judged", func(t *testing.T) {
		r := reportOf(Result{Work: "W12", Subject: "alkworker", Metrics: Metrics{"first_p99_ms": 1, "last_p99_ms": 1}})
		if g := find(t, r, "W12", "p99"); !g.OK {
			t.Errorf("got %+v, want it reached", g)
		}
		r.Options.Steady = time.Minute
		r.summarize()
		if g := find(t, r, "W12", "p99"); g.OK || g.Missing == "" {
			t.Errorf("got %+v, want no judgement", g)
		}
	})
	t.Run("on_the_server", func(t *testing.T) {
		claims := Metrics{}
		for i := range claimCases {
			claims[caseMetric(i, aloneMetric(10, 50))] = 10
			claims[caseMetric(i, claimMetric(10, 50))] = float64(12 + 2*i)
		}
		r := reportOf(rateOf("W2", "alkworker-pg", 36), rateOf("W2", "river-pg", 3), rateOf("W2", "river-pg-1ms", 9),
			rateOf("W3", "alkworker-pg", 5), rateOf("W3", "river-pg", 3), rateOf("W4", "alkworker-pg", 9),
			Result{Work: "W7", Subject: "alkworker-pg", Metrics: Metrics{"same_p50_ms": 3, "same_p99_ms": 11}},
			Result{Work: "W10", Subject: "alkworker-pg", Metrics: claims})
		if g := find(t, r, "W2", "river-pg"); !g.OK || g.Ratio != 12 {
			t.Errorf("got %+v, want a ratio of 12 that is enough", g)
		}
		if g := find(t, r, "W3", "river-pg"); g.OK || g.Wanted != ">= 2 x" {
			t.Errorf("got %+v, want it not reached", g)
		}
		if g := find(t, r, "W4", "river-pg"); g.OK || g.Missing == "" {
			t.Errorf("got %+v, want a missing answer", g)
		}
		if g := find(t, r, "W7", "same process p50"); !g.OK {
			t.Errorf("got %+v, want 3 ms to be enough", g)
		}
		if g := find(t, r, "W7", "alkworker-pg, p99"); g.OK || g.Ratio != 1.1 {
			t.Errorf("got %+v, want 11 ms to be too many", g)
		}
		if g := find(t, r, "W10", "1000000 ready, 10 jobs, p50"); !g.OK || g.Ratio != 1.4 {
			t.Errorf("got %+v, want a ratio of 1.4 that is enough", g)
		}
		if g := find(t, r, "W10", "1000000 delayed, 10 jobs, p50"); g.OK || g.Ratio != 1.6 {
			t.Errorf("got %+v, want a ratio of 1.6 that is too much", g)
		}
	})
	t.Run("peak_memory_is_that_of_W4", func(t *testing.T) {
		drained := func(subject string, mb float64) Result {
			return Result{Work: "W4", Subject: subject, Metrics: Metrics{"rate": 1, "rss_mb": mb}}
		}
		r := reportOf(drained("alkworker", 20), drained("backlite", 32), drained("goqite", 80))
		if g := find(t, r, "W9", "backlite"); !g.OK || g.Ratio != 20.0/32 {
			t.Errorf("got %+v, want 20 / 32", g)
		}
	})
}

func TestReport(t *testing.T) {
	r := reportOf(rateOf("W1", "alkworker", 1000), rateOf("W1", "alkworker", 2000), rateOf("W1", "goqite", 750),
		Result{Work: "W1", Subject: "backlite", Error: "lost jobs"})
	r.Omissions = []Omission{{Subject: "asynq", Reason: "redis-server is not installed: apt-get install redis-server"}}
	r.Settings = map[string]string{"goqite": "as its README says"}
	var out bytes.Buffer
	if err := r.print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"alkworker  1500    67%", "goqite     750     -       0.5", "FAILED: backlite, round 1: lost jobs",
		"asynq  all  redis-server is not installed: apt-get install redis-server", "goqite  as its README says",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	path := t.TempDir() + "/report.json"
	if err := r.save(path); err != nil {
		t.Fatal(err)
	}
	var written bytes.Buffer
	if err := r.write(&written); err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(written.Bytes(), &back); err != nil || len(back.Results) != 4 {
		t.Errorf("got %d results and %v, want 4", len(back.Results), err)
	}
}
