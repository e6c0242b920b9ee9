package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// witness notices that the file of a store, or one of those beside it, was removed or replaced while it was open. What is
// written after that goes into a file that nobody will ever read, or is mixed up with what others write: there is no way
// to go on. Whoever looks only asks for the names: opening and closing the file would drop SQLite's locks on it (K66).
type witness struct {
	path string // without symbolic links, as SQLite sees it
	main os.FileInfo
	lost atomic.Pointer[error]
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
	return w, nil
}

// err is what look has found, now or before.
func (w *witness) err() error {
	if err := w.lost.Load(); err != nil {
		return *err
	}
	return nil
}

// beside are the WAL and its index while a connection is open: SQLite deletes them only when the last one is closed.
type beside struct {
	wal, shm os.FileInfo // nil: not there
}

// meet remembers the files that a connection has just opened. A connection that has not read yet has none.
func (w *witness) meet() beside {
	wal, _ := identity(w.path + "-wal")
	shm, _ := identity(w.path + "-shm")
	return beside{wal: wal, shm: shm}
}

// look says whether the files are still those of the connection that met b. An error is final for the whole store.
func (w *witness) look(b beside) error {
	for _, f := range []struct {
		path string
		info os.FileInfo
	}{{w.path, w.main}, {w.path + "-wal", b.wal}, {w.path + "-shm", b.shm}} {
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
		default:
			continue // that the name cannot be asked for now says nothing
		}
		gone := fmt.Errorf("%w: %q was %s: stop every process that uses the database before it is put back, then start them again",
			sqlstore.ErrGone, f.path, what)
		w.lost.CompareAndSwap(nil, &gone)
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
