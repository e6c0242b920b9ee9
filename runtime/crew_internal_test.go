package runtime

import (
	goruntime "runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func TestCrew(t *testing.T) {
	never := func(int) bool { return false }
	t.Run("no_attempt_waits_for_another_to_end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			const attempts = 50
			release := make(chan struct{})
			var begun atomic.Int64
			c := newCrew(func(*attempt) { begun.Add(1); <-release }, never)
			defer c.close()
			for n := int64(1); n <= 2*attempts; n++ {
				c.start([]*attempt{new(attempt)})
				if n%attempts == 0 { // one by one and many at once
					synctest.Wait()
					if got := begun.Load(); got != n {
						t.Errorf("%d attempts have begun, want all %d", got, n)
					}
				}
			}
			close(release)
		})
	})
	t.Run("whoever_has_run_one_runs_the_next", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var ran int
			c := newCrew(func(*attempt) { ran++ }, never)
			defer c.close()
			for range 100 {
				c.start([]*attempt{new(attempt)})
				synctest.Wait()
			}
			if ran != 100 || c.size != 1 || c.idle != 1 {
				t.Errorf("%d attempts on %d goroutines, %d of them idle; want 100 on one", ran, c.size, c.idle)
			}
		})
	})
	t.Run("there_are_no_more_than_there_is_use_for", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			c := newCrew(func(*attempt) { <-release }, func(size int) bool { return size > 3 })
			defer c.close()
			for range 10 {
				c.start([]*attempt{new(attempt)})
			}
			synctest.Wait()
			close(release)
			synctest.Wait()
			if c.size != 3 || c.idle != 3 {
				t.Errorf("%d goroutines are left, %d of them idle; want 3", c.size, c.idle)
			}
		})
	})
	t.Run("a_handler_that_ends_its_goroutine_ends_no_other", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var ran atomic.Int64
			c := newCrew(func(*attempt) { ran.Add(1); goruntime.Goexit() }, never)
			defer c.close()
			for range 10 {
				c.start([]*attempt{new(attempt)})
			}
			synctest.Wait()
			if got := ran.Load(); got != 10 || c.size != 0 {
				t.Errorf("%d attempts ran and %d goroutines are left, want 10 and none", got, c.size)
			}
		})
	})
}
