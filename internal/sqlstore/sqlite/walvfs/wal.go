package walvfs

import (
	"encoding/binary"
	"runtime"
	"sync"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// frameHeader is the size in bytes of what is before each page: https://sqlite.org/fileformat2.html#walformat.
const frameHeader = 24

// mostHeld bounds in bytes what is held back: among that much, one write more makes no difference. More cannot be written
// at once: on Unix SQLite looks at the lower 17 bits of a size alone, and says that the disk is full.
const mostHeld = 128<<10 - 1

// writerLock is the one that whoever writes to the WAL holds: https://sqlite.org/walformat.html#wal_locks.
const writerLock = 0

// wal is the WAL of one connection, which SQLite uses from one goroutine at a time.
//
// Frames are only held back by whoever has the writer's lock, and only where each follows the one before it. Anything else
// that SQLite does with the file comes after they are written. If the lock is left and frames are held, they are of a
// transaction that was rolled back: they are forgotten, since the next writer, of whatever process, writes in their place.
//
// SQLite was told that they are written. If they then cannot be, nothing of that transaction may be, and what it would
// read back of them is the error: it has to be rolled back.
type wal struct {
	file, database               file
	fileMethods, databaseMethods methods

	held  []byte
	start int64 // where held begins in the file
	// inside: what was written last is the header of a frame, and its page has to follow.
	inside bool
	// commits: the last header was that of a transaction's last frame. What follows its page, until the lock is left, may be
	// anything, such as the rest of a frame that has the size of a header.
	commits bool
	// end is behind the last frame that this connection has added, and may be before those of others. What is written before
	// it is not added: if SQLite has no room for a page that it is still changing, it adds it and writes over it later, and
	// then over the headers of all that follow.
	end int64
	// failed is the result code of a write of held frames, until the lock is left. They are missing from lost on.
	failed int32
	lost   int64
}

func newWAL(log, database file) *wal {
	w := &wal{file: log, database: database, fileMethods: *log.system, databaseMethods: *database.system}
	w.fileMethods.FxClose = pointer(xClose)
	w.fileMethods.FxRead = pointer(xRead)
	w.fileMethods.FxWrite = pointer(xWrite)
	w.fileMethods.FxTruncate = pointer(xTruncate)
	w.fileMethods.FxSync = pointer(xSync)
	w.fileMethods.FxFileSize = pointer(xFileSize)
	w.databaseMethods.FxShmLock = pointer(xShmLock)
	return w
}

// wals are those that are open, each by the address of its file and by that of its database.
var wals sync.Map // of *wal by uintptr

func walOf(file uintptr) *wal {
	w, _ := wals.Load(file)
	return w.(*wal)
}

func (w *wal) attach() {
	wals.Store(w.file.address, w)
	wals.Store(w.database.address, w)
	w.file.use(&w.fileMethods)
	w.database.use(&w.databaseMethods)
}

func (w *wal) detach() {
	w.file.use(w.file.system)
	w.database.use(w.database.system)
	wals.Delete(w.file.address)
	wals.Delete(w.database.address)
}

// write holds data back if it is the next part of a frame, and writes what is held where a transaction ends.
func (w *wal) write(tls *libc.TLS, data []byte, to int64) int32 {
	if w.failed != sqlite3.SQLITE_OK {
		return w.failed
	}
	next := w.start + int64(len(w.held))
	switch isHeader := len(data) == frameHeader; {
	case isHeader && !w.commits && to >= w.end && (to == next || len(w.held) == 0):
		w.inside, w.commits = true, endsTransaction(data)
	case w.inside && to == next:
		w.inside, w.end = false, to+int64(len(data))
	default:
		if rc := w.settle(tls); rc != sqlite3.SQLITE_OK {
			return rc
		}
		switch {
		case to == 0: // the log begins anew
			w.end = int64(len(data))
		case isHeader: // a frame is changed, or added where one was rolled back, or added after the commit
			w.inside, w.commits, w.start = true, endsTransaction(data), to+frameHeader
		}
		return w.put(tls, data, to)
	}
	if len(w.held)+len(data) > mostHeld {
		if rc := w.flush(tls); rc != sqlite3.SQLITE_OK {
			return rc
		}
	}
	if len(w.held) == 0 {
		w.start = to
	}
	w.held = append(w.held, data...)
	if w.commits && !w.inside {
		return w.flush(tls)
	}
	return sqlite3.SQLITE_OK
}

// endsTransaction says whether a frame with this header does: then it has the size of the database, in pages.
func endsTransaction(header []byte) bool { return binary.BigEndian.Uint32(header[4:]) != 0 }

// settle writes what is held; what is written next does not belong to it.
func (w *wal) settle(tls *libc.TLS) int32 {
	w.inside = false
	return w.flush(tls)
}

func (w *wal) flush(tls *libc.TLS) int32 {
	if len(w.held) == 0 {
		return w.failed
	}
	data := w.held
	w.held = w.held[:0]
	w.failed, w.lost = w.put(tls, data, w.start), w.start
	return w.failed
}

// leave forgets what was not committed.
func (w *wal) leave() {
	w.held, w.inside, w.commits, w.failed = w.held[:0], false, false, sqlite3.SQLITE_OK
}

func (w *wal) put(tls *libc.TLS, data []byte, to int64) int32 {
	defer runtime.KeepAlive(data)
	return function[func(*libc.TLS, uintptr, uintptr, int32, int64) int32](w.file.system.FxWrite)(
		tls, w.file.address, addressOf(data), int32(len(data)), to)
}
