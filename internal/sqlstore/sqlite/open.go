package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/semver"
	"modernc.org/sqlite"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/sqlite/walvfs"
)

// oldestSQLite is the first version without the WAL-reset bug, by which two processes that write and checkpoint at the
// same moment could lose pages: https://sqlite.org/wal.html#walresetbug.
const oldestSQLite = "3.51.3"

// readerConnections bounds the pool of readers: each keeps a page cache of its own.
const readerConnections = 4

// Open opens a file, creates it with mode 0600 if there is none, and brings its schema up to date.
//
// ErrNewer for a schema from the future, ErrCorrupt for a file that is no database, ErrReadOnly for one that may not be
// written; each names the path. Nothing is changed by a refusal.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	s, err := open(ctx, path, o)
	if err != nil {
		return nil, fail(fmt.Sprintf("open %q", path), "", 0, err)
	}
	return s, nil
}

// OpenDB opens the file that a pool of the caller is on. The pool itself is only asked for the path: the store brings
// connections of its own, so that neither settings nor limits of the caller's pool touch it.
//
// ErrUnsupported unless the pool is modernc.org/sqlite's: a second SQLite library in one process would drop the file
// locks of the first whenever it closes a file.
func OpenDB(ctx context.Context, db *sql.DB, o Options) (*Store, error) {
	if _, ok := db.Driver().(*sqlite.Driver); !ok {
		err := fmt.Errorf("%w: driver %T; open the pool with modernc.org/sqlite", sqlstore.ErrUnsupported, db.Driver())
		return nil, fail("open", "", 0, err)
	}
	var path string
	on := newSession(db)
	_, err := on.one(ctx, "main_file", []any{&path})
	if err := errors.Join(err, on.close()); err != nil {
		return nil, fail("open", "", 0, err)
	}
	if path == "" {
		err := fmt.Errorf("%w: the pool's database is not a file", sqlstore.ErrUnsupported)
		return nil, fail("open", "", 0, err)
	}
	return Open(ctx, path, o)
}

func open(ctx context.Context, path string, o Options) (_ *Store, err error) {
	if err := checkOptions(o); err != nil {
		return nil, err
	}
	// For the whole process, and what SQLite does wherever it is built for the system: a commit that does not wait for the
	// time of the file's last change to be written as well. Where there is no fdatasync, it stays with fsync.
	_, _ = sqlite.Fdatasync(true)
	if err := walvfs.Register(); err != nil {
		return nil, err
	}
	if err := prepareFile(path); err != nil {
		return nil, err
	}
	if path, err = filepath.Abs(path); err != nil { // the working directory may change
		return nil, fmt.Errorf("%w: %w", sqlstore.ErrUnavailable, err)
	}
	if err := setUp(ctx, path, o); err != nil {
		return nil, err
	}
	files, err := newWitness(path)
	if err != nil {
		return nil, err
	}
	s := &Store{
		path:    path,
		options: o,
		files:   files,
		readers: openPool(path, o, reader, readerConnections),
	}
	s.write = newWriter(path, o, files, s.signals.Send)
	s.read = newSession(s.readers)
	return s, nil
}

func checkOptions(o Options) error {
	var errs []error
	if s := o.synchronous(); s != "FULL" && s != "NORMAL" {
		errs = append(errs, fmt.Errorf("synchronous is %q, want FULL or NORMAL", s))
	}
	if o.BusyTimeout < 0 {
		errs = append(errs, fmt.Errorf("busy timeout is %v, want zero or more", o.BusyTimeout))
	}
	return errors.Join(errs...)
}

func openPool(path string, o Options, r role, connections int) *sql.DB {
	var db *sql.DB
	if name := dsn(path, o, r); o.Driver != nil {
		db = sql.OpenDB(connector{driver: o.Driver, dsn: name})
	} else {
		var err error
		if db, err = sql.Open("sqlite", name); err != nil {
			panic("sqlite: " + err.Error()) // the driver is imported above and takes any DSN
		}
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db
}

// connector opens connections of a driver that is not registered.
type connector struct {
	driver driver.Driver
	dsn    string
}

// Connect implements driver.Connector.
func (c connector) Connect(context.Context) (driver.Conn, error) { return c.driver.Open(c.dsn) }

// Driver implements driver.Connector.
func (c connector) Driver() driver.Driver { return c.driver }

// prepareFile refuses early what SQLite would refuse late or with fewer words, and creates a missing file. It never
// opens an existing one: closing it again would drop the locks that SQLite holds for this process on the same file.
func prepareFile(path string) error {
	if strings.ContainsRune(path, 0) {
		return errors.New("the path contains a NUL byte")
	}
	dir := filepath.Dir(path)
	switch info, err := os.Stat(dir); {
	case err != nil:
		return fmt.Errorf("%w: directory: %w", sqlstore.ErrUnavailable, err)
	case !info.IsDir():
		return fmt.Errorf("%w: %q is not a directory", sqlstore.ErrUnavailable, dir)
	case info.Mode().Perm()&0o222 == 0:
		return fmt.Errorf("%w: directory %q has no write permission, which the files beside the database need",
			sqlstore.ErrReadOnly, dir)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if link, err := os.Readlink(path); err == nil {
			return fmt.Errorf("%w: it is a symbolic link to %q, which is not there: create an empty file there, or remove the link",
				sqlstore.ErrUnavailable, link)
		}
		return createFile(path)
	case err != nil:
		return fmt.Errorf("%w: %w", sqlstore.ErrUnavailable, err)
	case info.IsDir():
		return fmt.Errorf("%w: it is a directory, want a file", sqlstore.ErrUnavailable)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%w: it is no regular file", sqlstore.ErrUnavailable)
	case info.Mode().Perm()&0o222 == 0:
		return fmt.Errorf("%w: the file has no write permission", sqlstore.ErrReadOnly)
	}
	return nil
}

// createFile makes an empty file that only its owner can read, since payloads may be secrets; SQLite would ask the umask,
// and gives the files beside it the same mode. The file is made under another name and linked, so that no descriptor
// of the database itself is ever closed here.
func createFile(path string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".alkworker-*") // 0600
	if err != nil {
		return fmt.Errorf("%w: create: %w", sqlstore.ErrUnavailable, err)
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	if err := closePrivate(f); err != nil {
		return err
	}
	switch err := os.Link(f.Name(), path); {
	case err == nil, errors.Is(err, fs.ErrExist): // another process was first
		return nil
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, fs.ErrPermission): // no hard links on this file system
		own, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: create: %w", sqlstore.ErrUnavailable, err)
		}
		return closePrivate(own)
	default:
		return fmt.Errorf("%w: create: %w", sqlstore.ErrUnavailable, err)
	}
}

// closePrivate closes a new file of mode 0600, whatever the umask has made of it.
func closePrivate(f *os.File) error { return errors.Join(f.Chmod(0o600), f.Close()) }

// setUp brings a file to WAL mode and the newest schema, over one connection that is closed again.
func setUp(ctx context.Context, path string, o Options) error {
	pool := openPool(path, o, setup, 1)
	err := func() error {
		conn, err := pool.Conn(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }() // back to the pool
		on := newSession(conn)
		defer func() { _ = on.close() }()
		var version string
		if _, err := on.one(ctx, "sqlite_version", []any{&version}); err != nil {
			return err
		}
		if err := checkVersion(version); err != nil {
			return err
		}
		if _, err := schemaVersion(ctx, on); err != nil { // before anything is changed
			return err
		}
		if err := useWAL(ctx, on, max(o.busyTimeout(), openPatience)); err != nil {
			return err
		}
		return migrate(ctx, conn, on)
	}()
	return errors.Join(err, pool.Close())
}

func checkVersion(version string) error {
	if semver.Compare("v"+version, "v"+oldestSQLite) < 0 {
		return fmt.Errorf("%w: SQLite %s can lose pages when several processes write; %s or newer is needed",
			sqlstore.ErrUnsupported, version, oldestSQLite)
	}
	return nil
}

// useWAL switches the journal mode, which the file remembers. While several processes do it at once, SQLite answers
// "locked" without asking the busy handler, so the wait is here.
func useWAL(ctx context.Context, on *session, patience time.Duration) error {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		var mode string
		_, err := on.one(ctx, "use_wal", []any{&mode})
		if err == nil && mode != "wal" {
			return fmt.Errorf("%w: the journal stays in mode %q; WAL needs a local file system with shared memory",
				sqlstore.ErrUnsupported, mode)
		}
		if !errors.Is(kind(err), sqlstore.ErrBusy) {
			return err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-deadline.C:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
