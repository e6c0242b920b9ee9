package command_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alkstore/alkworker/cmd/worker/command"
	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
)

// call runs one command in this process, on a database of the test's own.
func call(ctx context.Context, t *testing.T, db string, stdin io.Reader, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	t.Setenv("WORKER_DB", db)
	var out, errs bytes.Buffer
	status = command.Run(ctx, nil, args, stdin, &out, &errs)
	return status, out.String(), errs.String()
}

func TestRunInProcess(t *testing.T) {
	db := filepath.Join(t.TempDir(), "jobs.db")
	ctx := t.Context()
	if status, out, errs := call(ctx, t, db, nil, "enqueue", "q", "x"); status != command.ExitDone || out != "1\n" || errs != "" {
		t.Errorf("enqueue: got status %d, %q and %q", status, out, errs)
	}
	if status, out, errs := call(ctx, t, db, nil, "get", "2"); status != command.ExitNothing || out != "" || errs != "worker: there is no job 2\n" {
		t.Errorf("get: got status %d, %q and %q", status, out, errs)
	}
	if status, out, _ := call(ctx, t, db, nil, "get", "--help"); status != command.ExitDone || !strings.Contains(out, "Usage: worker get <id>") {
		t.Errorf("help: got status %d and %q", status, out)
	}
}

// A worker that was told to stop has done so in order only if it has recorded what its handlers answered.
func TestRunUnrecorded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	if status, _, errs := call(t.Context(), t, path, nil, "enqueue", "q"); status != command.ExitDone {
		t.Fatal(errs)
	}
	other, err := sql.Open("sqlite", queue.SQLiteDSN(path))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	registry := handlers.NewRegistry()
	var lock *sql.Tx
	registry.Register("q", handlers.HandlerFunc(func(context.Context, *queue.Job) error {
		if lock, err = other.BeginTx(t.Context(), nil); err != nil {
			t.Error(err)
		}
		stop()
		return nil
	}), handlers.Options{})
	var out, errs bytes.Buffer
	status := command.Run(ctx, registry, []string{"run"}, nil, &out, &errs)
	if err := errors.Join(lock.Rollback(), other.Close()); err != nil {
		t.Fatal(err)
	}
	if told := "could not be recorded"; status != command.ExitFailed || !strings.Contains(errs.String(), told) {
		t.Errorf("got status %d and %q, want %d and that an answer %s", status, errs.String(), command.ExitFailed, told)
	}
}

// Middleware may register what can be registered once, such as a metric.
func TestMiddlewareIsMadeForAWorker(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("WORKER_DB", filepath.Join(dir, "jobs.db"))
	file := filepath.Join(dir, "worker.toml")
	config := "[schedules.a]\nevery = \"1h\"\nqueue = \"q\"\n[schedules.b]\nevery = \"1h\"\nqueue = \"q\"\n"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	made := 0
	registry := handlers.NewRegistry()
	registry.Use(func(next handlers.Handler) handlers.Handler {
		made++
		return next
	})
	registry.Register("q", handlers.HandlerFunc(func(context.Context, *queue.Job) error { return nil }), handlers.Options{})
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"enqueue", "q"}, 0},
		{[]string{"run", "--until-idle", "--config", file}, 1},
	} {
		made = 0
		var out, errs bytes.Buffer
		if status := command.Run(t.Context(), registry, c.args, nil, &out, &errs); status != command.ExitDone || made != c.want {
			t.Errorf("%v: got status %d and middleware made %d times, want %d\n%s", c.args, status, made, c.want, &errs)
		}
	}
}

// endless never has anything to read.
type endless struct{ read chan struct{} }

func (e endless) Read([]byte) (int, error) {
	e.read <- struct{}{}
	<-e.read
	return 0, io.EOF
}

func TestRunStopsWhileItReads(t *testing.T) {
	db := filepath.Join(t.TempDir(), "jobs.db")
	for _, args := range [][]string{{"enqueue", "q", "-"}, {"enqueue", "q", "--lines", "-"}} {
		ctx, stop := context.WithCancelCause(t.Context())
		stdin := endless{make(chan struct{})}
		go func() {
			<-stdin.read
			stop(errors.New("told to stop"))
		}()
		status, out, errs := call(ctx, t, db, stdin, args...)
		if status != command.ExitFailed || out != "" || errs == "" {
			t.Errorf("%v: got status %d, %q and %q, want %d and a reason", args, status, out, errs, command.ExitFailed)
		}
		stdin.read <- struct{}{} // lets go of the goroutine that was left behind
	}
}

func TestRunThatIsStoppedBeforeItStarts(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	db := filepath.Join(t.TempDir(), "jobs.db")
	if status, _, errs := call(ctx, t, db, nil, "run"); status != command.ExitDone {
		t.Errorf("run: got status %d and %q, want %d: told to stop, it stopped", status, errs, command.ExitDone)
	}
}

func TestRunWorker(t *testing.T) {
	t.Setenv("WORKER_DB", filepath.Join(t.TempDir(), "jobs.db"))
	reg := handlers.NewRegistry()
	ran := make(chan string, 1)
	ctx, stop := context.WithCancel(t.Context())
	reg.Register("q", handlers.HandlerFunc(func(_ context.Context, job *queue.Job) error {
		ran <- string(job.Payload)
		stop() // as a signal would
		return nil
	}), handlers.Options{})
	var out, errs bytes.Buffer
	if status := command.Run(ctx, reg, []string{"enqueue", "q", "hello"}, nil, &out, &errs); status != command.ExitDone {
		t.Fatalf("enqueue: got status %d and %q", status, errs.String())
	}
	if status := command.Run(ctx, reg, []string{"run", "--http", "127.0.0.1:0"}, nil, &out, &errs); status != command.ExitDone {
		t.Fatalf("run: got status %d and %q", status, errs.String())
	}
	if got := <-ran; got != "hello" {
		t.Errorf("the handler got %q, want %q", got, "hello")
	}
	out.Reset()
	status := command.Run(t.Context(), reg, []string{"list", "--json"}, nil, &out, &errs)
	if status != command.ExitDone || out.String() != "" {
		t.Errorf("K30 a job whose handler returned nil is acked: got status %d and %q, want nothing left", status, out.String())
	}
}
