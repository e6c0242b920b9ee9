package sqlite

import (
	"database/sql/driver"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore/sqlite/walvfs"
)

// Options are how a file is opened. The zero value is the safe default.
type Options struct {
	// BusyTimeout is how long a write waits for the lock of another process before it answers ErrBusy; zero is 5 s.
	// Opening waits longer, a minute at least if the schema has to be made or brought up to date.
	BusyTimeout time.Duration
	// Synchronous is FULL (zero value: what was acknowledged survives a power cut) or NORMAL (survives a crash of the
	// process; a power cut may take the last commits).
	Synchronous string
	// Clock replaces the database's clock, in Unix seconds, for tests. It must be safe for concurrent use: checkpoints read
	// it too. Nil is the database's own.
	Clock func() int64
	// Driver replaces modernc.org/sqlite's driver, for tests: one around it that fails on purpose. Nil is the driver
	// itself.
	Driver driver.Driver
}

func (o Options) busyTimeout() time.Duration {
	if o.BusyTimeout == 0 {
		return 5 * time.Second
	}
	return o.BusyTimeout
}

func (o Options) synchronous() string {
	if o.Synchronous == "" {
		return "FULL"
	}
	return o.Synchronous
}

// role says what a connection is for.
type role int

const (
	setup   role = iota // looks at a file that may be anything: leaves its journal mode alone
	writing             // the one writer, who waits for locks and for the disk himself, and leaves the WAL to the checkpointer
	keeper              // the checkpointer
	reader              // cannot write
	callers             // a pool of the caller, who may create the file
)

// openPatience is how long to wait at least for others while a file is being opened: of several processes that open a new
// one at the same moment all must succeed, however impatient they are later.
const openPatience = 5 * time.Second

// walSizeLimit is the size in bytes to which a checkpoint cuts the WAL back after a long reader let it grow.
const walSizeLimit = 64 << 20

// DSN is the data source name for a pool of the caller on the same file, for sql.Open("sqlite", …): the same settings
// on each connection as ours have, and transactions that are immediate. The path is taken literally.
func DSN(path string, o Options) string { return dsn(path, o, callers) }

func dsn(path string, o Options, r role) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs // else the working directory is gone, and opening says so
	}
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/jobs.db
	}
	mode, timeout, synchronous := "rw", o.busyTimeout(), o.synchronous()
	switch r {
	case callers:
		mode = "rwc"
	case setup:
		timeout = max(timeout, openPatience)
	case writing:
		timeout, synchronous = 0, "NORMAL"
	case keeper:
		timeout = 0
	case reader:
	}
	q := url.Values{
		"mode":          {mode},
		"_txlock":       {"immediate"},
		"_busy_timeout": {fmt.Sprint(timeout.Milliseconds())},
	}
	if r != setup {
		q["_pragma"] = []string{
			"journal_mode(WAL)",
			"synchronous(" + synchronous + ")",
			"foreign_keys(ON)",
			fmt.Sprintf("journal_size_limit(%d)", walSizeLimit),
		}
	}
	if r == reader {
		q.Add("_pragma", "query_only(ON)")
	}
	if r == writing {
		q.Set("vfs", walvfs.Name)
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String()
}
