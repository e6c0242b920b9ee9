package command

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alkstore/alkworker/queue"
)

func TestPreview(t *testing.T) {
	for _, tc := range []struct {
		name, payload string
		size          int
		want          string
	}{
		{"whole", "abc", 3, "abc"},
		{"whole_but_not_text", "abc\xc3", 4, "abc\xc3"},
		{"cut_between_letters", "abä", 10, "abä"},
		{"cut_in_a_letter_of_two", "ab\xc3", 10, "ab"},
		{"cut_in_a_letter_of_four", "ab\xf0\x9f\x98", 10, "ab"},
		{"cut_and_not_text", "ab\x80\x80\x80\x80\x80", 10, "ab\x80\x80\x80\x80\x80"},
		{"empty", "", 10, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := preview(&queue.Job{Payload: []byte(tc.payload), PayloadSize: tc.size})
			if string(got) != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestCleanKeepsTheTerminalSafe(t *testing.T) {
	for text, want := range map[string]string{
		"plain Ähre 雪":     "plain Ähre 雪",
		`{"a":"b"}`:        `{"a":"b"}`,
		"two\nlines":       `"two\nlines"`,
		"\x1b[31mred":      `"\x1b[31mred"`,
		"tab\tforged":      `"tab\tforged"`,
		"\u202Ereversed":   `"\u202ereversed"`,
		"not \xff UTF-8":   `"not \xff UTF-8"`,
		"zero\u200Bwidth":  `"zero\u200bwidth"`,
		"\u009b31m (C1)":   `"\u009b31m (C1)"`,
		"carriage\rreturn": `"carriage\rreturn"`,
	} {
		if got := clean(text); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
	if got, want := short(strings.Repeat("ä", 50), 10), strings.Repeat("ä", 9)+"…"; got != want {
		t.Errorf("short: got %q, want %q", got, want)
	}
}

func TestReadLine(t *testing.T) {
	long := strings.Repeat("x", 100_000) // longer than the reader's buffer
	for _, tc := range []struct {
		name, input string
		want        []string
	}{
		{"nothing", "", nil},
		{"one", "a\n", []string{"a"}},
		{"no_end", "a\nb", []string{"a", "b"}},
		{"empty_lines", "\n\na\n\n", []string{"", "", "a", ""}},
		{"carriage_returns", "a\r\n\r\nb\r", []string{"a", "", "b\r"}},
		{"only_one_is_stripped", "a\r\r\n\n\r\n", []string{"a\r", "", ""}},
		{"long", long + "\n" + long + "\r\nb", []string{long, long, "b"}},
		{"any_bytes", "\x00\xff\n\x80", []string{"\x00\xff", "\x80"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := bufio.NewReaderSize(strings.NewReader(tc.input), 16)
			for i, want := range tc.want {
				got, err := readLine(r)
				if err != nil || string(got) != want || got == nil {
					t.Fatalf("line %d: got %.40q and error %v, want %.40q", i+1, got, err, want)
				}
			}
			if got, err := readLine(r); !errors.Is(err, io.EOF) {
				t.Errorf("after the last: got %.40q and error %v, want EOF", got, err)
			}
		})
	}
}

func TestReadLineLimit(t *testing.T) {
	most := bytes.Repeat([]byte("x"), queue.DefaultMaxPayload)
	for name, tail := range map[string]string{"end": "", "newline": "\n", "both": "\r\n"} {
		line, err := readLine(bufio.NewReader(io.MultiReader(bytes.NewReader(most), strings.NewReader(tail))))
		if err != nil || len(line) != len(most) {
			t.Errorf("%s: got %d bytes and error %v, want %d", name, len(line), err, len(most))
		}
	}
	for name, tail := range map[string]string{"end": "x", "newline": "x\n", "carriage_return": "\r", "endless": strings.Repeat("x", 1<<20)} {
		_, err := readLine(bufio.NewReader(io.MultiReader(bytes.NewReader(most), strings.NewReader(tail))))
		if !errors.Is(err, queue.ErrPayloadTooLarge) {
			t.Errorf("%s: got error %v, want %v", name, err, queue.ErrPayloadTooLarge)
		}
	}
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

func TestOutputErrors(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		want string // on standard error
	}{
		{"reader_is_gone", syscall.EPIPE, ""},
		{"disk_is_full", syscall.ENOSPC, "worker: write to standard output: " + syscall.ENOSPC.Error() + "\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out := newOutput(brokenWriter{tc.err}, false)
			if err := out.printf("x"); err != nil {
				t.Fatalf("a buffered write failed: %v", err)
			}
			err := out.flush()
			var stderr strings.Builder
			report(&stderr, err)
			if got := statusOf(err); got != ExitFailed || stderr.String() != tc.want {
				t.Errorf("got status %d and %q, want %d and %q", got, stderr.String(), ExitFailed, tc.want)
			}
		})
	}
}

func TestReportWritesOneLineForEachProblem(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		err        error
	}{
		{"none", "", nil},
		{"one", "worker: a\n", errors.New("a")},
		{"joined", "worker: a; b\n", errors.Join(errors.New("a"), fmt.Errorf("b%c", 10))},
		{"several", "worker: a\nworker: b; c\n", usagef("%w", problems{errors.New("a"), errors.New("b\r\nc")})},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got strings.Builder
			report(&got, tc.err)
			if got.String() != tc.want {
				t.Errorf("got %q, want %q", got.String(), tc.want)
			}
		})
	}
}

func TestJobJSONOfOddValues(t *testing.T) {
	j := jobOf(&queue.Job{DeadLetterRetention: queue.KeepForever, CreatedAt: time.Unix(0, 0), Payload: []byte{}})
	switch {
	case j.DeadLetterRetentionS != nil:
		t.Errorf("retention for ever: got %d, want null", *j.DeadLetterRetentionS)
	case j.CreatedAt == nil || *j.CreatedAt != 0:
		t.Errorf("created in 1970: got %v, want 0", j.CreatedAt)
	case j.Payload == nil || *j.Payload != "" || j.PayloadBase64 != nil:
		t.Errorf("empty payload: got %v and %v, want an empty text and null", j.Payload, j.PayloadBase64)
	case j.RunAt != nil || j.Claimant != nil || j.LastError != nil || j.Errors != nil:
		t.Errorf("what is unset is not null: %+v", j)
	}
}
