//go:build unix

package torture

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// machine is a computer with a disk of its own, an image in a file, that loses its power.
type machine struct {
	Disk  string        // the image
	At    string        // where it is mounted
	File  string        // the database on it
	Keep  bool          // the database of the last time
	Copy  string        // of the database as it is found afterwards
	After time.Duration // until the power is cut

	Synchronous string
}

// cutMark is what a machine says when it is about to lose its power. What is acknowledged after that does not count:
// a sync that is under way then may report success though its transaction is not written any more, to a process that
// would have died with the machine.
const cutMark = "#"

// cut runs the machine and hears what the writer on it says.
func (m machine) cut(l *acknowledged) error {
	cmd, err := m.start()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err := errors.Join(err, cmd.Start()); err != nil {
		return err
	}
	l.cut = false
	l.read(out) // until the writer is dead as well
	return cmd.Wait()
}

// newMachine is one with an empty disk.
func newMachine(dir string) (machine, error) {
	m := machine{
		Disk: filepath.Join(dir, "disk"), At: filepath.Join(dir, "mnt"), File: "queue.db", Copy: filepath.Join(dir, "copy.db"),
	}
	return m, errors.Join(os.Mkdir(m.At, 0o700), makeDisk(m.Disk))
}

// TestPowerCut cuts the power of a machine that writes, and looks at its disk. With FULL whatever was acknowledged is
// there. With NORMAL the database is whole, but the latest jobs are missing: that shows that the test could tell.
//
// It takes Linux, root and a loop device. Elsewhere it says so, and TestPowerLoss is all there is.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	trial, err := newMachine(t.TempDir())
	if err == nil {
		err = trial.cut(newAcknowledged())
	}
	if err != nil {
		t.Logf("power loss: NOT CUT FOR REAL, only the files of a stopped process are looked at: %v", err)
		return
	}
	for _, synchronous := range []string{"FULL", "NORMAL"} {
		t.Run(synchronous, func(t *testing.T) {
			t.Parallel()
			m, err := newMachine(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			m.Synchronous = synchronous
			l := newAcknowledged()
			acked, lost, revived, late, round := 0, 0, 0, 0, 0
			n := rounds(t, 10, func(t *testing.T, seed uint64) {
				random := rand.New(rand.NewPCG(seed, 0))
				m.After = time.Duration(random.IntN(600_000)) * time.Microsecond
				folder := t.TempDir()
				defer os.RemoveAll(folder) // now: there are many
				m.Copy = filepath.Join(folder, "copy.db")
				// A database that was started anew after a loss gives the ids of what is lost to others.
				if m.Keep = synchronous == "FULL" && round%3 > 0; !m.Keep {
					l = newAcknowledged()
				}
				round++
				if err := m.cut(l); err != nil {
					t.Fatal(err)
				}
				was := l.now()
				acked += len(was.enqueued)
				late, l.late = late+l.late, 0
				missing, back := was.enqueued, []int64(nil)
				if _, err := os.Stat(m.Copy); !errors.Is(err, fs.ErrNotExist) {
					missing, back = was.compare(t, m.Copy)
				}
				lost, revived = lost+len(missing), revived+len(back)
				if synchronous == "FULL" && len(missing)+len(back) > 0 {
					t.Errorf("of %d acknowledged jobs are missing %v, of %d that were done are back %v", len(was.enqueued), missing,
						len(was.done), back)
				}
			})
			t.Logf("power loss: cut for real %d times with synchronous=%s, of %d acknowledged jobs %d lost and %d undone; "+
				"%d acknowledged during the cut", n, synchronous, acked, lost, revived, late)
			if acked == 0 || synchronous == "NORMAL" && lost == 0 {
				t.Error("nothing was acknowledged or lost: the test could not tell")
			}
		})
	}
}
