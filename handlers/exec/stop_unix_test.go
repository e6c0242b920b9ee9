//go:build unix

package exec

import (
	"bufio"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
)

// patience ends a test that would hang; nothing waits for it otherwise.
const patience = 30 * time.Second

// attempt is one program that runs in the background of a test.
type attempt struct {
	t      *testing.T
	cancel context.CancelCauseFunc
	result chan error
	lines  *bufio.Reader
	out    *os.File // read end of what the group writes
	write  *os.File
}

// start runs a script whose standard output, and that of every process it leaves behind, can be followed.
func start(t *testing.T, killAfter time.Duration, payload, script string, args ...string) *attempt {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	a := &attempt{t: t, cancel: cancel, result: make(chan error, 1), lines: bufio.NewReader(r), out: r, write: w}
	h := shell(t, Options{Stdout: w, KillAfter: killAfter}, script, args...)
	go func() { a.result <- h.Handle(ctx, &queue.Job{ID: 1, Payload: []byte(payload)}) }()
	t.Cleanup(func() {
		cancel(nil)
		_ = w.Close()
		_ = r.Close()
	})
	return a
}

// line waits for the next line that the script writes.
func (a *attempt) line() string {
	a.t.Helper()
	s, err := a.lines.ReadString('\n')
	if err != nil {
		a.t.Fatalf("waiting for a line: got %q, %v", s, err)
	}
	return strings.TrimSuffix(s, "\n")
}

func (a *attempt) expect(want string) {
	a.t.Helper()
	if got := a.line(); got != want {
		a.t.Fatalf("script wrote %q, want %q", got, want)
	}
}

// wait returns the answer of the handler.
func (a *attempt) wait() error {
	a.t.Helper()
	select {
	case err := <-a.result:
		return err
	case <-time.After(patience):
		a.t.Fatal("the handler does not return")
		return nil
	}
}

// gone waits until no process is left that could write to the script's standard output.
func (a *attempt) gone() {
	a.t.Helper()
	if err := a.write.Close(); err != nil {
		a.t.Fatal(err)
	}
	if s, err := a.lines.ReadString(0); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		a.t.Errorf("after the handler returned: got %q, %v, want that every process is gone", s, err)
	}
}

// In the scripts, it is the last process of the group to be started that says "ready", not its parent: a shell that has
// a trap loses a signal in the moment between the fork of a child and the child's own reset of the trap.
func TestStop(t *testing.T) {
	tests := []struct {
		name   string
		kill   time.Duration
		script string
		cause  error
		want   handlers.Answer
	}{
		{"lease_lost", time.Minute, "echo ready; exec sleep 1000", handlers.ErrLeaseLost,
			handlers.Answer{Kind: handlers.KindRetry, Text: "lease lost: signal: terminated"}},
		{"cancelled", time.Minute, "echo ready; exec sleep 1000", handlers.ErrCancelled,
			handlers.Answer{Kind: handlers.KindRetry, Text: "job cancelled: signal: terminated"}},
		{"timeout_with_last_words", time.Minute,
			"trap 'echo giving up >&2; exit 7' TERM; (echo ready; exec sleep 1000) & wait", handlers.ErrTimeout,
			handlers.Answer{Kind: handlers.KindRetry, Text: "handler timed out: giving up"}},
		{"shutdown_without_last_words", time.Minute,
			"trap 'exit 7' TERM; (echo ready; exec sleep 1000) & wait", handlers.ErrShutdown,
			handlers.Answer{Kind: handlers.KindRetry, Text: "worker is shutting down: exit status 7"}},
		{"exit_0_is_success_all_the_same", time.Minute,
			"trap 'exit 0' TERM; (echo ready; exec sleep 1000) & wait", handlers.ErrShutdown, handlers.Answer{}},
		{"exit_100_fails_all_the_same", time.Minute,
			"trap 'exit 100' TERM; (echo ready; exec sleep 1000) & wait", handlers.ErrTimeout,
			handlers.Answer{Kind: handlers.KindFail, Text: "handler timed out: exit status 100"}},
		{"program_that_ignores_SIGTERM_is_killed", 50 * time.Millisecond,
			"trap '' TERM; echo ready; while :; do sleep 1000; done", handlers.ErrTimeout,
			handlers.Answer{Kind: handlers.KindRetry, Text: "handler timed out: signal: killed"}},
		{"whole_group_gets_SIGTERM", time.Minute,
			"sh -c 'sleep 1000 | sleep 1000' & (sleep 1000; :) & echo ready; wait", handlers.ErrTimeout,
			handlers.Answer{Kind: handlers.KindRetry, Text: "handler timed out: signal: terminated"}},
		{"grandchild_that_ignores_SIGTERM_is_killed", 50 * time.Millisecond,
			"(trap '' TERM; echo ready; exec sleep 1000) & wait", handlers.ErrTimeout,
			handlers.Answer{Kind: handlers.KindRetry, Text: "handler timed out: signal: terminated"}},
		{"grandchild_without_output_is_killed", 50 * time.Millisecond,
			"(trap '' TERM; echo ready; exec sleep 1000 2>/dev/null </dev/null) & wait", handlers.ErrTimeout,
			handlers.Answer{Kind: handlers.KindRetry, Text: "handler timed out: signal: terminated"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := start(t, tt.kill, "", tt.script)
			a.expect("ready")
			a.cancel(tt.cause)
			err := a.wait()
			if got := handlers.Resolve(err); got != tt.want {
				t.Errorf("got %v %q, want %v %q", got.Kind, got.Text, tt.want.Kind, tt.want.Text)
			}
			if err != nil && !errors.Is(err, tt.cause) {
				t.Errorf("got %v, want it to wrap the cause", err)
			}
			a.gone()
		})
	}
}

// A grandchild that takes its time after SIGTERM, and is within it, is waited for although its parent is gone.
func TestStopWaitsForTheGroup(t *testing.T) {
	dir := t.TempDir()
	fifo, finished := filepath.Join(dir, "fifo"), filepath.Join(dir, "finished")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	a := start(t, time.Minute, "", `
(
	trap 'echo term; read -r line <"$1"; echo "$line" >"$2"; exit' TERM
	exec 2>/dev/null
	(echo ready; exec sleep 1000) &
	wait
) &
wait`, fifo, finished)
	a.expect("ready")
	a.cancel(handlers.ErrShutdown)
	a.expect("term")
	select {
	case err := <-a.result:
		t.Fatalf("returned %v while a process of the group still worked", err)
	default:
	}
	if err := os.WriteFile(fifo, []byte("done\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := a.wait(); !errors.Is(err, handlers.ErrShutdown) {
		t.Errorf("got %v, want the cause", err)
	}
	if got := read(t, finished); got != "done\n" {
		t.Errorf("got %q, want what the grandchild wrote last", got)
	}
	a.gone()
}

// A program that does not read a payload larger than a pipe can still be stopped.
func TestStopWithUnreadPayload(t *testing.T) {
	a := start(t, time.Minute, strings.Repeat("x", 16<<20), "echo ready; exec sleep 1000")
	a.expect("ready")
	a.cancel(handlers.ErrTimeout)
	if err := a.wait(); err == nil || err.Error() != "handler timed out: signal: terminated" {
		t.Errorf("got %v, want timed out and terminated", err)
	}
	a.gone()
}

// What a program leaves in the background when it ends by itself neither holds the attempt up nor is it touched, even
// if it has all three pipes and the payload is unread.
func TestBackgroundProcess(t *testing.T) {
	for name, tt := range map[string]struct {
		exit string
		want handlers.Answer
	}{
		"ack":   {"0", handlers.Answer{}},
		"retry": {"3", handlers.Answer{Kind: handlers.KindRetry, Text: "last words"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := start(t, time.Minute, strings.Repeat("x", 16<<20), `
exec 3<&0
sleep 1000 <&3 &
echo $!
echo last words >&2
exit $1`, tt.exit)
			pid, err := strconv.Atoi(a.line())
			if err != nil {
				t.Fatal(err)
			}
			if got := handlers.Resolve(a.wait()); got != tt.want {
				t.Errorf("got %v %q, want %v %q", got.Kind, got.Text, tt.want.Kind, tt.want.Text)
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Errorf("the background process: got %v, want it alive", err)
			}
			a.gone()
		})
	}
}
