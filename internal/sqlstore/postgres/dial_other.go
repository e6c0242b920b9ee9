//go:build !linux

package postgres

import (
	"net"
	"time"
)

// dialer notices a peer that has vanished without a word while the connection is idle.
func dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{
		Timeout:         timeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: time.Second, Count: 3},
	}
}
