package queue

import (
	"math"
	"time"
)

// Seconds converts a duration to the store's unit, rounded up: a delay never ends early, a timeout is never shorter than
// asked for. It is for the packages of this module.
func Seconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}

// nearestSeconds is for the delays of the retry curve, where rounding up would shift every jittered delay.
func nearestSeconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second >= time.Second/2 {
		s++
	}
	return s
}

// duration is the inverse of Seconds. Rows edited by hand may hold anything, so it stops at the longest duration.
func duration(s int64) time.Duration {
	const limit = int64(math.MaxInt64 / time.Second)
	return time.Duration(min(max(s, -limit), limit)) * time.Second
}

// timeOf converts a stored time; nil is the zero time.
func timeOf(s *int64) time.Time {
	if s == nil {
		return time.Time{}
	}
	return time.Unix(*s, 0).UTC()
}

// clampInt matters where int has 32 bits.
func clampInt(n int64) int {
	return int(min(max(n, math.MinInt), math.MaxInt))
}
