package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain makes this program able to be its own child, as the benchmark is.
func TestMain(m *testing.M) {
	if text := childOrder(); text != "" {
		if err := runChild(context.Background(), text, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// tiny is large enough for every path to be taken, and says nothing about speed.
var tiny = Options{Rounds: 1, Scale: 0.002, Slots: 32, Limit: time.Minute, Steady: 10 * time.Second}

func newTestBench(t *testing.T) *bench {
	t.Helper()
	dir := t.TempDir()
	// Its parent is closed to others as well.
	if err := errors.Join(openToAll(dir), openToAll(filepath.Dir(dir))); err != nil {
		t.Fatal(err)
	}
	b := newBench(tiny, dir)
	b.settle = func() {}
	t.Cleanup(func() {
		if err := b.close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("the folder of the run is still there: %v", err)
		}
	})
	return b
}

// TestCounts lets every subject do all of its work at a tiny scale. What was enqueued must be there, and be handled once.
func TestCounts(t *testing.T) {
	b := newTestBench(t)
	for _, s := range subjects() {
		t.Run(s.Name, func(t *testing.T) {
			if _, err := b.host(t.Context(), s.Server); err != nil {
				t.Logf("left out: %v", err)
				return
			}
			for _, w := range works() {
				if s.why(w.id) != "" {
					continue
				}
				t.Run(w.id, func(t *testing.T) {
					a, err := w.run(t.Context(), b, s)
					if err != nil {
						t.Fatal(err)
					}
					checkCounts(t, w, s, a.Metrics)
				})
			}
		})
	}
}

func checkCounts(t *testing.T, w work, s *Spec, m Metrics) {
	t.Helper()
	if _, ok := m[w.columns[0].metric]; !ok {
		t.Errorf("no %q in %v", w.columns[0].metric, m)
	}
	same := func(name string, want float64) {
		t.Helper()
		if got, ok := m[name]; !ok || got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	switch w.id {
	case "W1", "W2", "W3":
		if m["jobs"] < 1 || m["rate"] <= 0 {
			t.Errorf("jobs %v, rate %v, want some", m["jobs"], m["rate"])
		}
	case "W4", "W5", "W6", "W9", "W13":
		same("handled", m["jobs"])
		if s.Kind != Floor {
			same("duplicates", 0)
			same("left", 0)
			same("capped", 0)
		}
	case "W7":
		for _, where := range []string{"same", "second"} {
			same(where+"_delivered", 100)
			same(where+"_duplicates", 0)
		}
	case "W10":
		for _, c := range w.columns {
			if m[c.metric] <= 0 {
				t.Errorf("%s is %v, want some", c.metric, m[c.metric])
			}
		}
	case "W11":
		if m["log_ratio"] < 0.9 {
			t.Errorf("%v of the payload was written, want at least all", m["log_ratio"])
		}
	case "W12":
		same("handled", m["jobs"])
		same("duplicates", 0)
	}
}

func TestChild(t *testing.T) {
	t.Run("a_step_that_fails_says_so", func(t *testing.T) {
		_, err := runStep(t.Context(), order{Subject: "alkworker", Step: "no such step"})
		if err == nil || !strings.Contains(err.Error(), `no step "no such step"`) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a_database_that_does_not_open_says_so", func(t *testing.T) {
		_, err := runStep(t.Context(), order{Subject: "alkworker", Step: stepSeed, Place: Place{Path: "/nowhere/jobs.db"}})
		if err == nil || !strings.Contains(err.Error(), "/nowhere") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a_partner_that_fails_ends_both", func(t *testing.T) {
		first := order{Subject: "alkworker", Step: stepReceive, Jobs: 1, Place: Place{Path: t.TempDir() + "/jobs.db"}}
		_, _, err := runPair(t.Context(), first, order{Subject: "alkworker", Step: "no such step"})
		if err == nil || !strings.Contains(err.Error(), `no step "no such step"`) {
			t.Errorf("got %v", err)
		}
	})
}

func TestChoose(t *testing.T) {
	names := func(s selection) (works, subjects []string) {
		for _, w := range s.works {
			works = append(works, w.id)
		}
		for _, p := range s.subjects {
			subjects = append(subjects, p.Name)
		}
		return works, subjects
	}
	for _, c := range []struct {
		works, peers            string
		wantWorks, wantSubjects []string
	}{
		{works: "w1, W10", peers: "none",
			wantWorks: []string{"W1", "W10"}, wantSubjects: []string{"alkworker", "alkworker-normal"}},
		{works: "W2", peers: "goqite,asynq-always", wantWorks: []string{"W2"},
			wantSubjects: []string{"alkworker", "alkworker-normal", "goqite", "goqite-1ms", "goqite-default", "asynq-always"}},
		{works: "W4", peers: "alkworker-pg,river-pg-1ms", wantWorks: []string{"W4"},
			wantSubjects: []string{"alkworker", "alkworker-normal", "alkworker-pg", "river-pg-1ms"}},
		{works: "W10", peers: "alkworker-pg", wantWorks: []string{"W10"}, wantSubjects: []string{"alkworker-pg"}},
	} {
		s, err := choose(c.works, c.peers)
		if err != nil {
			t.Fatal(err)
		}
		works, subjects := names(s)
		subjects = slices.DeleteFunc(subjects, func(n string) bool { return strings.HasSuffix(n, "-mattn") })
		if !slices.Equal(works, c.wantWorks) || !slices.Equal(subjects, c.wantSubjects) {
			t.Errorf("-work %q -peers %q: %v %v, want %v %v", c.works, c.peers, works, subjects, c.wantWorks, c.wantSubjects)
		}
	}
	if _, err := choose("W1,W14", "nobody"); err == nil ||
		!strings.Contains(err.Error(), "W14") || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("got %v, want both mistakes", err)
	}
}

func TestSubjects(t *testing.T) {
	seen := make(map[string]bool)
	for _, s := range subjects() {
		if seen[s.Name] {
			t.Errorf("two subjects are called %q", s.Name)
		}
		seen[s.Name] = true
		if s.Settings == "" || len(s.Modules) == 0 || s.Open == nil {
			t.Errorf("%s has no settings, modules or Open", s.Name)
		}
		if s.Server == NoServer && s.Sync != "FULL" && s.Sync != "NORMAL" {
			t.Errorf("%s says %q, want FULL or NORMAL", s.Name, s.Sync)
		}
	}
	for _, g := range goals() {
		if !seen[g.ours] {
			t.Errorf("a goal of %s is about %q, which does not exist", g.work, g.ours)
		}
		if g.against != "" && g.against != bestSQLite && g.against != bestAny && !seen[string(g.against)] {
			t.Errorf("a goal of %s is against %q, which does not exist", g.work, g.against)
		}
	}
}

func TestRun(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no redis-server
	path := t.TempDir() + "/report.json"
	var out, log bytes.Buffer
	err := run(t.Context(), []string{"-rounds", "2", "-scale", "0.002", "-work", "W1,W3", "-peers", "backlite,asynq",
		"-json", path}, &out, &log)
	if err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	for _, want := range []string{"alkworker-normal", "TOO SHORT TO MEAN ANYTHING", "NOT REACHED",
		"asynq-2ms     all  redis-server is not installed: apt-get install redis-server"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var report Report
	if err := json.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	if got, want := len(report.Results), 2*2*3; got != want {
		t.Errorf("the report has %d results, want %d", got, want)
	}
	if report.Machine.Cores == 0 || report.Machine.FileSystem == "" || report.Machine.SyncMicros == 0 {
		t.Errorf("the machine is %+v", report.Machine)
	}
	if v := report.Settings["backlite"]; v == "" {
		t.Error("the report has no settings of backlite")
	}
}
