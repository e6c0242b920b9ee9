package queue

import (
	"math"
	"testing"
	"time"
)

// attempts are those at which doubling has gone wrong elsewhere. // K40
var attempts = []int{math.MinInt, -1, 0, 1, 2, 3, 31, 32, 36, 37, 38, 62, 63, 64, 65, 1000, math.MaxInt32, math.MaxInt}

var (
	bases  = []time.Duration{-1, 0, 1, time.Millisecond, time.Second, 5 * time.Second, time.Minute, time.Hour}
	limits = []time.Duration{1, time.Second, time.Minute, time.Hour, MaxBackoffBase}
)

func TestBackoff(t *testing.T) {
	t.Run("B1_curve", func(t *testing.T) {
		for attempt, want := range map[int]time.Duration{
			-1: 5, 0: 5, 1: 5, 2: 10, 3: 20, 4: 40, 10: 2560, 11: 3600, 12: 3600, 1000: 3600, math.MaxInt: 3600,
		} {
			if got := backoffAt(5*time.Second, time.Hour, attempt, 0); got != want*time.Second {
				t.Errorf("attempt %d: got %v, want %v", attempt, got, want*time.Second)
			}
		}
	})
	t.Run("B1_base_above_the_cap_is_capped", func(t *testing.T) {
		if got := backoffAt(time.Hour, time.Minute, 1, 0); got != time.Minute {
			t.Errorf("got %v, want 1m", got)
		}
	})
	t.Run("B1_limits_of_the_cap", func(t *testing.T) {
		for limit, want := range map[time.Duration]time.Duration{
			0: time.Hour, -1: time.Hour, math.MaxInt64: MaxBackoffBase,
		} {
			if got := backoffAt(time.Minute, limit, 1000, 0); got != want {
				t.Errorf("limit %d: got %v, want %v", limit, got, want)
			}
		}
	})
	t.Run("K40_monotone_before_jitter", func(t *testing.T) {
		for _, base := range bases {
			for _, limit := range limits {
				last := time.Duration(0)
				for _, attempt := range attempts {
					got := backoffAt(base, limit, attempt, 0)
					if got < last || got > limit {
						t.Errorf("base %v, limit %v, attempt %d: got %v after %v", base, limit, attempt, got, last)
					}
					last = got
				}
				if base > 0 && last != limit {
					t.Errorf("base %v: got %v in the end, want the limit %v", base, last, limit)
				}
			}
		}
	})
	t.Run("K40_jitter_bounds", func(t *testing.T) {
		for _, base := range bases {
			for _, limit := range limits {
				for _, attempt := range attempts {
					plain := float64(backoffAt(base, limit, attempt, 0))
					for range 50 {
						got := float64(Backoff(base, limit, attempt))
						// A nanosecond, since whole ones are drawn.
						if got < 0 || got < plain*0.8-1 || got > plain*1.2+1 {
							t.Fatalf("base %v, limit %v, attempt %d: got %v, want %v +- 20 %%",
								base, limit, attempt, time.Duration(got), time.Duration(plain))
						}
					}
				}
			}
		}
	})
	t.Run("B1_jitter_uses_the_full_range_also_above_the_cap", func(t *testing.T) {
		least, most := time.Duration(math.MaxInt64), time.Duration(0)
		for range 10_000 {
			d := Backoff(5*time.Second, time.Hour, 1000)
			least, most = min(least, d), max(most, d)
		}
		if least > 49*time.Minute || most < 71*time.Minute {
			t.Errorf("got %v to %v in 10,000 draws, want nearly 48m to 72m", least, most)
		}
	})
}
