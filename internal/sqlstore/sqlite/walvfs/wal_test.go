package walvfs

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

const pageSize = 512 // of these tests

// frameAt is where the n-th frame begins, counted from 1.
func frameAt(n int) int64 { return 32 + int64(n-1)*(frameHeader+pageSize) }

func TestWhatIsWrittenWhen(t *testing.T) {
	many := mostHeld/(frameHeader+pageSize) + 1
	tests := []struct {
		name  string
		steps string
		want  string // the writes: how many bytes, and where
	}{
		{"transaction", "frame 1, frame 2, last 3", "1608 at 32"},
		{"transaction_of_one", "last 1", "536 at 32"},
		{"one_after_the_other", "last 1, leave, last 2", "536 at 32, 536 at 568"},
		{"after_a_commit", "last 1, header 2, leave, last 2", "536 at 32, 24 at 568, 536 at 568"},
		{"after_those_of_another_process", "last 1, leave, frame 4, last 5", "536 at 32, 1072 at 1640"},
		{"begun_anew", "last 7, leave, begin, frame 1, last 2", "536 at 3248, 32 at 0, 1072 at 32"},
		{"begun_anew_by_another_process", "last 7, leave, frame 4, last 5", "536 at 3248, 24 at 1640, 1048 at 1664"},
		{"and_from_then_on", "last 7, leave, last 4, leave, last 5, leave, frame 6, last 7",
			"536 at 3248, 24 at 1640, 512 at 1664, 536 at 2176, 1072 at 2712"},
		{"read_in_between", "frame 1, frame 2, read 1, frame 3, last 4", "1072 at 32, 1072 at 1104"},
		{"written_over", "frame 1, frame 2, page 1, frame 3, last 4", "1072 at 32, 512 at 56, 1072 at 1104"},
		{"headers_written_over", "frame 1, page 1, last 2, read 1, header 1, read 2, end 2, leave, last 3",
			"536 at 32, 512 at 56, 536 at 568, 24 at 32, 24 at 568, 536 at 1104"},
		{"a_header_and_much_later_its_page", "frame 1, frame 2, read 1, header 1, read 1, page 1",
			"1072 at 32, 24 at 32, 512 at 56"},
		{"another_lock", "frame 1, unlock 3, last 2", "1072 at 32"},
		{"for_the_disk", "frame 1, sync, last 2", "536 at 32, 536 at 568"},
		{"for_the_size", "frame 1, size, last 2", "536 at 32, 536 at 568"},
		{"cut_off", "frame 1, truncate, last 2", "536 at 32, 536 at 568"},
		{"rolled_back", "frame 1, frame 2, leave, leave", ""},
		{"rolled_back_and_another", "frame 1, frame 2, leave, last 1", "24 at 32, 512 at 56"},
		{"a_header_alone_is_forgotten", "header 1, leave, page 1", "512 at 56"},
		{"one_before_the_end_too", "last 7, leave, header 1, leave, page 1", "536 at 3248, 24 at 32, 512 at 56"},
		{"a_hole", "frame 1, last 3", "536 at 32, 24 at 1104, 512 at 1128"},
		{"a_page_elsewhere", "header 1, page 3", "24 at 32, 512 at 1128"},
		{"much", fmt.Sprintf("frames 1 to %d, last %d", many, many+1),
			fmt.Sprintf("%d at 32, %d at %d", mostHeld/(frameHeader+pageSize)*(frameHeader+pageSize)+frameHeader,
				2*(frameHeader+pageSize)-frameHeader, frameAt(many)+frameHeader)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newMemory(t)
			for step := range strings.SplitSeq(test.steps, ", ") {
				if rc := f.do(t, step); rc != sqlite3.SQLITE_OK {
					t.Fatalf("%s: result code %d", step, rc)
				}
			}
			if diff := cmp.Diff(test.want, strings.Join(f.writes, ", ")); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

// SQLite counts on what it was told: after frames are lost it must neither read them nor commit, whatever it does next,
// but it can read what was there before, to roll back.
func TestLostFrames(t *testing.T) {
	for _, first := range []string{"read 2", "page 1", "sync", "last 3"} {
		t.Run(first, func(t *testing.T) {
			f := newMemory(t)
			do := func(step string, want int32) {
				t.Helper()
				if got := f.do(t, step); got != want {
					t.Errorf("%s: result code %d, want %d", step, got, want)
				}
			}
			do("last 1", sqlite3.SQLITE_OK)
			do("leave", sqlite3.SQLITE_OK)
			do("frame 2", sqlite3.SQLITE_OK)
			f.code = sqlite3.SQLITE_FULL
			do(first, sqlite3.SQLITE_FULL)
			f.code = sqlite3.SQLITE_OK
			for _, next := range []string{"read 2", "header 2", "page 2", "sync", "frame 3", "last 3", "size", "truncate"} {
				do(next, sqlite3.SQLITE_FULL)
			}
			do("read 1", sqlite3.SQLITE_OK)
			do("leave", sqlite3.SQLITE_OK)
			for _, next := range []string{"read 2", "frame 2", "last 3", "sync"} {
				do(next, sqlite3.SQLITE_OK)
			}
		})
	}
}

// memory stands for the files of one connection. There is one at a time.
type memory struct {
	log, database *sqlite3.Tsqlite3_file
	system        *methods
	writes        []string
	code          int32 // that a write ends with
	// data is what is written. An address of SQLite's must not be one of a goroutine's stack, which may move.
	data [pageSize]byte
}

var theMemory *memory

func newMemory(t *testing.T) *memory {
	system := &methods{
		FxClose:    pointer(func(*libc.TLS, uintptr) int32 { return sqlite3.SQLITE_OK }),
		FxRead:     pointer(func(*libc.TLS, uintptr, uintptr, int32, int64) int32 { return sqlite3.SQLITE_OK }),
		FxWrite:    pointer(xWriteMemory),
		FxSync:     pointer(func(*libc.TLS, uintptr, int32) int32 { return sqlite3.SQLITE_OK }),
		FxTruncate: pointer(func(*libc.TLS, uintptr, int64) int32 { return sqlite3.SQLITE_OK }),
		FxFileSize: pointer(func(*libc.TLS, uintptr, uintptr) int32 { return sqlite3.SQLITE_OK }),
		FxShmLock:  pointer(func(*libc.TLS, uintptr, int32, int32, int32) int32 { return sqlite3.SQLITE_OK }),
	}
	m := &memory{
		log:      &sqlite3.Tsqlite3_file{FpMethods: address(system)},
		database: &sqlite3.Tsqlite3_file{FpMethods: address(system)},
		system:   system,
	}
	theMemory = m
	newWAL(newFile(address(m.log)), newFile(address(m.database))).attach()
	t.Cleanup(func() {
		if rc := xClose(nil, address(m.log)); rc != sqlite3.SQLITE_OK {
			t.Errorf("close: result code %d", rc)
		}
		if m.log.FpMethods != address(system) || m.database.FpMethods != address(system) {
			t.Error("after it is closed, the methods are not the system's")
		}
	})
	return m
}

func xWriteMemory(_ *libc.TLS, _, _ uintptr, n int32, to int64) int32 {
	theMemory.writes = append(theMemory.writes, fmt.Sprintf("%d at %d", n, to))
	return theMemory.code
}

// do takes a step of a script, as SQLite would.
func (m *memory) do(t *testing.T, step string) int32 {
	t.Helper()
	log := address(m.log)
	write := func(to int64, n int32) int32 { return xWrite(nil, log, address(&m.data), n, to) }
	var n, last int
	what, rest, _ := strings.Cut(step, " ")
	if rest != "" {
		if _, err := fmt.Sscanf(rest+" to 0", "%d to %d", &n, &last); err != nil {
			t.Fatalf("step %q: %v", step, err)
		}
	}
	m.data = [pageSize]byte{}
	switch what {
	case "end", "last":
		binary.BigEndian.PutUint32(m.data[4:], 99)
	}
	switch what {
	case "begin":
		return write(0, int32(frameAt(1)))
	case "header", "end":
		return write(frameAt(n), frameHeader)
	case "page":
		return write(frameAt(n)+frameHeader, pageSize)
	case "frame", "last":
		if rc := write(frameAt(n), frameHeader); rc != sqlite3.SQLITE_OK {
			return rc
		}
		return write(frameAt(n)+frameHeader, pageSize)
	case "frames":
		for i := n; i <= last; i++ {
			if rc := m.do(t, fmt.Sprintf("frame %d", i)); rc != sqlite3.SQLITE_OK {
				return rc
			}
		}
		return sqlite3.SQLITE_OK
	case "read":
		return xRead(nil, log, 0, pageSize, frameAt(n))
	case "sync":
		return xSync(nil, log, 0)
	case "truncate":
		return xTruncate(nil, log, 0)
	case "size":
		return xFileSize(nil, log, 0)
	case "leave":
		return xShmLock(nil, address(m.database), writerLock, 1, sqlite3.SQLITE_SHM_UNLOCK|sqlite3.SQLITE_SHM_EXCLUSIVE)
	case "unlock": // one that is not the writer's
		return xShmLock(nil, address(m.database), int32(n), 1, sqlite3.SQLITE_SHM_UNLOCK|sqlite3.SQLITE_SHM_EXCLUSIVE)
	}
	t.Fatalf("there is no step %q", step)
	return sqlite3.SQLITE_ERROR
}
