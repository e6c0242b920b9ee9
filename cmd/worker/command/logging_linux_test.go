package command

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// openTerminal returns the two ends of a new terminal: what is written to tty can be read from screen.
func openTerminal(t *testing.T) (screen, tty *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	if err := unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tty.Close() })
	return screen, tty
}

func TestColoursOnATerminalOnly(t *testing.T) {
	logged := func(asJSON bool) string {
		screen, tty := openTerminal(t)
		newLogger(tty, slog.LevelInfo, asJSON).Warn("a warning", "queue", "q")
		buf := make([]byte, 4096)
		n, err := screen.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		return string(buf[:n])
	}
	t.Setenv("NO_COLOR", "")
	if got := logged(false); !strings.Contains(got, "\x1b[") || !strings.Contains(got, "a warning") {
		t.Errorf("terminal: got %q, want colours", got)
	}
	if got := logged(true); strings.Contains(got, "\x1b[") || !strings.HasPrefix(got, `{"time":`) {
		t.Errorf("terminal with --json: got %q, want JSON", got)
	}
	t.Setenv("NO_COLOR", "1")
	if got := logged(false); strings.Contains(got, "\x1b[") || !strings.Contains(got, "a warning") {
		t.Errorf("terminal with NO_COLOR: got %q, want no colours", got)
	}
}

func TestNetworkFileSystem(t *testing.T) {
	// K60: nobody can mount a network here, but what is looked up must be there for files that exist and for those that do not.
	dir := t.TempDir()
	for _, path := range []string{dir, dir + "/not-yet.db", dir + "/nowhere/at-all.db"} {
		if got := networkFileSystem(path); got != "" {
			t.Errorf("%s: got %q, want a local file system", path, got)
		}
	}
	if got := networkFileSystems[0x6969]; got != "NFS" {
		t.Errorf("NFS: got %q", got)
	}
}

// The warning itself, with the file system of the tests taken for one of a network.
func TestNetworkFileSystemIsWarnedAbout(t *testing.T) {
	dir := t.TempDir()
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	magic := int64(uint32(fs.Type))
	networkFileSystems[magic] = "NFS"
	defer delete(networkFileSystems, magic)
	t.Setenv("WORKER_DB", dir+"/jobs.db")
	for _, command := range []string{"run --until-idle", "doctor"} {
		var out, errs bytes.Buffer
		if status := Run(t.Context(), nil, strings.Fields("enqueue q x"), nil, &out, &errs); status != ExitDone {
			t.Fatalf("enqueue: got status %d and %q", status, errs.String())
		}
		Run(t.Context(), nil, strings.Fields(command), nil, &out, &errs)
		if said := out.String() + errs.String(); !strings.Contains(said, "network file system") || !strings.Contains(said, "NFS") {
			t.Errorf("K60: %s says %q, want a warning", command, said)
		}
	}
}
