//go:build unix

package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/sqlite"
)

var _ = addCommand("modes", childModes)

// childModes sets its umask, makes a database with a backup, and names every file whose mode is not 0600.
func childModes(ctx context.Context, args []string) (wrong string, err error) {
	umask, err := strconv.ParseUint(args[1], 8, 32)
	if err != nil {
		return "", err
	}
	syscall.Umask(int(umask))
	s, err := sqlite.Open(ctx, args[0], sqlite.Options{})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if _, err := s.Enqueue(ctx, []sqlstore.NewJob{newJob("secret")}); err != nil {
		return "", err
	}
	if err := s.Backup(ctx, args[0]+".copy"); err != nil {
		return "", err
	}
	for _, name := range []string{"", "-wal", "-shm", ".copy"} {
		info, err := os.Stat(args[0] + name)
		if err != nil {
			return "", err
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			wrong += fmt.Sprintf("queue.db%s is %o; ", name, mode)
		}
	}
	return wrong, nil
}

func TestFileModes(t *testing.T) {
	for _, umask := range []string{"0", "022", "077", "0277", "0777"} {
		t.Run("K71_only_the_owner_may_read_with_umask_"+umask, func(t *testing.T) {
			if wrong := startChild(t).must("modes", newFile(t), umask); wrong != "" {
				t.Errorf("got %swant 600", wrong)
			}
		})
	}
	t.Run("K71_the_mode_of_an_existing_file_is_kept", func(t *testing.T) {
		path := newFile(t)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, 0o660)); err != nil {
			t.Fatal(err)
		}
		s := open(t, path, quick)
		enqueue(t, s, newJob("q"))
		for _, name := range []string{"", "-wal", "-shm"} {
			if mode := must(os.Stat(path + name))(t).Mode().Perm(); mode != 0o660 {
				t.Errorf("%s: got %o, want 660, which its owner chose", filepath.Base(path)+name, mode)
			}
		}
	})
}
