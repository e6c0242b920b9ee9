package torture

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// machineVariable makes a run of this test binary a machine whose power is cut: its value is a machine as JSON.
const machineVariable = "ALKWORKER_TORTURE_MACHINE"

// shutDown is the request by which ext4 forgets at once whatever it has not written, its journal included, and refuses
// everything from then on: EXT4_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH. The tests of file systems cut the power
// with it, too.
const (
	shutDown   = 0x8004587d
	noLogFlush = 2
)

// makeDisk makes an image with a file system in it.
func makeDisk(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := errors.Join(file.Truncate(64<<20), file.Close()); err != nil {
		return err
	}
	return command("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", path)
}

// start starts the machine. Its mounts are its own, and gone with it whatever happens.
func (m machine) start() (*exec.Cmd, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), machineVariable+"="+string(text))
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	cmd.Stderr = os.Stderr
	return cmd, nil
}

// serveMachine is that machine, if this is one.
func serveMachine() bool {
	text := os.Getenv(machineVariable)
	if text == "" {
		return false
	}
	var m machine
	err := json.Unmarshal([]byte(text), &m)
	if err == nil {
		err = m.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "machine:", err)
		os.Exit(1)
	}
	return true
}

// run lets a process write until the power is cut, starts anew, and copies what it finds on its disk then.
func (m machine) run() (err error) {
	if err := m.mount(); err != nil {
		return err
	}
	if err := m.work(); err != nil {
		return errors.Join(err, m.unmount())
	}
	if err := errors.Join(m.unmount(), m.mount()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.unmount()) }()
	for _, suffix := range []string{"", "-wal"} {
		err := copyFile(filepath.Join(m.At, m.File)+suffix, m.Copy+suffix)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (m machine) work() error {
	disk, err := os.Open(m.At)
	if err != nil {
		return err
	}
	defer disk.Close()
	if !m.Keep {
		for _, suffix := range []string{"", "-wal", "-shm"} {
			if err := os.Remove(filepath.Join(m.At, m.File) + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	writer := exec.Command(self)
	writer.Env = append(os.Environ(), machineVariable+"=", writerVariable+"="+filepath.Join(m.At, m.File),
		synchronousVariable+"="+m.Synchronous)
	writer.Stdout, writer.Stderr = os.Stdout, os.Stderr
	if err := writer.Start(); err != nil {
		return err
	}
	<-time.After(m.After)
	fmt.Println(cutMark)
	err = unix.IoctlSetPointerInt(int(disk.Fd()), shutDown, noLogFlush)
	kerr := writer.Process.Kill()
	if errors.Is(kerr, os.ErrProcessDone) {
		kerr = nil // it noticed
	}
	_ = writer.Wait()
	return errors.Join(err, kerr)
}

func (m machine) mount() error   { return command("mount", "-o", "loop", m.Disk, m.At) }
func (m machine) unmount() error { return command("umount", m.At) }

func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}
