package torture

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// sharedClock is a clock that any number of processes read, so that it moves for all of them at the same moment: its time
// is the content of a file. Eight bytes are read and written at once.
type sharedClock struct{ file *os.File }

// newSharedClock returns one that is set to 0, and goes with the test.
func newSharedClock(t *testing.T) *sharedClock {
	t.Helper()
	path := filepath.Join(t.TempDir(), "clock")
	if err := os.WriteFile(path, make([]byte, 8), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := openSharedClock(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.file.Close() })
	return c
}

func openSharedClock(path string) (*sharedClock, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	return &sharedClock{file}, err
}

// Now implements [storetest.Clock].
func (c *sharedClock) Now() int64 {
	var b [8]byte
	if _, err := c.file.ReadAt(b[:], 0); err != nil {
		panic(err) // a store cannot be told
	}
	return int64(binary.LittleEndian.Uint64(b[:]))
}

// Set implements [storetest.Clock].
func (c *sharedClock) Set(unix int64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(unix))
	if _, err := c.file.WriteAt(b[:], 0); err != nil {
		panic(err)
	}
}
