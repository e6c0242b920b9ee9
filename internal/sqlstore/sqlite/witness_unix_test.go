//go:build unix

package sqlite_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/sqlite"
)

// losses are what somebody may do to the files of a running worker.
var losses = map[string]func(path string) error{
	"the_file_removed":  os.Remove,
	"the_file_renamed":  func(path string) error { return os.Rename(path, path+".old") },
	"the_file_replaced": replace,
	"the_WAL_removed":   func(path string) error { return os.Remove(path + "-wal") },
	"the_WAL_replaced":  func(path string) error { return replace(path + "-wal") },
	"the_index_removed": func(path string) error { return os.Remove(path + "-shm") },
	"all_removed": func(path string) error {
		return errors.Join(os.Remove(path), os.Remove(path+"-wal"), os.Remove(path+"-shm"))
	},
	"the_directory_renamed": func(path string) error { return os.Rename(filepath.Dir(path), filepath.Dir(path)+".old") },
}

// replace puts an empty file in the place of another, as a restore would.
func replace(path string) error {
	return errors.Join(os.WriteFile(path+".new", nil, 0o600), os.Rename(path+".new", path))
}

func TestFilesLost(t *testing.T) {
	for name, lose := range losses {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "dir", "queue.db")
			if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			link := filepath.Join(t.TempDir(), "link.db") // the files beside it are not beside the link
			if err := os.Symlink(path, link); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			s := must(sqlite.Open(t.Context(), link, quick))(t)
			defer s.Close()
			enqueue(t, s, newJob("q"))
			watched := make(chan error, 1)
			awake := make(chan struct{}, 1)
			go func() {
				watched <- s.Watch(t.Context(), 10*time.Millisecond, func(string) {
					select {
					case awake <- struct{}{}:
					default:
					}
				})
			}()
			for seen := false; !seen; { // the watch has seen the files
				enqueue(t, s, newJob("q"))
				select {
				case <-awake:
					seen = true
				default:
				}
			}
			if err := lose(path); err != nil {
				t.Fatal(err)
			}
			if err := <-watched; !errors.Is(err, sqlstore.ErrGone) {
				t.Errorf("Watch: got %v, want ErrGone", err)
			}
			for what, call := range map[string]func(ctx context.Context) error{
				"enqueue": func(ctx context.Context) error {
					_, err := s.Enqueue(ctx, jobs(1, newJob("q")))
					return err
				},
				"claim": func(ctx context.Context) error {
					_, err := s.ClaimBatch(ctx, claimOf("q", 1))
					return err
				},
				"stats": func(ctx context.Context) error {
					_, err := s.Stats(ctx)
					return err
				},
			} {
				if err := call(t.Context()); !errors.Is(err, sqlstore.ErrGone) || sqlstore.Transient(err) {
					t.Errorf("%s: got %v, want ErrGone, which is for good", what, err)
				}
			}
		})
	}
}

// TestFilesLostInBetween is without a watch: the very next write has to notice, and may not answer with success.
func TestFilesLostInBetween(t *testing.T) {
	long := time.Now().Add(-time.Hour)
	for name, lose := range losses {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "dir", "queue.db")
			if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			s := must(sqlite.Open(t.Context(), path, quick))(t)
			defer s.Close()
			enqueue(t, s, newJob("q"))
			if err := os.Chtimes(filepath.Dir(path), long, long); err != nil { // no more than a glance is needed from now on
				t.Fatal(err)
			}
			id := enqueue(t, s, newJob("q"))[0]
			if err := lose(path); err != nil {
				t.Fatal(err)
			}
			if ids, err := s.Enqueue(t.Context(), jobs(1, newJob("q"))); !errors.Is(err, sqlstore.ErrGone) {
				t.Errorf("got ids %v and %v, want ErrGone", ids, err)
			}
			if _, err := s.GetJob(t.Context(), id); !errors.Is(err, sqlstore.ErrGone) {
				t.Errorf("get: got %v, want ErrGone", err)
			}
		})
	}
}

// TestFilesKept: nothing of what is allowed is taken for a loss.
func TestFilesKept(t *testing.T) {
	path := newFile(t)
	s := open(t, path, quick)
	ctx, cancel := context.WithCancel(t.Context())
	watched := make(chan error, 1)
	go func() { watched <- s.Watch(ctx, time.Millisecond, func(string) {}) }()
	for range 20 {
		enqueue(t, s, newJob("q"))
		other := must(sqlite.Open(t.Context(), path, quick))(t)
		enqueue(t, other, newJob("q"))
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
		db := pool(t, path)
		execute(t, db, "PRAGMA wal_checkpoint(TRUNCATE)")
		execute(t, db, "VACUUM")
		if err := os.Chmod(path, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if err := <-watched; !errors.Is(err, context.Canceled) {
		t.Errorf("Watch: got %v, want context.Canceled", err)
	}
	healthy(t, s)
}
