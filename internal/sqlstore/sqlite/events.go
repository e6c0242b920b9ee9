package sqlite

import (
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// calm is how long after a wake-up events are left to gather, once several have followed one another: a process that
	// writes without a break, be it this one, causes some hundred looks a second and not one for each commit.
	calm = 3 * time.Millisecond

	// The WAL is written before a commit, which then waits for the disk: a look that comes too early is repeated, ever
	// later, so many times.
	soonest = 100 * time.Microsecond
	looks   = 9 // 51 ms in all

	// deafness is how long no event is heard after one that was reason for a look in vain, or for the first that was not. The
	// next may be the one of a commit, which should not have to wait until the look is repeated.
	deafness = 500 * time.Microsecond

	// own is how long to wait with the look after an event of our own. If that is in vain, it is as good as the fourth.
	own   = time.Millisecond
	owned = 4

	// net is how often to look all the same where events work.
	net = 3 * time.Second
)

// events tells when the WAL has been written to, by any process.
type events struct {
	watcher *fsnotify.Watcher // nil: there are none
	path    string
	again   *alarm
	deaf    bool          // until the alarm
	rest    time.Duration // of the wait for the next look, once it is not deaf any more
	early   int           // looks that came too early
	calm    time.Duration // after the next change
	quiet   bool          // since the calm after the last one; if it still is at the alarm, the next is a first one again
}

// listen begins to tell. Where the system has no events for files, or only such as need them opened, there are none:
// closing the file again would drop SQLite's locks on it (K66), which rules kqueue out.
func listen(path string) *events {
	e := &events{path: path, again: newAlarm(), calm: deafness}
	if runtime.GOOS != "linux" && runtime.GOOS != "windows" {
		return e
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return e // too many of them, perhaps: polling does
	}
	if err := watcher.Add(filepath.Dir(path)); err != nil {
		_ = watcher.Close()
		return e
	}
	e.watcher = watcher
	return e
}

// poll is how often to look besides.
func (e *events) poll(wanted time.Duration) time.Duration {
	if e.watcher == nil {
		return wanted
	}
	return max(wanted, net)
}

// event is what to wait for. While it is deaf the system gathers: many writes in a row become one event.
func (e *events) event() <-chan fsnotify.Event {
	if e.watcher == nil || e.deaf {
		return nil
	}
	return e.watcher.Events
}

// trouble is what to wait for too. An event may have been lost by it.
func (e *events) trouble() <-chan error {
	if e.watcher == nil || e.deaf {
		return nil
	}
	return e.watcher.Errors
}

// about says whether an event is reason to look: a commit, or a file that comes or goes.
func (e *events) about(event fsnotify.Event) bool {
	beside, ours := strings.CutPrefix(event.Name, e.path)
	switch {
	case !ours || beside != "" && beside != "-wal" && beside != "-shm":
		return false
	case event.Has(fsnotify.Write):
		return beside == "-wal"
	}
	return true
}

// heard is for an event that is reason to look: what there was to see before it matters no more.
func (e *events) heard() { e.early = min(e.early, 1) }

// ours is for an event that this process has caused itself, as it seems: whoever is to know of that is told another way, and
// a look would only be in the way. One that is due to another process has to wait for this long.
func (e *events) ours() {
	e.rest, e.quiet = 0, false
	e.deaf, e.early = true, owned
	e.again.set(own)
}

// looked plans the next look after one that was due to an event.
func (e *events) looked(changed bool) {
	e.rest, e.quiet = 0, false
	switch {
	case changed:
		e.deaf, e.early = true, 0
		e.again.set(e.calm)
		e.calm = min(2*e.calm, calm)
	case e.early < looks:
		wait := soonest << e.early
		e.early++
		e.deaf, e.rest = true, max(wait-deafness, 0)
		e.again.set(wait - e.rest)
		if wait > calm {
			e.calm = deafness
		}
	default:
		e.deaf, e.early = false, 0
	}
}

// due is what the alarm is for: it says whether to look.
func (e *events) due() bool {
	e.deaf = false
	switch {
	case e.rest > 0:
		e.again.set(e.rest)
		e.rest = 0
	case e.early > 0:
		return true
	case !e.quiet:
		e.quiet = true
		e.again.set(calm)
	default:
		e.calm = deafness
	}
	return false
}

func (e *events) close() {
	e.again.close()
	if e.watcher != nil {
		_ = e.watcher.Close() // nothing is left to be told
	}
}
