//go:build unix

package runtime_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/runtime"
)

// TestFileLost: an idle worker whose file somebody has removed stops by itself, and says why.
func TestFileLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	client, err := queue.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ran := make(chan struct{})
	r := handlers.NewRegistry()
	handlers.Handle(r, queue.DefineRaw("q", queue.Options{}), func(context.Context, []byte) error {
		close(ran)
		return nil
	}, handlers.Options{})
	w, err := runtime.New(client, r, runtime.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(t.Context()) }()
	enqueue(t, client, "q", 1, queue.EnqueueOptions{})
	<-ran
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	removed := time.Now()
	if err := <-ended; !errors.Is(err, queue.ErrGone) {
		t.Errorf("Run: got %v, want ErrGone", err)
	}
	if took := time.Since(removed); took > 5*time.Second {
		t.Errorf("Run ended %v after the file was removed, want a few seconds at most", took)
	}
}
