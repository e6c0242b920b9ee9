package postgres

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// silence is how long the other end may leave what was sent to it unacknowledged.
const silence = 8 * time.Second

// dialer notices a peer that has vanished without a word: idle connections by probes, busy ones by what stays
// unacknowledged, for which the kernel would otherwise wait a quarter of an hour.
func dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{
		Timeout:         timeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: time.Second, Count: 3},
		Control: func(network, _ string, conn syscall.RawConn) error {
			if network != "tcp4" && network != "tcp6" {
				return nil
			}
			var err error
			cerr := conn.Control(func(fd uintptr) {
				err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silence.Milliseconds()))
			})
			if cerr != nil {
				return cerr
			}
			return err
		},
	}
}
