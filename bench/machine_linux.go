package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ownCPU is the CPU time of this process.
func ownCPU() time.Duration {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// diskBytes is what this process has caused to be written to storage. Files that are mapped count as well.
func diskBytes() int64 { return field("/proc/self/io", "write_bytes:") }

// peakMemory is the peak of this process's resident memory, in bytes. The one of getrusage would not do: across an exec it
// keeps that of the parent.
func peakMemory() int64 { return field("/proc/self/status", "VmHWM:") * 1024 }

// residentMemory is that of now.
func residentMemory() int64 { return field("/proc/self/status", "VmRSS:") * 1024 }

// field reads a number from a file of "name: number" lines. Zero if it is not there.
func field(path, name string) int64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			if words := strings.Fields(rest); len(words) > 0 {
				n, _ := strconv.ParseInt(words[0], 10, 64)
				return n
			}
		}
	}
	return 0
}

// treeCPU is the CPU time of a server: of its first process, of its living children, and of those that have ended.
func treeCPU(pid int) time.Duration {
	total := processCPU(pid, true)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && statField(child, 4) == int64(pid) {
			total += processCPU(child, true)
		}
	}
	return total
}

// clockTick is the unit of /proc/PID/stat on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// processCPU is finer where the scheduler's own account can be read, which is most everywhere.
func processCPU(pid int, waited bool) time.Duration {
	own := time.Duration(statField(pid, 14)+statField(pid, 15)) * clockTick
	if tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid)); err == nil && len(tasks) > 0 {
		var exact time.Duration
		for _, task := range tasks {
			if text, err := os.ReadFile(task); err == nil {
				if words := strings.Fields(string(text)); len(words) > 0 {
					ns, _ := strconv.ParseInt(words[0], 10, 64)
					exact += time.Duration(ns)
				}
			}
		}
		if exact > 0 {
			own = exact
		}
	}
	if waited {
		own += time.Duration(statField(pid, 16)+statField(pid, 17)) * clockTick
	}
	return own
}

// statField reads the n-th field of /proc/PID/stat, counted from one as in its manual page.
func statField(pid, n int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The second field is the name in brackets, and may hold anything.
	words := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if n-3 >= len(words) {
		return 0
	}
	v, _ := strconv.ParseInt(words[n-3], 10, 64)
	return v
}

func cpuModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(name), ":"))
		}
	}
	return "unknown CPU"
}

func totalMemoryGB() float64 { return float64(field("/proc/meminfo", "MemTotal:")) * 1024 / 1e9 }

func systemName() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "Linux"
	}
	return "Linux " + unix.ByteSliceToString(u.Release[:])
}

func loadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg")
	words := strings.Fields(string(text))
	return strings.Join(words[:min(3, len(words))], " ")
}

// memoryFileSystem is the name of a file system without a disk, where every sync is free.
const memoryFileSystem = "tmpfs"

func fileSystem(dir string) string {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return "unknown file system"
	}
	names := map[int64]string{
		unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs",
		unix.TMPFS_MAGIC: memoryFileSystem, unix.OVERLAYFS_SUPER_MAGIC: "overlayfs", 0x2fc12fc1: "zfs",
	}
	if name, ok := names[s.Type]; ok {
		return name
	}
	return fmt.Sprintf("file system %#x", s.Type)
}

func syncData(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }

// settleDisk waits until what earlier measurements left in memory is written, so that it does not fall into the next.
func settleDisk() { unix.Sync() }

// endWithParent makes a process end when this one does, however that happens.
func endWithParent(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGTERM
}
