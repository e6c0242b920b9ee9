//go:build unix

package crashtest

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// disk is a place for a database, and how to make its writes fail and work again.
type disk struct {
	name string
	kind string // of the failure, as a caller is told
	dir  string
	fail func(s *scene, p *process)
	heal func(s *scene, p *process)
}

// limited is any disk, on which files of one process may not grow beyond a size that is less than the WAL takes until
// its next checkpoint, and more than the ledger. It needs no permission, on any Unix.
func limited(t *testing.T) disk {
	limit := func(bytes int) func(*scene, *process) {
		return func(_ *scene, p *process) {
			before, _ := p.heard("limited")
			p.tell(fmt.Sprint("limit ", bytes))
			p.await("limited", len(before)+1)
		}
	}
	return disk{name: "file_size_limit_of_the_process", kind: "unavailable", dir: t.TempDir(), fail: limit(256 << 10), heal: limit(0)}
}

// TestDiskFails is a disk that takes no more writes for a while, under a worker and a producer in one process. No success
// is reported that was none, what had finished is acked once it can be, and nobody has to start anything again. // K59
func TestDiskFails(t *testing.T) {
	for _, d := range append(mounted(t), limited(t)) {
		t.Run("K59_"+d.name, func(t *testing.T) {
			t.Parallel()
			s := newSceneIn(t, d.dir, t.TempDir())
			p := s.start(part{Role: "plant", Concurrency: 4, Durable: true}) // fewer slots than there are jobs to come
			p.await("stored", 100)                                           // the WAL has been full once, so that what fails is a checkpoint, too
			p.await(ended, 1)
			d.fail(s, p)
			refused, _ := p.heard("refused")
			p.await("refused", len(refused)+1)
			told := time.Now()
			// Long enough for every loop of the worker to run into it, and for every handler that runs to return.
			p.await("refused", len(refused)+300)
			during := len(p.warnings())
			running := 0
			for _, r := range runsOf(readLedger(t, s.path)) {
				if e := r[len(r)-1].end; e != nil && e.at.After(told) {
					running++ // has ended, and its ack cannot get through
				}
			}
			d.heal(s, p)
			healed := time.Now()
			stored := len(p.stored())
			p.await("stored", stored+20)
			if took := time.Since(healed); took > 5*slowness*time.Second {
				t.Errorf("it took %v to enqueue again", took)
			}
			p.tell("enough")
			p.await("enough", 1)
			s.open()
			s.until("the end of the jobs", s.empty)
			p.stop()

			lines, _ := p.heard("refused")
			for _, line := range lines[len(refused):] {
				if got := strings.Fields(line)[1]; got != d.kind {
					t.Errorf("%q, want %s", line, d.kind)
					break
				}
			}
			ids := slices.Sorted(maps.Keys(p.stored()))
			entries := readLedger(t, s.path)
			judge(t, entries, ids, plantLease)
			ran := runsOf(entries)
			for _, id := range ids {
				if n := len(ran[id]); n != 1 {
					t.Errorf("job %d ran %d times", id, n)
				}
				delete(ran, id)
			}
			if len(ran) > 0 {
				t.Errorf("ran, though their enqueues had failed: %v", slices.Sorted(maps.Keys(ran)))
			}
			s.healthy()
			if running == 0 {
				t.Error("no handler returned while nothing could be written: the test shows nothing")
			}
			// Each loop says it once, whatever happens how often: claims, answers, heartbeats, sweeps, announcements, schedules.
			if during == 0 || during > 6 {
				t.Errorf("got %d warnings while the disk failed, want one to six:\n%s", during, strings.Join(p.warnings(), "\n"))
			}
			t.Logf("%d jobs stored, %d enqueues refused as %q, %d acks held up, %d warnings", len(ids), len(lines), d.kind, running, during)
		})
	}
}

// unwritable is any disk, on which the database's files have lost their write permission and a write has failed, so that
// they are opened anew. Root may write them all the same.
func unwritable(t *testing.T) []disk {
	if os.Getuid() == 0 {
		return nil
	}
	limit := limited(t)
	mode := func(s *scene, mode os.FileMode) {
		for _, name := range []string{s.db, s.db + "-wal"} {
			if err := os.Chmod(name, mode); err != nil {
				s.Fatal(err)
			}
		}
	}
	return []disk{{
		name: "modes_without_write_permission", dir: limit.dir,
		fail: func(s *scene, p *process) { mode(s, 0o400); limit.fail(s, p) },
		heal: func(s *scene, _ *process) { mode(s, 0o600) },
	}}
}

// TestDiskTurnsReadOnly: a worker whose disk takes no more writes, which no waiting mends, ends within seconds and says
// why. All that it was told is stored is there when the disk is writable again.
func TestDiskTurnsReadOnly(t *testing.T) {
	for _, d := range append(readOnly(t), unwritable(t)...) {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			s := newSceneIn(t, d.dir, t.TempDir())
			p := s.start(part{Role: "plant", Concurrency: 16, Durable: true})
			p.await("stored", 50)
			p.await(ended, 1)
			d.fail(s, p)
			failed := time.Now()
			state := p.wait()
			if took := time.Since(failed); took > 5*slowness*time.Second {
				t.Errorf("the worker ended after %v, want a few seconds", took)
			}
			said := p.complaints()
			if state.Success() || !strings.Contains(said, "database is read-only") {
				t.Errorf("the worker ended with %v, want a failure that says why:\n%s", state, said)
			}
			lines, _ := p.heard("refused")
			if len(lines) == 0 {
				t.Error("no enqueue was refused: the test shows nothing")
			}
			d.heal(s, p)
			s.open()
			s.healthy()
			ran := runsOf(readLedger(t, s.path))
			kept := 0
			for id := range p.stored() {
				switch runs := ran[id]; {
				case s.get(id) != nil:
					kept++
				case len(runs) == 0 || runs[0].end == nil:
					t.Errorf("job %d is gone, though it was stored and has not run", id)
				}
			}
			t.Logf("%d jobs stored, %d of them not acked, %d enqueues refused: %s", len(p.stored()), kept, len(lines), slices.Compact(lines))
		})
	}
}

// warnings are the lines of the log that call for an operator.
func (p *process) warnings() (lines []string) {
	for line := range strings.Lines(p.complaints()) {
		if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}
