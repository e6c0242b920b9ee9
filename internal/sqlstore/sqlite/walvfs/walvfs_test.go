package walvfs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"modernc.org/libc"
	_ "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
	"pgregory.net/rapid"
)

// TestAsWithoutTheLayer has one connection with the layer and others without it work on one file at random, beside a
// database of its own that is told the same. The cache is so small that pages are written before the commit, read back and
// written over; writes fail, savepoints and transactions are rolled back, others write and checkpoint. After each
// transaction others see what it says, and a crash would leave it behind.
func TestAsWithoutTheLayer(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b, end := newBeside(rt, t.TempDir())
		defer end()
		b.run(rt)
	})
}

// beside are the connections of one run of the test.
type beside struct {
	path                         string
	layered, plain, reader, twin *sql.Conn
}

func newBeside(t *rapid.T, dir string) (_ *beside, end func()) {
	b := &beside{path: filepath.Join(dir, "some.db")}
	var closers []func()
	connect := func(path string, parameters ...string) *sql.Conn {
		c, closer := open(t, path, parameters...)
		closers = append(closers, closer)
		return c
	}
	b.plain = connect(b.path)
	b.twin = connect(filepath.Join(dir, "twin.db"))
	exec(t, b.plain, "PRAGMA page_size = 512", "PRAGMA journal_mode = WAL", "PRAGMA wal_autocheckpoint = 0")
	exec(t, b.twin, "PRAGMA journal_mode = MEMORY", "PRAGMA synchronous = OFF")
	for _, c := range []*sql.Conn{b.plain, b.twin} {
		exec(t, c, "CREATE TABLE t (id INTEGER PRIMARY KEY, v BLOB CHECK (v >= x''))", "CREATE INDEX by_v ON t (v)")
	}
	b.reader = connect(b.path)
	b.layered = connect(b.path, "vfs="+Name)
	exec(t, b.layered, "PRAGMA cache_size = 10", "PRAGMA wal_autocheckpoint = 0",
		fmt.Sprintf("PRAGMA synchronous = %d", rapid.IntRange(1, 2).Draw(t, "synchronous")))
	return b, func() {
		for _, closer := range slices.Backward(closers) {
			closer()
		}
	}
}

func (b *beside) run(t *rapid.T) {
	for range rapid.IntRange(1, 12).Draw(t, "transactions") {
		switch rapid.IntRange(0, 5).Draw(t, "who") {
		case 0:
			statement := insertion(t)
			exec(t, b.plain, statement)
			exec(t, b.twin, statement)
		case 1:
			mode := rapid.SampledFrom([]string{"PASSIVE", "FULL", "RESTART", "TRUNCATE"}).Draw(t, "mode")
			exec(t, rapid.SampledFrom([]*sql.Conn{b.plain, b.layered}).Draw(t, "checkpoints"), "PRAGMA wal_checkpoint("+mode+")")
		default:
			b.transaction(t)
		}
		b.check(t)
	}
}

// transaction does the same on the layer and on the twin. Where a write fails, so does what SQLite was doing, or nothing.
func (b *beside) transaction(t *rapid.T) {
	failing := failAt(only(t), rapid.IntRange(0, 60).Draw(t, "the write that fails"),
		rapid.SampledFrom([]int32{sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE}).Draw(t, "code"))
	exec(t, b.layered, "BEGIN IMMEDIATE")
	exec(t, b.twin, "BEGIN")
	var err error
	for range rapid.IntRange(1, 8).Draw(t, "statements") {
		statement := b.statement(t)
		if err = try(b.layered, statement); err != nil {
			break
		}
		exec(t, b.twin, statement)
		if rapid.Bool().Draw(t, "look") {
			var got string
			if got, err = content(b.layered); err != nil {
				break
			}
			if want := contentOf(t, b.twin); got != want {
				t.Fatalf("inside the transaction: content %s, want %s", got, want)
			}
		}
	}
	end := rapid.SampledFrom([]string{"COMMIT", "COMMIT", "ROLLBACK"}).Draw(t, "end")
	if failed := try(b.layered, end); failed != nil {
		err, end = errors.Join(err, failed), "ROLLBACK"
		_ = try(b.layered, end) // which SQLite may have done by itself
	}
	if failed := failing(); err != nil && !failed {
		t.Fatalf("no write has failed, but %v", err)
	}
	exec(t, b.twin, end)
}

func (b *beside) statement(t *rapid.T) string {
	switch rapid.IntRange(0, 7).Draw(t, "what") {
	case 0:
		return fmt.Sprintf("DELETE FROM t WHERE id %% 7 = %d", rapid.IntRange(0, 6).Draw(t, "rest"))
	case 1, 2:
		return fmt.Sprintf("UPDATE t SET v = zeroblob(%d) WHERE id %% 3 = %d",
			rapid.IntRange(0, 900).Draw(t, "size"), rapid.IntRange(0, 2).Draw(t, "rest"))
	case 3:
		return "SAVEPOINT s"
	case 4:
		return "SAVEPOINT s; " + insertion(t) + "; ROLLBACK TO s"
	default:
		return insertion(t)
	}
}

func insertion(t *rapid.T) string {
	return fmt.Sprintf(`
		WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < %d)
		INSERT INTO t (v) SELECT zeroblob(%d + n %% 5) FROM n`,
		rapid.IntRange(1, 60).Draw(t, "rows"), rapid.IntRange(0, 700).Draw(t, "size"))
}

// check compares what the twin has with what others see, and with what they would after a crash.
func (b *beside) check(t *rapid.T) {
	want := contentOf(t, b.twin)
	for name, c := range map[string]*sql.Conn{"layered": b.layered, "another": b.reader} {
		if got := contentOf(t, c); got != want {
			t.Fatalf("the %s connection sees content %s, want %s", name, got, want)
		}
	}
	copied := filepath.Join(filepath.Dir(b.path), "copy.db")
	for _, end := range []string{"", "-wal"} {
		data, err := os.ReadFile(b.path + end)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(copied+end, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, closed := open(t, copied)
	defer closed()
	if got := contentOf(t, c); got != want {
		t.Fatalf("a crash leaves content %s, want %s", got, want)
	}
	var result string
	if err := c.QueryRowContext(context.Background(), "PRAGMA integrity_check").Scan(&result); err != nil || result != "ok" {
		t.Fatalf("a crash leaves a database with %q, %v", result, err)
	}
}

// A disk may destroy what is in the same sector as what it writes. SQLite then fills up the sector with copies of the
// last frame, asks for the disk where it ends, in the middle of a frame, and writes the rest: now and then of a header's
// size.
func TestRestOfAFrame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "some.db")
	layered, end := open(t, path, "vfs="+Name, "psow=0")
	defer end()
	for _, s := range []string{"PRAGMA page_size = 512", "PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL",
		"PRAGMA wal_autocheckpoint = 0", "CREATE TABLE t (v)"} {
		if err := try(layered, s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	reader, end := open(t, path)
	defer end()
	for want := range 200 {
		var got int
		err := reader.QueryRowContext(t.Context(), "SELECT count(*) FROM t WHERE length(v) = 100").Scan(&got)
		if err != nil || got != want {
			t.Fatalf("%d rows, %v, want %d", got, err, want)
		}
		if err := try(layered, "INSERT INTO t VALUES (zeroblob(100))"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLargeTransaction(t *testing.T) {
	c, end := open(t, filepath.Join(t.TempDir(), "some.db"), "vfs="+Name)
	defer end()
	for _, s := range []string{"PRAGMA journal_mode = WAL", "CREATE TABLE t (v)", "INSERT INTO t VALUES (zeroblob(1000000))"} {
		if err := try(c, s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// contentOf is a short name for what is in the table, and in its index.
func contentOf(t *rapid.T, c *sql.Conn) string {
	s, err := content(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func content(c *sql.Conn) (s string, err error) {
	err = c.QueryRowContext(context.Background(), `
		SELECT count(*) || ' rows, ' || ifnull(sum(id * length(v)), 0) || ', ' ||
			(SELECT count(*) FROM t INDEXED BY by_v WHERE v >= x'')
		FROM t NOT INDEXED`).Scan(&s)
	return s, err
}

func try(c *sql.Conn, statement string) error {
	_, err := c.ExecContext(context.Background(), statement)
	return err
}

func exec(t *rapid.T, c *sql.Conn, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if err := try(c, s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// open opens one connection, and returns what closes it.
func open(t interface{ Fatal(...any) }, path string, parameters ...string) (*sql.Conn, func()) {
	if err := Register(); err != nil {
		t.Fatal(err)
	}
	query := strings.Join(append(parameters, "_busy_timeout=0"), "&")
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path, RawQuery: query}).String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := db.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return c, func() {
		if err := errors.Join(c.Close(), db.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// only is the one WAL that is open on the layer.
func only(t *rapid.T) (w *wal) {
	wals.Range(func(_, found any) bool {
		if w != nil && w != found {
			t.Fatal("several WALs are open on the layer")
		}
		w = found.(*wal)
		return true
	})
	if w == nil {
		t.Fatal("no WAL is open on the layer")
	}
	return w
}

// fault is what failAt has put in the way of the one connection.
var fault struct {
	system *methods
	left   int
	code   int32
	failed bool
}

// failAt lets the n-th write to a file fail after half of it, unless n is 0. What it returns puts an end to that, and says
// whether one has.
func failAt(w *wal, n int, code int32) (end func() bool) {
	fault.system, fault.left, fault.code, fault.failed = w.file.system, n, code, false
	failing := *w.file.system
	failing.FxWrite = pointer(xWriteOrFail)
	w.file.system = &failing
	return func() bool {
		w.file.system = fault.system
		return fault.failed
	}
}

func xWriteOrFail(tls *libc.TLS, file, from uintptr, n int32, to int64) int32 {
	write := function[func(*libc.TLS, uintptr, uintptr, int32, int64) int32](fault.system.FxWrite)
	if fault.left--; fault.left != 0 {
		return write(tls, file, from, n, to)
	}
	fault.failed = true
	if n > 1 {
		_ = write(tls, file, from, n/2, to)
	}
	return fault.code
}
