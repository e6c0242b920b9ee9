//go:build unix

package command_test

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
)

// TestScriptUnix runs the scripts that need a shell, signals or the permissions of Unix files.
func TestScriptUnix(t *testing.T) {
	runScripts(t, testscript.Params{Dir: "testdata/script/unix"}, onFile)
}

// TestScriptUnixPostgres is TestScriptPostgres for the same.
func TestScriptUnixPostgres(t *testing.T) {
	if _, ok := pgtest.New(t); !ok {
		return
	}
	files := []string{}
	for _, name := range []string{
		"binary", "health", "lines_in_part", "registry_exec", "run", "schedule_fires", "stop", "until_idle", "warnings",
	} {
		files = append(files, "testdata/script/unix/"+name+".txtar")
	}
	runScripts(t, testscript.Params{Files: files}, onServer(t))
}
