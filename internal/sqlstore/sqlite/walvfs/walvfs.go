// Package walvfs lets SQLite write what a transaction adds to the WAL at once.
//
// SQLite writes each page by itself, and before it its header of 24 bytes: 24 calls of the system for a transaction that
// changes twelve pages, where one can do. This layer over SQLite's own file system (https://sqlite.org/vfs.html) holds
// frames back, up to the one that commits, and writes them together.
//
// Nothing else is different. What SQLite wrote is in the file before it tells others of the commit, before it asks for
// the disk and before it reads, and there is no commit if a write has failed: others see, and a crash leaves behind, what
// they would without the layer. Exclusive locking mode is not provided for: there the lock of writers is never left, and
// after a write that fails the connection can write no more.
package walvfs

import (
	"fmt"
	"sync"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// Name is the value for the parameter vfs of a DSN, once Register has been called.
const Name = "alkworker-wal"

// Register makes the layer known to SQLite, once for the process. The default stays what it is: only connections that
// ask for the layer have it. It fails if SQLite has no file system of its own or no memory, and then again each time. It
// is safe for concurrent use.
func Register() error { return register() }

// system is SQLite's own file system, and layer the same but for how it opens files. Both stay as long as the process.
var system, layer *sqlite3.Tsqlite3_vfs

var register = sync.OnceValue(func() error {
	tls := libc.NewTLS()
	defer tls.Close()
	found := sqlite3.Xsqlite3_vfs_find(tls, 0)
	if found == 0 {
		return fmt.Errorf("register %s: SQLite has no file system", Name)
	}
	name, err := libc.CString(Name)
	if err != nil {
		return fmt.Errorf("register %s: %w", Name, err)
	}
	system = at[sqlite3.Tsqlite3_vfs](found)
	copied := *system
	layer = &copied
	layer.FpNext, layer.FzName, layer.FxOpen = 0, name, pointer(xOpen)
	if rc := sqlite3.Xsqlite3_vfs_register(tls, address(layer), 0); rc != sqlite3.SQLITE_OK {
		return fmt.Errorf("register %s: result code %d of SQLite", Name, rc)
	}
	return nil
})

// xOpen is that of https://sqlite.org/c3ref/vfs.html.
func xOpen(tls *libc.TLS, _, path, file uintptr, flags int32, outFlags uintptr) int32 {
	rc := function[func(*libc.TLS, uintptr, uintptr, uintptr, int32, uintptr) int32](system.FxOpen)(
		tls, address(system), path, file, flags, outFlags)
	if rc == sqlite3.SQLITE_OK && flags&sqlite3.SQLITE_OPEN_WAL != 0 {
		newWAL(newFile(file), newFile(sqlite3.Xsqlite3_database_file_object(tls, path))).attach()
	}
	return rc
}
