//go:build unix

package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/alkstore/alkworker/cmd/worker/command"
	"github.com/alkstore/alkworker/handlers"
)

// TestMain puts the command worker into PATH.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"worker": func() { command.Main(handlers.NewRegistry()) }})
}

func TestReadmeShell(t *testing.T) {
	_, all := blocks(read(t, readme))
	dir := t.TempDir()
	ran := 0
	for i, b := range all {
		name, isFile := strings.CutPrefix(b.note, "file ")
		switch {
		case i == 0: // the two commands: one of them is this test
		case isFile:
			if err := os.WriteFile(filepath.Join(dir, name), []byte(b.code), 0o700); err != nil {
				t.Fatal(err)
			}
		case b.lang == "sh":
			ran++
			got := shell(t, dir, b)
			if i+1 < len(all) && all[i+1].lang == "text" {
				if d := differs(got, all[i+1].code); d != "" {
					t.Fatalf("%s:%d: %s", readme, b.line, d)
				}
			}
		}
	}
	if ran == 0 {
		t.Error("no shell blocks found")
	}
}

// shell runs a block and returns what it prints. The root of the repository is where somebody would be to install.
func shell(t *testing.T, dir string, b block) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-eu", "-c", b.code)
	cmd.Dir = dir
	if b.note == "in the repository" {
		cmd.Dir = root
	}
	cmd.Env = append(os.Environ(), "GOBIN="+filepath.Join(dir, "bin"), "NO_COLOR=1")
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s:%d: %v\n%s%s", readme, b.line, err, &stdout, &stderr)
	}
	return stdout.String()
}
