//go:build unix

package command_test

import "testing"

// TestScriptUnix runs the scripts that need a shell, signals or the permissions of Unix files.
func TestScriptUnix(t *testing.T) { runScripts(t, "testdata/script/unix") }
