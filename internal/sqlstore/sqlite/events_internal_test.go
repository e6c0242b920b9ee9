package sqlite

import (
	"testing"
	"testing/synctest"
	"time"
)

// A commit is heard at once, whatever other events were about that came before it and were no commits.
func TestEventsAreHeard(t *testing.T) {
	// run lets time go by after something has happened, and says when it was time to look, and how long it was deaf each time.
	run := func(t *testing.T, happens func(e *events)) (looked, deaf []time.Duration) {
		synctest.Test(t, func(*testing.T) {
			e := &events{again: newTimer(), calm: deafness}
			began := time.Now()
			happens(e)
			for e.deaf || e.early > 0 {
				since, wasDeaf := time.Now(), e.deaf
				<-e.again.c
				if wasDeaf {
					deaf = append(deaf, time.Since(since))
				}
				if e.due() {
					looked = append(looked, time.Since(began))
					e.looked(false)
				}
			}
			e.close()
		})
		return looked, deaf
	}
	atMost := func(t *testing.T, deaf []time.Duration, want time.Duration) {
		t.Helper()
		for _, d := range deaf {
			if d > want {
				t.Errorf("deaf for %v, want %v at most", d, want)
			}
		}
	}
	t.Run("a look in vain is repeated, ever later", func(t *testing.T) {
		looked, deaf := run(t, func(e *events) { e.looked(false) })
		if len(looked) != looks {
			t.Fatalf("looked again %d times, want %d", len(looked), looks)
		}
		for i, at := range looked {
			if want := soonest<<(i+1) - soonest; at != want {
				t.Errorf("look %d: after %v, want %v", i, at, want)
			}
		}
		atMost(t, deaf, deafness)
	})
	t.Run("soon again after another event, however many were in vain before", func(t *testing.T) {
		looked, deaf := run(t, func(e *events) {
			e.early = looks - 1
			e.heard()
			e.looked(false)
		})
		if len(looked) != looks-1 || looked[0] != 2*soonest {
			t.Errorf("looked again after %v, want the first time after %v", looked, 2*soonest)
		}
		atMost(t, deaf, deafness)
	})
	t.Run("a change is followed by calm, the longer the more follow one another", func(t *testing.T) {
		for changes, want := range []time.Duration{deafness, 2 * deafness, 4 * deafness, calm, calm} {
			looked, deaf := run(t, func(e *events) {
				for range changes + 1 {
					e.looked(true)
				}
			})
			if len(looked) != 0 || len(deaf) != 1 || deaf[0] != want {
				t.Errorf("after %d changes: looked again %v, deaf for %v, want only deaf for %v", changes+1, looked, deaf, want)
			}
		}
	})
	t.Run("and the next is a first one again after a pause, in which it looked in vain or did not", func(t *testing.T) {
		for _, inVain := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				e := &events{again: newTimer(), calm: deafness}
				defer e.close()
				for range 5 {
					e.looked(true)
				}
				if inVain {
					e.looked(false)
				}
				for since := time.Now(); e.calm != deafness; {
					if <-e.again.c; e.due() {
						e.looked(false)
					}
					if took := time.Since(since); took > 2*calm+deafness {
						t.Fatalf("not after %v", took)
					}
				}
			})
		}
	})
	t.Run("an event of our own is reason to look, but later", func(t *testing.T) {
		looked, deaf := run(t, func(e *events) { e.ours() })
		if len(looked) != 1+looks-owned || looked[0] != own {
			t.Errorf("looked after %v, want the first time after %v", looked, own)
		}
		atMost(t, deaf, own)
	})
}

// An alarm is what it was set to last.
func TestAlarm(t *testing.T) {
	for name, a := range map[string]*alarm{"of the system": newAlarm(), "of Go": newTimer()} {
		t.Run(name, func(t *testing.T) {
			defer a.close()
			a.set(time.Hour)
			a.set(100 * time.Microsecond)
			<-a.c
			a.set(time.Hour)
			a.set(0)
			began := time.Now()
			a.set(10 * time.Millisecond)
			<-a.c
			if took := time.Since(began); took < 9*time.Millisecond {
				t.Errorf("went off after %v, want what it was set to last", took)
			}
		})
	}
}
