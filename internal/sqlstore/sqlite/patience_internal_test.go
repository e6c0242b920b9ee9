package sqlite

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

func TestPatience(t *testing.T) {
	t.Run("K11_a_write_gives_up_on_a_lock_whoever_gives_up_beside_it", func(t *testing.T) {
		s := openStore(t, Options{Synchronous: "NORMAL", BusyTimeout: time.Millisecond})
		beside := openPool(s.Path(), Options{}, callers, 1)
		defer func() { _ = beside.Close() }()
		lock, err := beside.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = lock.Rollback() }()
		random := rand.New(rand.NewPCG(11, 11))
		nothing := func(context.Context, *tx) error { return nil }
		for range 300 / Slowness {
			var all sync.WaitGroup
			for range 4 { // of which some share a transaction
				all.Go(func() { // would not return if somebody else's end made it forget its patience
					if err := s.writing(t.Context(), ordinary, 1, nothing); !errors.Is(kind(err), sqlstore.ErrBusy) {
						t.Errorf("got %v, want ErrBusy", err)
					}
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.Int64N(int64(5*time.Millisecond))))
				all.Go(func() {
					defer cancel()
					err := s.writing(ctx, ordinary, 1, nothing)
					if !errors.Is(kind(err), sqlstore.ErrBusy) && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("got %v, want ErrBusy or the end of the context", err)
					}
				})
			}
			all.Wait()
		}
	})
}
