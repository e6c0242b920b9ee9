package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"time"
)

// usage is what this process and the server of its subject have used up so far.
type usage struct {
	cpu    time.Duration // of this process
	server time.Duration // CPU of the server, all its processes
	disk   int64         // bytes that this process has caused to be written to storage
}

func use(server int) usage {
	u := usage{cpu: ownCPU(), disk: diskBytes()}
	if server != 0 {
		u.server = treeCPU(server)
	}
	return u
}

func (u usage) since(before usage) usage {
	return usage{cpu: u.cpu - before.cpu, server: u.server - before.server, disk: u.disk - before.disk}
}

// perJob adds what a job cost, and the peak memory of this process.
func (u usage) perJob(m Metrics, jobs int64) {
	if jobs > 0 {
		m["cpu_us"] = microseconds(u.cpu) / float64(jobs)
		m["server_us"] = microseconds(u.server) / float64(jobs)
	}
	m["rss_mb"] = float64(peakMemory()) / 1e6
}

// Machine is where a run was made.
type Machine struct {
	CPU         string  `json:"cpu"`
	Cores       int     `json:"cores"`
	MemoryGB    float64 `json:"memory_gb"`
	System      string  `json:"system"`
	FileSystem  string  `json:"file_system"`
	SyncMicros  float64 `json:"fdatasync_us"`        // median, overwriting a page
	AppendSync  float64 `json:"fdatasync_append_us"` // median, a file that grows
	LoadAverage string  `json:"load_average"`        // at the start
}

func describeMachine(dir string) (Machine, error) {
	m := Machine{
		CPU: cpuModel(), Cores: goruntime.NumCPU(), MemoryGB: totalMemoryGB(), System: systemName(),
		FileSystem: fileSystem(dir), LoadAverage: loadAverage(),
	}
	overwrite, err1 := timeSyncs(dir, false)
	grow, err2 := timeSyncs(dir, true)
	m.SyncMicros, m.AppendSync = microseconds(overwrite), microseconds(grow)
	return m, errors.Join(err1, err2)
}

func (m Machine) String() string {
	return fmt.Sprintf("%s, %d cores, %.0f GB, %s, %s, fdatasync %.0f us (growing file %.0f us), load %s",
		m.CPU, m.Cores, m.MemoryGB, m.System, m.FileSystem, m.SyncMicros, m.AppendSync, m.LoadAverage)
}

// timeSyncs is the median time to write 4 KiB and wait until they are on the disk.
func timeSyncs(dir string, grow bool) (_ time.Duration, err error) {
	const times, page = 200, 4096
	f, err := os.Create(filepath.Join(dir, "fsync"))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	var data [page]byte
	took := make([]time.Duration, 0, times)
	for i := range times {
		var at int64
		if grow {
			at = int64(i) * page
		}
		start := time.Now()
		if _, err := f.WriteAt(data[:], at); err != nil {
			return 0, err
		}
		if err := syncData(f); err != nil {
			return 0, err
		}
		took = append(took, time.Since(start))
	}
	return percentile(took, 50), nil
}
