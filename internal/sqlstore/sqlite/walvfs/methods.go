package walvfs

import (
	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// SQLite's methods of the WAL, and the one of its database, which are not the system's alone.

func xClose(tls *libc.TLS, file uintptr) int32 {
	w := walOf(file)
	w.detach()
	return function[func(*libc.TLS, uintptr) int32](w.file.system.FxClose)(tls, file)
}

func xRead(tls *libc.TLS, file, to uintptr, n int32, from int64) int32 {
	w := walOf(file)
	if rc := w.settle(tls); rc != sqlite3.SQLITE_OK && from >= w.lost {
		return rc
	}
	return function[func(*libc.TLS, uintptr, uintptr, int32, int64) int32](w.file.system.FxRead)(tls, file, to, n, from)
}

func xWrite(tls *libc.TLS, file, from uintptr, n int32, to int64) int32 {
	return walOf(file).write(tls, bytes(from, n), to)
}

func xTruncate(tls *libc.TLS, file uintptr, n int64) int32 {
	w := walOf(file)
	if rc := w.settle(tls); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return function[func(*libc.TLS, uintptr, int64) int32](w.file.system.FxTruncate)(tls, file, n)
}

func xSync(tls *libc.TLS, file uintptr, flags int32) int32 {
	w := walOf(file)
	if rc := w.settle(tls); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return function[func(*libc.TLS, uintptr, int32) int32](w.file.system.FxSync)(tls, file, flags)
}

func xFileSize(tls *libc.TLS, file, to uintptr) int32 {
	w := walOf(file)
	if rc := w.settle(tls); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return function[func(*libc.TLS, uintptr, uintptr) int32](w.file.system.FxFileSize)(tls, file, to)
}

func xShmLock(tls *libc.TLS, database uintptr, first, n, flags int32) int32 {
	w := walOf(database)
	if first == writerLock && flags == sqlite3.SQLITE_SHM_UNLOCK|sqlite3.SQLITE_SHM_EXCLUSIVE {
		w.leave()
	}
	return function[func(*libc.TLS, uintptr, int32, int32, int32) int32](w.database.system.FxShmLock)(
		tls, database, first, n, flags)
}
