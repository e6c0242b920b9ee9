package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), filepath.Join(t.TempDir(), "shop.db"), &out); err != nil {
		t.Fatal(err)
	}
	got := out.String()
	for _, want := range []string{
		"refused: an order of nothing\n",
		"order 1: shipped\n",
		"order 2: crash before the commit\n",
		"order 2: shipped\n",
		"order 3: crash after the commit\n",
	} {
		if strings.Count(got, want) != 1 {
			t.Errorf("want one line %q in\n%s", want, got)
		}
	}
	if want := "3 orders, 3 of them shipped by 3 shipments, 0 jobs left\n"; !strings.HasSuffix(got, want) {
		t.Errorf("want the last line %q in\n%s", want, got)
	}
}
