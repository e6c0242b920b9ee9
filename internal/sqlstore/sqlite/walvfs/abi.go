package walvfs

import (
	"unsafe"

	sqlite3 "modernc.org/sqlite/lib"
)

// SQLite is C translated to Go: its pointers are numbers, and one to a function is one to what Go makes of a function. All
// that is unsafe in this package is in this file.

// at is the value at an address of SQLite's, whose memory the garbage collector does not know.
func at[T any](p uintptr) *T { return *(**T)(unsafe.Pointer(&p)) }

// bytes are those at an address of SQLite's, for as long as it keeps them.
func bytes(p uintptr, n int32) []byte { return unsafe.Slice(at[byte](p), n) }

// addressOf is that of bytes which the caller keeps until SQLite is done with them.
func addressOf(b []byte) uintptr { return address(unsafe.SliceData(b)) }

// address is that of a value which somebody keeps: it alone does not.
func address[T any](v *T) uintptr { return uintptr(unsafe.Pointer(v)) }

// pointer is what SQLite calls f by. f is a function of a package's top level, which is never collected.
func pointer[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }

// function is the one that SQLite would call by p.
func function[F any](p uintptr) F { return *(*F)(unsafe.Pointer(&p)) }

// methods are how a file is worked on: https://sqlite.org/c3ref/io_methods.html.
type methods = sqlite3.Tsqlite3_io_methods

// file is one of SQLite's, and how the system works on it.
type file struct {
	address uintptr
	system  *methods
}

func newFile(address uintptr) file {
	return file{address: address, system: at[methods](at[sqlite3.Tsqlite3_file](address).FpMethods)}
}

// use has SQLite work on the file by m, which the caller keeps.
func (f file) use(m *methods) { at[sqlite3.Tsqlite3_file](f.address).FpMethods = address(m) }
