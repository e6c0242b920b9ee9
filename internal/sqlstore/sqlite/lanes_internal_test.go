package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// queueUp lets one writer wait in each of the lanes, in that order, and returns what notes who got through.
func queueUp(turns *turnstile, through *[]string, names ...string) {
	for _, name := range names {
		l := ordinary
		if name[0] == 'u' {
			l = urgent
		}
		go func() {
			if err := turns.enter(context.Background(), l); err != nil {
				panic(err)
			}
			*through = append(*through, name) // guarded by the turn
			turns.leave()
		}()
		synctest.Wait() // it is in line
	}
}

func TestTurnstile(t *testing.T) {
	t.Run("K6_the_urgent_go_first_each_in_the_order_of_arrival", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var turns turnstile
			var through []string
			if err := turns.enter(t.Context(), ordinary); err != nil {
				t.Fatal(err)
			}
			queueUp(&turns, &through, "o1", "o2", "u1", "o3", "u2", "u3")
			turns.leave()
			synctest.Wait()
			if want := []string{"u1", "u2", "u3", "o1", "o2", "o3"}; !slices.Equal(through, want) {
				t.Errorf("order: got %v, want %v", through, want)
			}
			if turns.taken || len(turns.waiting[ordinary])+len(turns.waiting[urgent]) > 0 {
				t.Error("somebody is still there")
			}
		})
	})
	t.Run("K51_one_that_gives_up_leaves_the_line", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var turns turnstile
			var through []string
			if err := turns.enter(t.Context(), urgent); err != nil {
				t.Fatal(err)
			}
			queueUp(&turns, &through, "o1")
			ctx, cancel := context.WithCancelCause(t.Context())
			gone := make(chan error, 2)
			for l := range lanes {
				go func() { gone <- turns.enter(ctx, l) }()
			}
			synctest.Wait()
			queueUp(&turns, &through, "o2", "u1")
			cancel(errors.New("enough"))
			for range cap(gone) {
				if err := <-gone; !errors.Is(err, context.Canceled) {
					t.Errorf("got %v, want context.Canceled", err)
				}
			}
			if err := turns.enter(ctx, urgent); !errors.Is(err, context.Canceled) {
				t.Errorf("with a context that has ended: got %v, want context.Canceled", err)
			}
			turns.leave()
			synctest.Wait()
			if want := []string{"u1", "o1", "o2"}; !slices.Equal(through, want) {
				t.Errorf("order: got %v, want %v", through, want)
			}
		})
	})
	t.Run("K51_a_turn_that_comes_as_its_owner_gives_up_is_passed_on", func(t *testing.T) {
		var turns turnstile
		var inside, passed, gaveUp atomic.Int64
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				random := rand.New(rand.NewPCG(1, uint64(i)))
				for range 500 {
					ctx, cancel := context.WithCancel(t.Context())
					if random.IntN(2) == 0 {
						go cancel() // at about the moment of the turn
					}
					if err := turns.enter(ctx, lane(random.IntN(int(lanes)))); err != nil {
						gaveUp.Add(1)
						cancel()
						continue
					}
					if n := inside.Add(1); n != 1 {
						t.Errorf("%d writers at once", n)
					}
					inside.Add(-1)
					passed.Add(1)
					turns.leave()
					cancel()
				}
			})
		}
		all.Wait() // for ever, if a turn were lost
		if got := fmt.Sprint(passed.Load() + gaveUp.Load()); got != "8000" {
			t.Errorf("entered or given up: got %s, want 8000", got)
		}
		if turns.taken {
			t.Error("the turn is still taken")
		}
	})
}
