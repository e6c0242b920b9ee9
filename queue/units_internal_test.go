package queue

import (
	"math"
	"testing"
	"time"
)

func TestNearestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		0: 0, 1: 0, time.Second/2 - 1: 0, time.Second / 2: 1, time.Second: 1, 1499 * time.Millisecond: 1, 1500 * time.Millisecond: 2,
		math.MaxInt64: 9223372037,
	} {
		if got := nearestSeconds(d); got != want {
			t.Errorf("%v: got %d, want %d", d, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for s, want := range map[int64]time.Duration{
		0: 0, 1: time.Second, -1: -time.Second, math.MaxInt64: 9223372036 * time.Second, math.MinInt64: -9223372036 * time.Second,
	} {
		if got := duration(s); got != want {
			t.Errorf("%d s: got %v, want %v", s, got, want)
		}
	}
}
