package command

import (
	"errors"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// networkFileSystems are those on which the locks and the shared memory of SQLite cannot be relied upon.
var networkFileSystems = map[int64]string{
	unix.NFS_SUPER_MAGIC:  "NFS",
	unix.SMB_SUPER_MAGIC:  "SMB",
	unix.SMB2_SUPER_MAGIC: "SMB2",
	unix.CIFS_SUPER_MAGIC: "CIFS",
	unix.AFS_SUPER_MAGIC:  "AFS",
	unix.CODA_SUPER_MAGIC: "Coda",
	unix.CEPH_SUPER_MAGIC: "Ceph",
	unix.V9FS_MAGIC:       "9P",
}

// networkFileSystem names the network file system that a file is on; empty if it is on a local one, or if nobody knows.
// What is mounted through FUSE may be either, and counts as local. // K60
func networkFileSystem(path string) string {
	var fs unix.Statfs_t
	err := unix.Statfs(path, &fs)
	if errors.Is(err, unix.ENOENT) {
		err = unix.Statfs(filepath.Dir(path), &fs)
	}
	if err != nil {
		return ""
	}
	return networkFileSystems[int64(uint32(fs.Type))] // on some machines the field has 32 bits, one of them a sign
}
