//go:build !linux

package sqlite

func newAlarm() *alarm { return newTimer() }
