package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/sqlite"
)

func TestBackup(t *testing.T) {
	t.Run("K64_of_a_file_in_use_is_consistent_and_works", func(t *testing.T) {
		const together = 7 // jobs that are only ever enqueued together
		path := newFile(t)
		s := open(t, path, quick)
		big := newJob("q")
		big.Payload = make([]byte, 3000)
		batch := append(jobs(together-1, newJob("q")), big)
		ctx, stop := context.WithCancel(t.Context())
		var writers sync.WaitGroup
		busy := make(chan struct{}, 1)
		for range 2 {
			writers.Go(func() {
				for ctx.Err() == nil {
					if _, err := s.Enqueue(t.Context(), batch); err != nil {
						t.Error(err)
						return
					}
					select {
					case busy <- struct{}{}:
					default:
					}
				}
			})
		}
		for i := range 5 {
			<-busy // something was written since the last one
			copied := path + ".copy" + string(rune('0'+i))
			if err := s.Backup(t.Context(), copied); err != nil {
				t.Fatal(err)
			}
			b := open(t, copied, quick)
			healthy(t, b)
			n := len(must(b.ListJobs(t.Context(), sqlstore.Filter{Limit: 1 << 30}))(t))
			if n == 0 || n%together != 0 {
				t.Errorf("copy %d: got %d jobs, want whole batches of %d", i, n, together)
			}
			if got := len(claim(t, b, "q", 5)); got != 5 {
				t.Errorf("copy %d: claimed %d jobs, want 5", i, got)
			}
		}
		stop()
		writers.Wait()
	})
	t.Run("E1_ids_are_not_used_again_after_a_restore", func(t *testing.T) {
		path := newFile(t)
		s := open(t, path, quick)
		last := enqueue(t, s, jobs(5, newJob("q"))...)[4]
		if _, err := s.Cancel(t.Context(), []int64{last}); err != nil {
			t.Fatal(err)
		}
		if err := s.Backup(t.Context(), path+".copy"); err != nil {
			t.Fatal(err)
		}
		if id := enqueue(t, open(t, path+".copy", quick), newJob("q"))[0]; id <= last {
			t.Errorf("got id %d after %d", id, last)
		}
	})
	t.Run("K64_refuses", func(t *testing.T) {
		path := newFile(t)
		s := open(t, path, quick)
		enqueue(t, s, newJob("q"))
		folder := filepath.Dir(path)
		taken := filepath.Join(folder, "taken")
		if err := os.WriteFile(taken, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(folder, "nowhere"), filepath.Join(folder, "link")); err != nil {
			t.Fatal(err)
		}
		for name, cause := range map[string]error{
			"taken": os.ErrExist, "queue.db": os.ErrExist, "queue.db-wal": os.ErrExist, "link": os.ErrExist, ".": os.ErrExist,
			filepath.Join("missing", "copy"): os.ErrNotExist,
		} {
			target := filepath.Join(folder, name)
			err := s.Backup(t.Context(), target)
			var typed *sqlstore.Error
			if !errors.Is(err, cause) || !errors.As(err, &typed) || !strings.Contains(err.Error(), target) {
				t.Errorf("%s: got %v, want %v with the path", name, err, cause)
			}
		}
		if content := string(must(os.ReadFile(taken))(t)); content != "mine" {
			t.Errorf("existing file: got %q, want it untouched", content)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		target := filepath.Join(folder, "cancelled")
		if err := s.Backup(ctx, target); !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that has ended: got %v", err)
		}
		if _, err := os.Stat(target); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("half a copy is left: %v", err)
		}
		healthy(t, s)
	})
	t.Run("K64_the_path_is_literal_and_relative_to_the_directory_of_the_call", func(t *testing.T) {
		s := open(t, newFile(t), quick)
		enqueue(t, s, newJob("q"))
		t.Chdir(t.TempDir())
		for _, name := range []string{"file:copy.db", ":memory:", "file::memory:?cache=shared", "-copy.db", "copy?mode=ro"} {
			if err := s.Backup(t.Context(), name); err != nil {
				t.Errorf("%q: %v", name, err)
				continue
			}
			if n := len(claim(t, open(t, name, quick), "q", 9)); n != 1 {
				t.Errorf("%q: got %d jobs, want 1", name, n)
			}
		}
	})
	t.Run("K64_close_waits_for_it", func(t *testing.T) {
		path := newFile(t)
		s := must(sqlite.Open(t.Context(), path, quick))(t)
		big := newJob("q")
		big.Payload = make([]byte, 1<<20)
		enqueue(t, s, jobs(20, big)...)
		done := make(chan error, 1)
		go func() { done <- s.Backup(t.Context(), path+".copy") }()
		for begun := false; !begun; goruntime.Gosched() {
			_, err := os.Stat(path + ".copy")
			begun = err == nil
		}
		err := s.Close()
		closed := must(os.ReadFile(path + ".copy"))(t)
		if err := errors.Join(err, <-done); err != nil {
			t.Fatal(err)
		}
		if after := must(os.ReadFile(path + ".copy"))(t); !bytes.Equal(closed, after) || len(after) < 20<<20 {
			t.Errorf("the copy had %d bytes when Close returned, and %d in the end", len(closed), len(after))
		}
	})
}
