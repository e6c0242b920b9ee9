package sqlite

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// newAlarm is an alarm that is in time for less than a millisecond too. Go's timers are not in a process that has nothing
// else to do: what it sleeps in counts milliseconds. It wakes at once for a file, such as a timer of the system.
func newAlarm() *alarm {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return newTimer() // too many files, perhaps
	}
	a := &alarm{c: make(chan struct{}, 1)}
	file := os.NewFile(uintptr(fd), "timerfd")
	var reader sync.WaitGroup
	reader.Go(func() {
		var times [8]byte
		for {
			if _, err := file.Read(times[:]); err != nil {
				return // closed
			}
			a.ring()
		}
	})
	a.set = func(d time.Duration) {
		_ = unix.TimerfdSettime(fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(d.Nanoseconds())}, nil)
	}
	a.close = func() {
		_ = file.Close()
		reader.Wait()
	}
	return a
}
