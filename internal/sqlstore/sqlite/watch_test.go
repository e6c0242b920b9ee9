package sqlite_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore/sqlite"
)

// watching runs a watch that polls as good as never and hands over what wakes it.
func watching(t *testing.T, s *sqlite.Store) (woken <-chan string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	wakes, ended := make(chan string, 1000), make(chan error, 1)
	go func() { ended <- s.Watch(ctx, time.Hour, func(queue string) { wakes <- queue }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Watch: got %v, want context.Canceled", err)
		}
	})
	<-wakes // the first, for what was there before
	return wakes
}

func TestWatch(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "windows" {
		t.Log("no events for files on this system: it polls")
		return
	}
	for name, o := range map[string]sqlite.Options{"FULL": {}, "NORMAL": quick} {
		t.Run("another_store_wakes_without_a_poll_"+name, func(t *testing.T) {
			t.Parallel()
			path := newFile(t)
			s, other := open(t, path, o), open(t, path, o)
			woken := watching(t, s)
			for range 100 {
				enqueue(t, other, newJob("q"))
				<-woken
			}
		})
	}
	t.Run("through_a_symbolic_link", func(t *testing.T) {
		t.Parallel()
		path, link := newFile(t), filepath.Join(t.TempDir(), "link.db")
		other := open(t, path, quick)
		if err := os.Symlink(path, link); err != nil {
			t.Fatal(err)
		}
		s := open(t, link, quick)
		woken := watching(t, s)
		enqueue(t, other, newJob("q"))
		<-woken
	})
	t.Run("K95_other_files_beside_it_wake_nobody", func(t *testing.T) {
		t.Parallel()
		path := newFile(t)
		s, other := open(t, path, quick), open(t, path, quick)
		woken := watching(t, s)
		for range 100 {
			if err := os.WriteFile(path+".txt", []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		enqueue(t, other, newJob("q")) // the events come in order
		<-woken
		select {
		case q := <-woken:
			t.Errorf("woken twice, the second time for %q", q)
		default:
		}
	})
}
