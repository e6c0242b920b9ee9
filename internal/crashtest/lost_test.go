//go:build unix

package crashtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// loss is something that somebody does to the files of a database in use.
type loss struct {
	name string
	dir  string // a folder of its own; empty: any
	do   func(db string) error
}

// losses are removals, renames as a log rotation makes them, and replacements as a restore makes them.
func losses() (all []loss) {
	for name, suffix := range map[string]string{"file": "", "WAL": "-wal", "index": "-shm"} {
		all = append(all,
			loss{name: name + "_removed", do: func(db string) error { return os.Remove(db + suffix) }},
			loss{name: name + "_renamed", do: func(db string) error { return os.Rename(db+suffix, db+suffix+".old") }},
			loss{name: name + "_replaced", do: func(db string) error {
				return errors.Join(os.WriteFile(db+".new", nil, 0o600), os.Rename(db+".new", db+suffix))
			}},
		)
	}
	return append(all,
		loss{name: "all_removed", do: func(db string) error {
			return errors.Join(os.Remove(db), os.Remove(db+"-wal"), os.Remove(db+"-shm"))
		}},
		loss{name: "folder_renamed", do: func(db string) error {
			return os.Rename(filepath.Dir(db), filepath.Dir(db)+".old")
		}},
		loss{name: "folder_replaced", do: func(db string) error {
			dir := filepath.Dir(db)
			return errors.Join(os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o700), os.WriteFile(db, nil, 0o600))
		}},
	)
}

// TestFilesLost takes the files away from under a worker and a producer in one process. Both end within seconds, and say
// which file it was; nothing that is asked for after the loss is answered with success.
func TestFilesLost(t *testing.T) {
	for _, l := range append(losses(), unmounted(t)...) {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			if l.dir == "" {
				l.dir = filepath.Join(t.TempDir(), "dir")
				if err := os.Mkdir(l.dir, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			s := newSceneIn(t, l.dir, t.TempDir())
			p := s.start(part{Role: "plant", Concurrency: 16})
			p.await("stored", 20)
			p.await(ended, 1)
			if err := l.do(s.db); err != nil {
				t.Fatal(err)
			}
			lost := time.Now()
			state := p.wait()
			if took := time.Since(lost); took > 5*slowness*time.Second {
				t.Errorf("the worker ended after %v, want a few seconds", took)
			}
			said := p.complaints()
			if state.Success() || !strings.Contains(said, "database file is gone") || !strings.Contains(said, s.db) {
				t.Errorf("the worker ended with %v, want a failure that names the file:\n%s", state, said)
			}
			for id, asked := range p.stored() {
				if asked.After(lost) {
					t.Errorf("job %d was stored %v after the loss", id, asked.Sub(lost))
				}
			}
			refused, _ := p.heard("refused gone")
			if len(refused) == 0 {
				t.Error("no enqueue was refused because the file is gone")
			}
			// After its end nothing of the worker's has started or ended well.
			started, _ := p.heard(started)
			t.Logf("%d jobs stored, %d started, %d enqueues refused: %s", len(p.stored()), len(started), len(refused),
				fmt.Sprint(slices.Compact(refused)))
		})
	}
}
