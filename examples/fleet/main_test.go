//go:build unix

package fleet

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/alkstore/alkworker/cmd/worker/command"
	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
)

// TestMain puts the command worker into PATH.
func TestMain(m *testing.M) {
	testscript.Main(pgtest.Main(m), map[string]func(){"worker": func() { command.Main(handlers.NewRegistry()) }})
}

const want = "enqueued: 60\nkilled: one of three workers\ndone: 60\nleft over: 0\n"

func TestRun(t *testing.T) {
	db, ok := pgtest.New(t)
	if !ok {
		return
	}
	databases := map[string]string{"a_database_that_is_there": db.DSN()}
	if os.Getenv(pgtest.DSNVariable) == "" { // then the programs of a server are installed
		databases["a_server_for_the_occasion"] = ""
	}
	for name, dsn := range databases {
		t.Run(name, func(t *testing.T) {
			script, err := filepath.Abs("run.sh")
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), script)
			cmd.Dir = t.TempDir()
			cmd.Env = append(os.Environ(), "WORKER_DB="+dsn)
			out, err := cmd.Output()
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				t.Fatalf("run.sh: %v\n%s%s", err, out, exit.Stderr)
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := string(out); got != want {
				t.Errorf("got:\n%swant:\n%s", got, want)
			}
		})
	}
}
