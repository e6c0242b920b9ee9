package exec

import (
	"errors"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestNewRefuses(t *testing.T) {
	absent := filepath.ToSlash(filepath.Join(t.TempDir(), "absent"))
	tests := []struct {
		name    string
		command string
		options Options
		want    []string
	}{
		{"empty_command", "", Options{}, []string{"names no program"}},
		{"blank_command", " \t\n", Options{}, []string{"names no program"}},
		{"empty_program", `"" --size 200`, Options{}, []string{"names no program"}},
		{"single_quote", "sh -c 'exit 1", Options{}, []string{"sh -c 'exit 1", "single-quoted"}},
		{"double_quote", `sh -c "exit 1`, Options{}, []string{"double-quoted"}},
		{"backslash", `sh -c \`, Options{}, []string{"backslash"}},
		{"program_not_in_PATH", "no-such-program --size 200", Options{}, []string{`program "no-such-program"`, "not found"}},
		{"program_not_there", absent + " --size 200", Options{}, []string{absent}},
		{"K42_negative_kill_delay", "sh", Options{KillAfter: -1}, []string{"KillAfter -1ns"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, err := New(tt.command, tt.options)
			if h != nil || err == nil {
				t.Fatalf("got %v, %v, want an error", h, err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %q, want it to contain %q", err, want)
				}
			}
		})
	}
	if _, err := New("no-such-program", Options{}); !errors.Is(err, osexec.ErrNotFound) {
		t.Errorf("got %v, want an os/exec.ErrNotFound", err)
	}
}

func TestDefaultKillAfter(t *testing.T) {
	for _, tt := range []struct{ given, want time.Duration }{{0, 5 * time.Second}, {time.Minute, time.Minute}} {
		h, err := New("go version", Options{KillAfter: tt.given})
		if err != nil {
			t.Fatal(err)
		}
		if got := h.(*program).killAfter; got != tt.want {
			t.Errorf("KillAfter %v: got %v, want %v", tt.given, got, tt.want)
		}
	}
}
