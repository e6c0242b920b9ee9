package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	goruntime "runtime"
	"sync"
	"testing"
	"time"

	moderncsqlite "modernc.org/sqlite"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/faultdriver"
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

// besides locks the file of a store from outside.
func besides(t *testing.T, s *Store) (unlock func()) {
	t.Helper()
	beside := openPool(s.Path(), Options{}, callers, 1)
	t.Cleanup(func() { _ = beside.Close() })
	lock, err := beside.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	unlock = func() { _ = lock.Rollback() }
	t.Cleanup(unlock)
	return unlock
}

// Whoever gives up on a lock takes along those who have waited as long, but no turn: whoever waits for one would take it
// for granted, and write beside the next leader.
func TestBusyLeavesTurns(t *testing.T) {
	s := openStore(t, Options{Synchronous: "NORMAL", BusyTimeout: 50 * time.Millisecond})
	unlock := besides(t, s)
	q := &s.write.line
	q.led = true // by this test
	c := &crowd{Store: s, t: t}
	nothing := func(*tx) error { return nil }
	var all sync.WaitGroup
	c.joins(&all, ordinary, 1, nothing, func(err error) {
		if !errors.Is(kind(err), sqlstore.ErrBusy) {
			t.Errorf("the first: got %v, want ErrBusy", err)
		}
	})
	all.Go(func() {
		err := s.write.turn(func() error {
			defer unlock()
			if n := c.waits(); n != 1 {
				t.Errorf("%d calls wait while it is somebody's turn, want the other one", n)
			}
			return nil
		})
		c.wantNil(err)
	})
	for q.last() < 2 {
		goruntime.Gosched()
	}
	c.joins(&all, ordinary, alone+1, nothing, c.wantNil) // too large to be taken along as well
	q.handOver()
	all.Wait()
}

// Calls that are tried again apart, since one of them has failed, have the patience of one in all.
func TestBusyApart(t *testing.T) {
	const calls = 10
	driver := faultdriver.New(&moderncsqlite.Driver{})
	s := openStore(t, Options{Synchronous: "NORMAL", BusyTimeout: 1, Driver: driver})
	beside := openPool(s.Path(), Options{BusyTimeout: 1}, callers, 1)
	defer func() { _ = beside.Close() }()
	c := holdUp(t, s)
	refused := false // the leader's, as all that follows
	var all sync.WaitGroup
	for i := range calls {
		c.joins(&all, ordinary, 1, func(*tx) error {
			if refused = i == calls-1; refused {
				return errors.New("refused")
			}
			return nil
		}, func(err error) {
			if !errors.Is(kind(err), sqlstore.ErrBusy) {
				t.Errorf("call %d: got %v, want ErrBusy", i, err)
			}
		})
	}
	var lock *sql.Tx
	after := 0
	driver.Arm(faultdriver.Fault{At: 1, Lasting: true, Do: func() {
		switch {
		case lock != nil:
			after++
		case refused: // as soon as the transaction of all is over
			lock, _ = beside.BeginTx(context.Background(), nil)
		}
	}})
	close(c.release)
	c.first.Wait()
	all.Wait()
	driver.Disarm()
	if lock == nil || after > 1 {
		t.Errorf("the file is locked: %v; %d calls were tried all the same", lock != nil, after)
	}
	_ = lock.Rollback()
}

// What is not worth a wait does not make others wait, whom it holds back.
func TestWaives(t *testing.T) {
	s := openStore(t, Options{Synchronous: "NORMAL", BusyTimeout: time.Hour})
	if _, err := s.Enqueue(t.Context(), oneJob); err != nil {
		t.Fatal(err)
	}
	besides(t, s)
	if err := s.write.wal.restart(); !errors.Is(kind(err), sqlstore.ErrBusy) {
		t.Errorf("got %v, want ErrBusy at once", err)
	}
}
