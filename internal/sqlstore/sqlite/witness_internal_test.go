package sqlite

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Whether a change of the directory shows in its time depends on how far back the last one is, and on how fine the file
// system keeps it. // K66
func TestWitnessSettles(t *testing.T) {
	const ms = time.Millisecond
	now := time.Date(2026, 1, 2, 3, 4, 5, 600_000_000, time.UTC)
	for _, c := range []struct {
		name    string
		changed time.Time // the directory
		settled bool
	}{
		{"a moment ago", now.Add(-50 * ms), false},
		{"some ticks ago", now.Add(-150 * ms), true},
		{"in the same whole second", now.Truncate(time.Second), false},
		{"two whole seconds ago", now.Truncate(time.Second).Add(-2 * time.Second), false},
		{"three whole seconds ago", now.Truncate(time.Second).Add(-3 * time.Second), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "q.db")
			for _, name := range []string{path, path + "-wal", path + "-shm"} {
				if err := os.WriteFile(name, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Chtimes(name, now, now); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chtimes(filepath.Dir(path), c.changed, c.changed); err != nil {
				t.Fatal(err)
			}
			w, err := newWitness(path)
			if err != nil {
				t.Fatal(err)
			}
			seen := w.meet()
			if err := w.look(seen); err != nil {
				t.Fatal(err)
			}
			if got := seen.dir != nil; got != c.settled {
				t.Errorf("settled: got %v, want %v", got, c.settled)
			}
		})
	}
}
