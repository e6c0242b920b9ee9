//go:build unix

package sqlite_test

import (
	"database/sql/driver"
	"errors"
	"os"
	"strings"
	"testing"

	moderncsqlite "modernc.org/sqlite"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/sqlite"
)

// noSharedMemory opens files as on a file system that has neither locks nor shared memory.
type noSharedMemory struct{ *moderncsqlite.Driver }

func (d noSharedMemory) Open(name string) (driver.Conn, error) {
	return d.Driver.Open(name + "&vfs=unix-none")
}

func TestWithoutSharedMemory(t *testing.T) {
	t.Run("K60_is_refused", func(t *testing.T) {
		path := newFile(t)
		o := quick
		o.Driver = noSharedMemory{&moderncsqlite.Driver{}}
		s, err := sqlite.Open(t.Context(), path, o)
		if err == nil {
			_ = s.Close()
		}
		if !errors.Is(err, sqlstore.ErrUnsupported) || !strings.Contains(err.Error(), path) ||
			!strings.Contains(err.Error(), "shared memory") {
			t.Errorf("got %v, want ErrUnsupported that names the file and the cause", err)
		}
		if info, err := os.Stat(path); err != nil || info.Size() != 0 {
			t.Errorf("the new file: got %v, %v, want it empty", info, err)
		}
	})
}
