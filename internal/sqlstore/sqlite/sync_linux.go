package sqlite

import (
	"errors"
	"os"
	"syscall"
)

// syncFile returns when what was written to a file is on the disk, without the time of its last change.
func syncFile(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); !errors.Is(err, syscall.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
