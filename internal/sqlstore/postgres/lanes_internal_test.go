package postgres

import (
	"testing"
	"testing/synctest"
	"time"
)

// A server that waits for a locked row as long as it was told to is not taken for one that has gone. What never waits for
// one notices sooner.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for busy, want := range map[time.Duration]time.Duration{
			0:                leastPatience, // five seconds, and one
			time.Millisecond: leastPatience,
			time.Minute:      time.Minute + time.Second,
		} {
			s := &Store{options: Options{BusyTimeout: busy}}
			for l, want := range map[lane]time.Duration{ordinary: want, prompt: leastPatience, urgent: leastPatience} {
				ctx, cancel := s.bounded(t.Context(), l)
				if end, _ := ctx.Deadline(); time.Until(end) != want {
					t.Errorf("busy timeout %v, lane %d: got %v, want %v", busy, l, time.Until(end), want)
				}
				cancel()
			}
			ctx, cancel := s.bounded(t.Context(), slow)
			if end, bounded := ctx.Deadline(); bounded {
				t.Errorf("slow calls end after %v, want no end", time.Until(end))
			}
			cancel()
		}
	})
}
