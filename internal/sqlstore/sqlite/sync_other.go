//go:build !linux

package sqlite

import "os"

// syncFile returns when what was written to a file is on the disk.
func syncFile(f *os.File) error { return f.Sync() }
