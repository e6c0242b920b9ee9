package exec

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOnlyZombies(t *testing.T) {
	// A script's process has the name of its file, and this one reads like the fields after it.
	path := filepath.Join(t.TempDir(), "a) Z 1 1 (b")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nread -r line\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := osexec.Command(path)
	ownGroup(cmd)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	if onlyZombies(pid) || !alive(cmd) {
		t.Errorf("running: got only zombies %v, alive %v", onlyZombies(pid), alive(cmd))
	}
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if !onlyZombies(pid) || alive(cmd) {
		t.Errorf("ended but not waited for: got only zombies %v, alive %v", onlyZombies(pid), alive(cmd))
	}
	_ = cmd.Wait() // exit status 1: there was no line
	if onlyZombies(pid) || alive(cmd) {
		t.Errorf("waited for: got only zombies %v, alive %v", onlyZombies(pid), alive(cmd))
	}
}
