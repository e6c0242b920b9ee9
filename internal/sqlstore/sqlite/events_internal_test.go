package sqlite

import (
	"testing"
	"testing/synctest"
	"time"
)

// A commit is heard at once, whatever other events were about that came before it and were no commits.
func TestEventsAreHeard(t *testing.T) {
	run := func(t *testing.T, changed bool) (looked, deaf []time.Duration) {
		synctest.Test(t, func(*testing.T) {
			e := &events{again: time.NewTimer(time.Hour)}
			began := time.Now()
			e.looked(changed)
			for e.deaf || e.early > 0 {
				since, wasDeaf := time.Now(), e.deaf
				<-e.again.C
				if wasDeaf {
					deaf = append(deaf, time.Since(since))
				}
				if e.due() {
					looked = append(looked, time.Since(began))
					e.looked(false)
				}
			}
		})
		return looked, deaf
	}
	t.Run("a look in vain is repeated, ever later", func(t *testing.T) {
		looked, deaf := run(t, false)
		if len(looked) != looks {
			t.Fatalf("looked again %d times, want %d", len(looked), looks)
		}
		for i, at := range looked {
			if want := soonest<<(i+1) - soonest; at != want {
				t.Errorf("look %d: after %v, want %v", i, at, want)
			}
		}
		for _, d := range deaf {
			if d > deafness {
				t.Errorf("deaf for %v, want %v at most", d, deafness)
			}
		}
	})
	t.Run("a change is followed by calm", func(t *testing.T) {
		looked, deaf := run(t, true)
		if len(looked) != 0 || len(deaf) != 1 || deaf[0] != calm {
			t.Errorf("looked again %v, deaf for %v, want only deaf for %v", looked, deaf, calm)
		}
	})
}
