package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// disk makes sure that what was committed survives a power cut before anybody is told of it. With synchronous=FULL,
// SQLite would wait for the disk in the commit, and whoever writes next with it. So the writer's connection commits as
// with NORMAL, the WAL is synced here, and meanwhile the next transaction runs. One sync is for all commits before it.
//
// That another process may see what is not on the disk yet does no harm: what it writes in turn comes behind it in the same
// file, so that the one is never there without the other.
type disk struct {
	wal    string // the file; empty: nobody waits for the disk
	rescue func() error

	commits atomic.Int64 // the number of the last one

	mu     sync.Mutex
	file   *os.File // nil: not open
	synced int64    // the last commit that is on the disk
	broken bool     // a sync has failed
	sync   func(*os.File) error
}

// committed gives a commit of calls its number.
func (d *disk) committed(calls []*call) {
	n := d.commits.Add(1)
	for _, c := range calls {
		c.commit = n
	}
}

// owed says whether a call that was told of its outcome has to wait for the disk. The urgent need not: no lease outlives
// the power.
func (d *disk) owed(c *call) bool {
	return d.wal != "" && c.err == nil && c.commit > 0 && c.lane != urgent && !c.trusts
}

// await returns when a commit is on the disk.
func (d *disk) await(commit int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.wal == "" || d.synced >= commit {
		return nil
	}
	upTo := d.commits.Load()
	if d.broken {
		// What the system could not write once it may take for written the next time. So all of it goes another way.
		if err := d.rescue(); err != nil {
			return fmt.Errorf("%w: empty the WAL after a failed sync: %w", sqlstore.ErrUnavailable, err)
		}
		d.broken = false
		d.synced = upTo
		return nil
	}
	if err := d.open(); err != nil {
		return err
	}
	if d.file != nil {
		if err := d.sync(d.file); err != nil {
			d.broken = true
			return fmt.Errorf("%w: committed, but not on the disk: %w", sqlstore.ErrUnavailable, err)
		}
	}
	d.synced = upTo
	return nil
}

// open opens the WAL. That may be closed again, other than the database: no lock of SQLite is on it.
func (d *disk) open() (err error) {
	if d.file != nil {
		return nil
	}
	d.file, err = os.OpenFile(d.wal, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the last connection was closed meanwhile: all of it is in the database
	}
	if err != nil {
		return fmt.Errorf("%w: committed, but not on the disk: %w", sqlstore.ErrUnavailable, err)
	}
	return nil
}

// forget closes the WAL, which a new connection may give a new file.
func (d *disk) forget() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.file == nil {
		return nil
	}
	err := d.file.Close()
	d.file = nil
	return err
}
