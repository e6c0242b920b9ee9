//go:build unix

package exec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kballard/go-shellquote"
	"go.uber.org/goleak"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
)

// shell returns a handler that runs a shell script with arguments.
func shell(t *testing.T, o Options, script string, args ...string) handlers.Handler {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script.sh")
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	return command(t, o, shellquote.Join(append([]string{"sh", path}, args...)...))
}

func command(t *testing.T, o Options, command string) handlers.Handler {
	t.Helper()
	h, err := New(command, o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func handle(t *testing.T, h handlers.Handler, payload string) error {
	t.Helper()
	return h.Handle(t.Context(), &queue.Job{ID: 1, Payload: []byte(payload)})
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestExitStatus(t *testing.T) {
	const seed = "€" // three bytes in UTF-8
	tests := []struct {
		name   string
		script string
		kind   handlers.Kind
		text   string
	}{
		{"0_acks", "exit 0", handlers.KindAck, ""},
		{"0_acks_whatever_it_wrote", "echo warning >&2", handlers.KindAck, ""},
		{"100_fails", "echo 'no such user' >&2; exit 100", handlers.KindFail, "no such user"},
		{"100_fails_without_text", "exit 100", handlers.KindFail, "exit status 100"},
		{"1_retries", "echo 'no route' >&2; exit 1", handlers.KindRetry, "no route"},
		{"3_retries_without_text", "exit 3", handlers.KindRetry, "exit status 3"},
		{"99_retries", "exit 99", handlers.KindRetry, "exit status 99"},
		{"101_retries", "exit 101", handlers.KindRetry, "exit status 101"},
		{"255_retries", "exit 255", handlers.KindRetry, "exit status 255"},
		{"blank_text_is_none", "echo >&2; exit 3", handlers.KindRetry, "exit status 3"},
		{"signal_retries", "kill -KILL $$", handlers.KindRetry, "signal: killed"},
		{"signal_retries_with_text", "echo dying >&2; kill -TERM $$", handlers.KindRetry, "dying"},
		{"output_is_no_error_text", "echo out; exit 3", handlers.KindRetry, "exit status 3"},
		{"text_is_valid_UTF-8", `printf 'a\377b' >&2; exit 3`, handlers.KindRetry, "a\uFFFDb"},
		{"last_4_KiB", "printf '%s' " + strings.Repeat(seed, 2000) + " >&2; exit 3", handlers.KindRetry,
			strings.Repeat(seed, 4096/len(seed))}, // 4096 is no multiple of 3
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := handlers.Resolve(handle(t, shell(t, Options{}, tt.script), ""))
			if want := (handlers.Answer{Kind: tt.kind, Text: tt.text}); got != want {
				t.Errorf("got %v %.80q, want %v %.80q", got.Kind, got.Text, want.Kind, want.Text)
			}
		})
	}
	t.Run("middleware_can_ask_for_the_status", func(t *testing.T) {
		err := handle(t, shell(t, Options{}, "exit 7"), "")
		if e, ok := errors.AsType[*osexec.ExitError](err); !ok || e.ExitCode() != 7 {
			t.Errorf("got %v, want an *ExitError with status 7", err)
		}
	})
}

func TestPayload(t *testing.T) {
	t.Run("is_standard_input_byte_for_byte", func(t *testing.T) {
		random := make([]byte, 1<<20)
		for i := range random {
			random[i] = byte(rand.Uint32())
		}
		for _, payload := range []string{"", "\x00", "\xff\n\r\n", `{"a":1}`, string(random)} {
			out := filepath.Join(t.TempDir(), "out")
			if err := handle(t, shell(t, Options{}, `cat >"$1"`, out), payload); err != nil {
				t.Fatal(err)
			}
			if got := read(t, out); got != payload {
				t.Errorf("got %d bytes, want the %d of the payload", len(got), len(payload))
			}
		}
	})

	big := strings.Repeat("x", 16<<20) // the largest by default
	for name, script := range map[string]string{
		"may_be_left_unread":          "exit $1",
		"may_be_read_in_part":         "head -c 1 >/dev/null; exit $1",
		"may_be_closed_early":         "exec <&-; exit $1",
		"may_be_closed_by_a_reader":   "exec </dev/null; exit $1",
		"may_be_read_to_the_very_end": `test "$(wc -c)" -eq 16777216 && exit $1; echo short; exit 99`,
	} {
		t.Run(name, func(t *testing.T) {
			if err := handle(t, shell(t, Options{}, script, "0"), big); err != nil {
				t.Errorf("exit 0: got %v, want nil", err)
			}
			if err := handle(t, shell(t, Options{}, script, "3"), big); err == nil || err.Error() != "exit status 3" {
				t.Errorf("exit 3: got %v, want exit status 3", err)
			}
		})
	}
}

func TestEnvironment(t *testing.T) {
	const script = `
for name in JOB_ID JOB_QUEUE JOB_ATTEMPT JOB_MAX_ATTEMPTS JOB_FENCE JOB_SCHEDULE JOB_SCHEDULED_FOR OF_WORKER; do
	eval "echo \"$name=\${$name-unset}\""
done`
	// The worker may itself run in a job.
	t.Setenv("JOB_ID", "outer")
	t.Setenv("JOB_SCHEDULE", "outer")
	t.Setenv("JOB_SCHEDULED_FOR", "outer")
	t.Setenv("OF_WORKER", "inherited")
	tests := []struct {
		name string
		job  queue.Job
		want []string
	}{
		{"fired_by_a_schedule", queue.Job{ID: 7, Queue: "thumb nails", Attempt: 2, MaxAttempts: 5, Fence: 9,
			Schedule: "nightly", ScheduledFor: time.Unix(1_800_000_000, 0)},
			[]string{"JOB_ID=7", "JOB_QUEUE=thumb nails", "JOB_ATTEMPT=2", "JOB_MAX_ATTEMPTS=5", "JOB_FENCE=9",
				"JOB_SCHEDULE=nightly", "JOB_SCHEDULED_FOR=1800000000", "OF_WORKER=inherited"}},
		{"no_schedule_is_empty_not_inherited", queue.Job{ID: 7, Queue: "q", Attempt: 1, MaxAttempts: 20, Fence: 1},
			[]string{"JOB_ID=7", "JOB_QUEUE=q", "JOB_ATTEMPT=1", "JOB_MAX_ATTEMPTS=20", "JOB_FENCE=1",
				"JOB_SCHEDULE=", "JOB_SCHEDULED_FOR=", "OF_WORKER=inherited"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			if err := shell(t, Options{Stdout: &out}, script).Handle(t.Context(), &tt.job); err != nil {
				t.Fatal(err)
			}
			if got := strings.Split(strings.TrimSpace(out.String()), "\n"); !slices.Equal(got, tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestCommand(t *testing.T) {
	t.Run("is_split_like_a_shell_would_and_not_expanded", func(t *testing.T) {
		var out bytes.Buffer
		h := command(t, Options{Stdout: &out}, `printf '%s|' a "b c" 'd "e' f\ g $HOME * '' "$(id)" ; x > y`)
		if err := handle(t, h, ""); err != nil {
			t.Fatal(err)
		}
		if got, want := out.String(), `a|b c|d "e|f g|$HOME|*||$(id)|;|x|>|y|`; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("relative_path_is_of_the_directory_New_was_called_in", func(t *testing.T) {
		dir := t.TempDir()
		t.Chdir(dir)
		if err := os.WriteFile("make it.sh", []byte("#!/bin/sh\npwd -P\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		h := command(t, Options{Stdout: &out}, `"./make it.sh" --size 200`)
		elsewhere, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Chdir(elsewhere)
		if err := handle(t, h, ""); err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(out.String()); got != elsewhere {
			t.Errorf("ran in %q, want the working directory of the moment, %q", got, elsewhere)
		}
	})
	t.Run("must_be_executable", func(t *testing.T) {
		t.Chdir(t.TempDir())
		if err := os.WriteFile("script.sh", []byte("#!/bin/sh\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := New("./script.sh", Options{}); !errors.Is(err, os.ErrPermission) {
			t.Errorf("got %v, want permission denied", err)
		}
	})
	t.Run("that_is_gone_later_is_a_failed_attempt", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "script.sh")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		h := command(t, Options{}, shellquote.Join(path))
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		got := handlers.Resolve(handle(t, h, ""))
		if got.Kind != handlers.KindRetry || !strings.Contains(got.Text, path) {
			t.Errorf("got %+v, want a retry that names the program", got)
		}
	})
}

func TestStdout(t *testing.T) {
	const script = "echo one; echo two"
	t.Run("goes_to_the_writer", func(t *testing.T) {
		var out bytes.Buffer
		if err := handle(t, shell(t, Options{Stdout: &out}, script), ""); err != nil || out.String() != "one\ntwo\n" {
			t.Errorf("got %q, %v", out.String(), err)
		}
	})
	t.Run("goes_to_the_file", func(t *testing.T) {
		f, err := os.Create(filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		err = handle(t, shell(t, Options{Stdout: f}, script), "")
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		if got := read(t, f.Name()); got != "one\ntwo\n" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("is_discarded_without_one", func(t *testing.T) {
		if err := handle(t, shell(t, Options{}, script), ""); err != nil {
			t.Error(err)
		}
	})
	t.Run("writer_that_fails_is_not_the_answer", func(t *testing.T) {
		broken, w := io.Pipe()
		if err := broken.Close(); err != nil {
			t.Fatal(err)
		}
		// More than a pipe holds, so that the program would notice that nobody reads.
		if err := handle(t, shell(t, Options{Stdout: w}, "head -c 1000000 /dev/zero"), ""); err != nil {
			t.Errorf("got %v, want nil: the program exits with 0", err)
		}
	})
}

func TestNothingLeaks(t *testing.T) {
	ok, no := shell(t, Options{}, "cat >/dev/null"), shell(t, Options{}, "echo no >&2; exit 3")
	run := func(n int) {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range n / 8 {
					if err := handle(t, ok, "payload"); err != nil {
						t.Error(err)
					}
					if err := handle(t, no, "payload"); err == nil || err.Error() != "no" {
						t.Errorf("got %v, want no", err)
					}
				}
			})
		}
		wg.Wait()
	}
	run(8) // whatever is opened once and kept
	before := descriptors(t)
	run(200)
	if after := descriptors(t); after != before {
		t.Errorf("descriptors: got %d after 200 programs, want %d", after, before)
	}
	goleak.VerifyNone(t)
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestNotStartedOnceTheContextHasEnded(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(handlers.ErrShutdown)
	err := shell(t, Options{}, `>"$1"`, out).Handle(ctx, &queue.Job{})
	if !errors.Is(err, handlers.ErrShutdown) || !strings.Contains(fmt.Sprint(err), "not started") {
		t.Errorf("got %v, want not started and the cause", err)
	}
	if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want the program not to have run", err)
	}
}

// A pipe would end with the worker, and its program would take the part that it got for the whole.
func TestPayloadOutlivesTheWorker(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	seen := filepath.Join(t.TempDir(), "seen")
	payload := strings.Repeat("0123456789", 100_000)
	h := shell(t, Options{}, `test -f /dev/stdin && cat >"$1" && ls "$TMPDIR" >>"$1"`, seen)
	if err := handle(t, h, payload); err != nil {
		t.Fatal(err)
	}
	if got := read(t, seen); got != payload {
		t.Errorf("the program saw %d bytes, want the payload of %d, and no name of a file", len(got), len(payload))
	}
	t.Setenv("TMPDIR", filepath.Join(dir, "missing"))
	if err := handle(t, h, payload); err == nil || !strings.Contains(err.Error(), "hand over the payload") {
		t.Errorf("got %v, want an error about the payload", err)
	}
}
