package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	for range 2 { // the second time on a file that exists
		var out strings.Builder
		if err := run(t.Context(), path, &out); err != nil {
			t.Fatal(err)
		}
		if got, want := out.String(), "Hello, Ada!\nHello, Grace!\nHello, Edsger!\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
