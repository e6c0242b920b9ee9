package crashtest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// mounted are file systems of their own, which can be filled and broken without harm. Who may not mount goes without.
func mounted(t *testing.T) (disks []disk) {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=16m"); err != nil {
		t.Logf("NO FILE SYSTEM OF ITS OWN: mounting one needs root (%v). Only the limit of the process is tested.", err)
		return nil
	}
	unmountAfter(t, dir)
	disks = append(disks, disk{name: "full_tmpfs", kind: "full", dir: dir, fail: fill, heal: empty})
	if dir, _, err := ext4(t); err != nil {
		t.Logf("NO EXT4 OF ITS OWN: %v. A full ext4 and files turned read-only are not tested.", err)
	} else {
		disks = append(disks, disk{name: "full_ext4", kind: "full", dir: dir, fail: fill, heal: empty})
	}
	return disks
}

// ext4 mounts a small new file system that lives in a file.
func ext4(t *testing.T) (dir, image string, err error) {
	t.Helper()
	image, dir = filepath.Join(t.TempDir(), "image"), t.TempDir()
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 16<<20)); err != nil {
		return "", "", err
	}
	for _, command := range [][]string{{"mkfs.ext4", "-q", "-F", image}, mountOf(image, dir)} {
		if text, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			return "", "", fmt.Errorf("%s: %w: %s", command[0], err, text)
		}
	}
	unmountAfter(t, dir)
	return dir, image, nil
}

func mountOf(image, dir string) []string {
	return []string{"mount", "-o", "loop,errors=remount-ro", image, dir}
}

func unmountAfter(t *testing.T, dir string) {
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
}

// fill takes all the room that is left.
func fill(s *scene, _ *process) {
	s.Helper()
	f, err := os.Create(filepath.Join(filepath.Dir(s.db), "ballast"))
	if err != nil {
		s.Fatal(err)
	}
	for size := int64(1 << 20); size >= 1; size /= 2 {
		for err == nil {
			_, err = io.CopyN(f, zeros{}, size)
		}
		if !errors.Is(err, unix.ENOSPC) {
			s.Fatal(err)
		}
		err = nil
	}
	if err := f.Close(); err != nil && !errors.Is(err, unix.ENOSPC) {
		s.Fatal(err)
	}
}

func empty(s *scene, _ *process) {
	s.Helper()
	if err := os.Remove(filepath.Join(filepath.Dir(s.db), "ballast")); err != nil {
		s.Fatal(err)
	}
}

type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// readOnly are file systems that take no more writes from one moment on, which also holds for whoever has a file open
// already.
func readOnly(t *testing.T) []disk {
	t.Helper()
	dir, _, err := ext4(t)
	if err != nil {
		t.Logf("NO EXT4 OF ITS OWN: it needs root (%v). Only files whose modes were changed are tested.", err)
		return nil
	}
	disks := []disk{{
		name: "files_made_immutable", dir: dir,
		fail: func(s *scene, _ *process) { s.command("chattr", "+i", s.db, s.db+"-wal") },
		heal: func(s *scene, _ *process) { s.command("chattr", "-i", s.db, s.db+"-wal") },
	}}
	dir, image, err := ext4(t)
	if err != nil {
		t.Fatal(err)
	}
	trigger := triggerOf(t, dir)
	if err := unix.Access(trigger, unix.W_OK); err != nil {
		t.Logf("NO ERROR OF THE KERNEL: %s: %v", trigger, err)
		return disks
	}
	return append(disks, disk{
		name: "an_error_that_the_kernel_has_found", dir: dir,
		fail: func(s *scene, _ *process) {
			s.Helper()
			if err := os.WriteFile(trigger, []byte("1"), 0); err != nil {
				s.Fatal(err)
			}
		},
		heal: func(s *scene, _ *process) {
			s.Helper()
			s.command("umount", dir)
			_ = exec.Command("e2fsck", "-f", "-y", image).Run() // 1: it has mended something
			s.command("mount", mountOf(image, dir)[1:]...)
		},
	})
}

// triggerOf is the file that makes the kernel find an error in the file system that is mounted there.
func triggerOf(t *testing.T, dir string) string {
	t.Helper()
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); fields[1] == dir {
			return "/sys/fs/ext4/" + filepath.Base(fields[0]) + "/trigger_fs_error"
		}
	}
	t.Fatalf("%s is not mounted", dir)
	return ""
}

func (s *scene) command(name string, args ...string) (output string) {
	s.Helper()
	text, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		s.Fatalf("%s %q: %v: %s", name, args, err, text)
	}
	return string(text)
}

// unmounted is a file system that vanishes.
func unmounted(t *testing.T) []loss {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=16m"); err != nil {
		t.Logf("NO FILE SYSTEM OF ITS OWN: mounting one needs root (%v). That it vanishes is not tested.", err)
		return nil
	}
	gone := false
	t.Cleanup(func() {
		if !gone {
			_ = unix.Unmount(dir, unix.MNT_DETACH)
		}
	})
	return []loss{{name: "file_system_unmounted", dir: dir, do: func(string) error {
		gone = true
		return unix.Unmount(dir, unix.MNT_DETACH)
	}}}
}
