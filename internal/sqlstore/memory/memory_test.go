package memory_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/memory"
	"github.com/alkstore/alkworker/internal/sqlstore/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		clock := storetest.NewClock()
		store := memory.New(memory.Options{Clock: clock.Now})
		t.Cleanup(func() {
			if err := store.Close(); err != nil && !errors.Is(err, sqlstore.ErrClosed) {
				t.Error(err)
			}
		})
		return storetest.Harness{
			Store: store,
			Clock: clock,
			Edit:  func(_ *testing.T, id int64, column string, value any) { store.Edit(id, column, value) },
		}
	})
}

func TestNew(t *testing.T) {
	t.Run("a_clock_is_required", func(t *testing.T) {
		defer func() {
			if recover() == nil {
				t.Error("New without a clock: got no panic")
			}
		}()
		memory.New(memory.Options{})
	})
}

func TestUnsupported(t *testing.T) {
	store := memory.New(memory.Options{Clock: storetest.NewClock().Now})
	calls := map[string]func() error{
		"EnqueueTx": func() error {
			_, err := store.EnqueueTx(t.Context(), nil, []sqlstore.NewJob{{Queue: "mail"}})
			return err
		},
		"AckBatchTx": func() error {
			_, err := store.AckBatchTx(t.Context(), nil, []sqlstore.Handle{{ID: 1, Fence: 1}})
			return err
		},
		"Backup": func() error { return store.Backup(t.Context(), t.TempDir()+"/copy") },
	}
	for _, want := range []error{sqlstore.ErrUnsupported, sqlstore.ErrClosed} {
		for name, call := range calls {
			if err := call(); !errors.Is(err, want) {
				t.Errorf("%s: got %v, want %v", name, err, want)
			}
		}
		_ = store.Close()
	}
}

func enqueue(t *testing.T, store *memory.Store, queue string) {
	t.Helper()
	if _, err := store.Enqueue(t.Context(), []sqlstore.NewJob{{Queue: queue}}); err != nil {
		t.Fatal(err)
	}
}

func TestWatch(t *testing.T) {
	t.Run("works_in_a_bubble_and_never_spins", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := memory.New(memory.Options{Clock: func() int64 { return time.Now().Unix() }})
			ctx, cancel := context.WithCancel(t.Context())
			var woke []string
			end := make(chan error)
			go func() {
				end <- store.Watch(ctx, time.Second, func(queue string) { woke = append(woke, queue) })
			}()
			wants := func(want ...string) {
				t.Helper()
				synctest.Wait()
				if !slices.Equal(woke, want) {
					t.Errorf("woken for: got %q, want %q", woke, want)
				}
				woke = nil
			}
			wants("") // whatever came before the watch
			<-time.After(time.Hour)
			wants() // nothing happens, nothing is said
			enqueue(t, store, "mail")
			wants("mail")
			enqueue(t, store, "b")
			wants("b")
			if _, err := store.SweepExpired(t.Context(), "mail", "expired"); err != nil {
				t.Error(err)
			}
			if _, err := store.Stats(t.Context()); err != nil {
				t.Error(err)
			}
			wants()
			cancel()
			if err := <-end; !errors.Is(err, context.Canceled) {
				t.Errorf("Watch: got %v, want context.Canceled", err)
			}
			enqueue(t, store, "mail")
			wants()
		})
	})
	t.Run("a_store_from_outside_the_bubble_works_too", func(t *testing.T) {
		store := memory.New(memory.Options{Clock: storetest.NewClock().Now})
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			if err := store.Watch(ctx, time.Second, func(string) {}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Watch: got %v, want context.DeadlineExceeded", err)
			}
		})
	})
	t.Run("a_wake_that_blocks_holds_nobody_up_and_misses_nothing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := memory.New(memory.Options{Clock: storetest.NewClock().Now})
			ctx, cancel := context.WithCancel(t.Context())
			var mu sync.Mutex
			var woke []string
			gate := make(chan struct{})
			end := make(chan error)
			go func() {
				end <- store.Watch(ctx, time.Second, func(queue string) {
					<-gate
					mu.Lock()
					defer mu.Unlock()
					woke = append(woke, queue)
				})
			}()
			synctest.Wait()
			for range 1_000 {
				enqueue(t, store, "b")
				enqueue(t, store, "a")
			}
			close(gate)
			synctest.Wait()
			if want := []string{"", "a", "b"}; !slices.Equal(woke, want) {
				t.Errorf("woken for: got %q, want %q, each once", woke, want)
			}
			cancel()
			<-end
		})
	})
	t.Run("wake_may_use_the_store", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := memory.New(memory.Options{Clock: storetest.NewClock().Now})
			var claimed int
			end := make(chan error)
			go func() {
				end <- store.Watch(t.Context(), time.Second, func(queue string) {
					rows, err := store.ClaimBatch(t.Context(), sqlstore.Claim{Queue: queue, Limit: 10})
					if err != nil {
						t.Error(err)
					}
					claimed += len(rows)
				})
			}()
			synctest.Wait()
			_, err := store.Enqueue(t.Context(), []sqlstore.NewJob{
				{Queue: "mail", Stamps: sqlstore.Stamps{VisibilityTimeoutS: 30, MaxAttempts: 1}},
			})
			if err != nil {
				t.Error(err)
			}
			synctest.Wait()
			if claimed != 1 {
				t.Errorf("claimed in wake: got %d, want 1", claimed)
			}
			if err := store.Close(); err != nil {
				t.Error(err)
			}
			if err := <-end; !errors.Is(err, sqlstore.ErrClosed) {
				t.Errorf("Watch: got %v, want ErrClosed", err)
			}
		})
	})
}
