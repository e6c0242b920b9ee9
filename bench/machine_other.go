//go:build !linux

package main

import (
	"os"
	"os/exec"
	goruntime "runtime"
	"time"
)

// What follows is read from /proc and is zero elsewhere.

func ownCPU() time.Duration     { return 0 }
func treeCPU(int) time.Duration { return 0 }
func diskBytes() int64          { return 0 }
func peakMemory() int64         { return 0 }
func residentMemory() int64     { return 0 }
func totalMemoryGB() float64    { return 0 }

func cpuModel() string          { return goruntime.GOARCH }
func systemName() string        { return goruntime.GOOS }
func loadAverage() string       { return "unknown" }
func fileSystem(string) string  { return "unknown file system" }
func syncData(f *os.File) error { return f.Sync() }
func settleDisk()               {}
func endWithParent(*exec.Cmd)   {}

const memoryFileSystem = "tmpfs"
