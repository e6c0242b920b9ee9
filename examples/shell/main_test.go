//go:build unix

package shell

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/alkstore/alkworker/cmd/worker/command"
	"github.com/alkstore/alkworker/handlers"
)

// TestMain puts the command worker into PATH.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"worker": func() { command.Main(handlers.NewRegistry()) }})
}

var want = regexp.MustCompile(`^1
2
3
4
5
results:
results/1.txt: 4 words
results/2.txt: one
results/3.txt: two
results/5.txt: {"name":"Ada"}
dead letters:
\{"id":4,.*"last_error":"not a JSON object: name;age",.*\}
$`)

func TestRun(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	// What somebody has left here by running the example.
	for _, left := range []string{"results", "jobs.db", "jobs.db-wal", "jobs.db-shm"} {
		if err := os.RemoveAll(filepath.Join(dir, left)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "run.sh"))
	cmd.Dir = t.TempDir()
	out, err := cmd.Output()
	if err != nil {
		var stderr []byte
		if e, ok := err.(*exec.ExitError); ok {
			stderr = e.Stderr
		}
		t.Fatalf("run.sh: %v\n%s%s", err, out, stderr)
	}
	if !want.Match(out) {
		t.Errorf("got %s\nwant a match of %s", out, want)
	}
	if n := count(t, filepath.Join(dir, "results")); n != 4 {
		t.Errorf("got %d files in results, want 4", n)
	}
}

func count(t *testing.T, dir string) (files int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
