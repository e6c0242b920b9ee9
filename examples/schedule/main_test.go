package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), filepath.Join(t.TempDir(), "jobs.db"), &out); err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^report: sales for (\d\d:\d\d:\d\d)$`).FindAllStringSubmatch(out.String(), -1)
	if len(lines) < 3 {
		t.Fatalf("got %q, want three reports", out.String())
	}
	for i := range lines[1:] {
		a, errA := time.Parse(time.TimeOnly, lines[i][1])
		b, errB := time.Parse(time.TimeOnly, lines[i+1][1])
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		day := 24 * time.Hour
		if step := (b.Sub(a) + day) % day; step < time.Second {
			t.Errorf("got %v between boundaries, want at least 1s: %q", step, out.String())
		}
	}
}
