package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// witness notices that the file of a store, or one of those beside it, was removed or replaced while it was open. What is
// written after that goes into a file that nobody will ever read, or is mixed up with what others write: there is no way
// to go on. Whoever looks only asks for the names: opening and closing the file would drop SQLite's locks on it (K66).
type witness struct {
	path string // without symbolic links, as SQLite sees it
	main os.FileInfo
	dir  *os.File // where they are; nil if it may not be read
	lost atomic.Pointer[error]
}

// unsettled is how long after a change of a directory, by the time that it bears, another one may go by without a trace:
// file systems keep that time in ticks of some milliseconds, the coarsest in whole seconds or two.
func unsettled(changed time.Time) time.Duration {
	if changed.Nanosecond() == 0 {
		return 3 * time.Second
	}
	return 100 * time.Millisecond
}

func newWitness(path string) (*witness, error) {
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", sqlstore.ErrUnavailable, err)
	}
	w := &witness{path: resolved}
	if w.main, err = identity(resolved); err != nil {
		return nil, fmt.Errorf("%w: %w", sqlstore.ErrUnavailable, err)
	}
	w.dir, _ = os.Open(filepath.Dir(resolved))
	return w, nil
}

func (w *witness) close() error {
	if w.dir == nil {
		return nil
	}
	return w.dir.Close()
}

// are says whether these are the files of the database at path.
func (w *witness) are(path string) bool {
	if path == w.path {
		return true
	}
	info, err := os.Stat(path) // there may be more than one way to write it
	return err == nil && os.SameFile(info, w.main)
}

// err is what look has found, now or before.
func (w *witness) err() error {
	if err := w.lost.Load(); err != nil {
		return *err
	}
	return nil
}

// sight is what a connection sees of its files, and when the directory has changed for the last time. Not for concurrent
// use.
type sight struct {
	wal, shm os.FileInfo // nil: not there. SQLite deletes them only when the last connection is closed
	dir      os.FileInfo // nil: look at each file
}

// meet remembers the files that a connection has just opened. A connection that has not read yet has none beside the
// main one.
func (w *witness) meet() *sight {
	wal, _ := identity(w.path + "-wal")
	shm, _ := identity(w.path + "-shm")
	return &sight{wal: wal, shm: shm}
}

// glance is look, for a third of the time, but for the names of the directories that lead to the files.
func (w *witness) glance(seen *sight) error {
	if seen.dir != nil {
		if dir, err := w.dir.Stat(); err == nil && dir.ModTime().Equal(seen.dir.ModTime()) {
			return w.err()
		}
	}
	return w.look(seen)
}

// look says whether the files are still those of the connection that met them. An error is final for the whole store.
//
// It stands behind each transaction, so it does not ask for each file as long as no name in their directory has been
// added, removed or given to another file since they were all found to be there.
func (w *witness) look(seen *sight) error {
	dir, err := os.Stat(filepath.Dir(w.path))
	if err == nil && seen.dir != nil && os.SameFile(seen.dir, dir) && dir.ModTime().Equal(seen.dir.ModTime()) {
		return w.err()
	}
	seen.dir = nil
	var latest time.Time
	for _, f := range []struct {
		path string
		info os.FileInfo
	}{{w.path, w.main}, {w.path + "-wal", seen.wal}, {w.path + "-shm", seen.shm}} {
		if f.info == nil {
			continue
		}
		now, err := os.Stat(f.path)
		var what string
		switch {
		case errors.Is(err, fs.ErrNotExist):
			what = "removed"
		case err == nil && !os.SameFile(f.info, now):
			what = "replaced"
		default: // that the name cannot be asked for now says nothing
			if err == nil && now.ModTime().After(latest) {
				latest = now.ModTime()
			}
			continue
		}
		gone := fmt.Errorf("%w: %q was %s: stop every process that uses the database before it is put back, then start them again",
			sqlstore.ErrGone, f.path, what)
		w.lost.CompareAndSwap(nil, &gone)
	}
	// The file system has set both times, so they can be compared; this machine's clock may be another.
	if err == nil && w.err() == nil && latest.Sub(dir.ModTime()) > unsettled(dir.ModTime()) {
		seen.dir = dir
	}
	return w.err()
}

// identity is os.Stat, with what os.SameFile compares: some systems find that out only when it is asked for.
func identity(path string) (os.FileInfo, error) {
	info, err := os.Stat(path)
	if err == nil {
		os.SameFile(info, info)
	}
	return info, err
}
