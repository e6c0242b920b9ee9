package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"time"

	moderncsqlite "modernc.org/sqlite"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/faultdriver"
)

// shared is a store whose driver fails, on which calls of every kind that shares a transaction wait together.
type shared struct {
	*testing.T
	*Store
	driver *faultdriver.Driver
	beside *sql.DB
	clock  int64
	round  int // names the queues

	waiting func() // is called when all wait in line; nil: nothing
}

// member is one call of a batch. happened asks the database whether it has; it is asked with the writer at rest.
type member struct {
	name     string
	do       func(ctx context.Context) error
	happened func() bool
	lane     lane
}

func newShared(t *testing.T) *shared {
	t.Helper()
	s := &shared{T: t, driver: faultdriver.New(&moderncsqlite.Driver{}), clock: 1_700_000_000}
	s.Store = openStore(t, Options{
		Synchronous: "NORMAL", BusyTimeout: 75 * time.Millisecond, Driver: s.driver, Clock: func() int64 { return s.clock },
	})
	s.beside = openPool(s.Path(), Options{}, callers, 1)
	t.Cleanup(func() { _ = s.beside.Close() })
	unattended(s.Store)
	return s
}

// unattended ends the checkpoints of a store. Their writes would be in line with those of the test, under its clock and
// among the calls of its driver.
func unattended(s *Store) {
	c := s.write.wal
	close(c.stop)
	c.left.Wait()
	c.stop = make(chan struct{}) // for the store to close
}

func (s *shared) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// value reads one number beside the store.
func (s *shared) value(query string, args ...any) (n int64) {
	s.Helper()
	s.must(s.beside.QueryRowContext(s.Context(), query, args...).Scan(&n))
	return n
}

// members makes jobs for one round and the calls on them, none of which touches what another does.
func (s *shared) members() []member {
	s.Helper()
	s.round++
	s.clock += 1000 // what earlier rounds have left is over
	queue := func(name string) string { return fmt.Sprint(name, s.round) }
	job := func(name string, attempts int64) sqlstore.NewJob {
		return sqlstore.NewJob{
			Queue: queue(name), Payload: make([]byte, 2*spillOver),
			Stamps: sqlstore.Stamps{VisibilityTimeoutS: 30, MaxAttempts: attempts},
		}
	}
	held := func(name string, attempts int64) sqlstore.Handle {
		s.Helper()
		_, err := s.Enqueue(s.Context(), []sqlstore.NewJob{job(name, attempts)})
		s.must(err)
		rows, err := s.ClaimBatch(s.Context(), sqlstore.Claim{Queue: queue(name), Claimant: "me", Limit: 1})
		s.must(err)
		if len(rows) != 1 {
			s.Fatalf("claimed %d jobs of %q, want 1", len(rows), name)
		}
		return sqlstore.Handle{ID: rows[0].ID, Fence: rows[0].Fence}
	}
	is := func(h sqlstore.Handle, table, condition string) func() bool {
		return func() bool {
			return s.value("SELECT count(*) FROM __alkstore_"+table+" WHERE id = ? AND "+condition, h.ID) == 1
		}
	}
	all := func(held []bool, err error) error {
		if err == nil && !held[0] {
			return errors.New("refused")
		}
		return err
	}
	beat, ack, again, last := held("beat", 5), held("ack", 5), held("again", 5), held("last", 1)
	doomed, back := held("fail", 5), held("release", 5)
	_, err := s.Enqueue(s.Context(), []sqlstore.NewJob{job("claim", 5)})
	s.must(err)
	s.clock += 5
	deadline := s.clock + 30
	retry := func(h sqlstore.Handle) func(context.Context) error {
		return func(ctx context.Context) error {
			verdicts, err := s.Retry(ctx, []sqlstore.Retrial{{Handle: h, DelayS: 1, Error: "again", DeadText: "dead"}})
			if err == nil && verdicts[0] == 0 {
				return errors.New("refused")
			}
			return err
		}
	}
	return []member{
		{"enqueue", func(ctx context.Context) error {
			ids, err := s.Enqueue(ctx, []sqlstore.NewJob{job("new", 5), job("new", 5)})
			if err == nil && len(ids) != 2 {
				return fmt.Errorf("got ids %v", ids)
			}
			return err
		}, func() bool {
			n := s.value("SELECT count(*) FROM __alkstore_live WHERE queue = ?", queue("new"))
			if n == 1 {
				s.Error("T6: half an enqueue happened")
			}
			return n == 2
		}, ordinary},
		{"claim", func(ctx context.Context) error {
			rows, err := s.ClaimBatch(ctx, sqlstore.Claim{Queue: queue("claim"), Claimant: "me", Limit: 3})
			if err == nil && len(rows) != 1 {
				return fmt.Errorf("claimed %d jobs", len(rows))
			}
			return err
		}, func() bool {
			return s.value("SELECT count(*) FROM __alkstore_live WHERE queue = ? AND state = 'processing'", queue("claim")) == 1
		}, ordinary},
		{"ack", func(ctx context.Context) error { return all(s.AckBatch(ctx, []sqlstore.Handle{ack})) },
			func() bool { return !is(ack, "live", "1")() }, ordinary},
		{"heartbeat", func(ctx context.Context) error {
			return all(s.Heartbeat(ctx, []sqlstore.Extension{{Handle: beat}}))
		}, is(beat, "live", fmt.Sprint("claim_expires_at = ", deadline)), urgent},
		{"retry", retry(again), is(again, "live", "state = 'pending'"), ordinary},
		{"retry of the last attempt", retry(last), is(last, "dead", "1"), ordinary},
		{"fail", func(ctx context.Context) error {
			return all(s.Fail(ctx, []sqlstore.Failing{{Handle: doomed, Error: "boom"}}))
		}, is(doomed, "dead", "1"), ordinary},
		{"release", func(ctx context.Context) error {
			return all(s.Release(ctx, []sqlstore.Releasing{{Handle: back}}))
		}, is(back, "live", "state = 'pending' AND attempts = 0"), ordinary},
	}
}

// together runs all members in one transaction, each with its own context, under a fault, and returns what each was told.
func (s *shared) together(members []member, contexts []context.Context, f faultdriver.Fault) (errs []error, injected string) {
	s.Helper()
	c := holdUp(s.T, s.Store)
	errs = make([]error, len(members))
	var all sync.WaitGroup
	for i, m := range members {
		before := c.waits()
		all.Go(func() { errs[i] = m.do(contexts[i]) })
		c.awaits(before + 1)
	}
	if s.waiting != nil {
		s.waiting()
		stay := 0
		for _, ctx := range contexts {
			if ctx.Err() == nil {
				stay++
			}
		}
		for c.waits() > stay {
			goruntime.Gosched()
		}
	}
	f.At++ // after the commit of the call that holds them up
	s.driver.Arm(f)
	close(c.release)
	all.Wait()
	c.first.Wait()
	return errs, s.driver.Disarm()
}

// settle fails the test if a transaction is open or something is in use, and makes good what has not happened.
func (s *shared) settle(members []member, wrong func(format string, args ...any)) {
	s.Helper()
	if open := s.driver.Settled(); open.Rows != 0 || open.Txs != 0 {
		wrong("left in use: %+v", open)
	}
	if _, err := s.beside.ExecContext(s.Context(), "BEGIN IMMEDIATE; ROLLBACK"); err != nil {
		wrong("the writer has a transaction open: %v", err)
	}
	for _, m := range members {
		if m.happened() {
			continue
		}
		if err := m.do(s.Context()); err != nil || !m.happened() {
			wrong("%s once more: %v", m.name, err)
		}
	}
	if problems, err := s.Check(s.Context()); err != nil || len(problems) > 0 {
		wrong("Check: %+v, %v", problems, err)
	}
}

func repeat[T any](v T, n int) []T {
	all := make([]T, n)
	for i := range all {
		all[i] = v
	}
	return all
}

// sharedFaults are the ways in which a call of the driver fails, as SQLite's codes.
var sharedFaults = []struct {
	name string
	faultdriver.Fault
}{
	{"refused", faultdriver.Fault{Err: faultdriver.Error{Number: 10}}},
	{"done_and_the_answer_lost", faultdriver.Fault{Err: faultdriver.Error{Number: 10}, After: true}},
	{"a_constraint", faultdriver.Fault{Err: faultdriver.Error{Number: 19}}},
	{"rolled_back_by_the_database", faultdriver.Fault{Err: faultdriver.Error{Number: 13}, Rollback: true}},
	{"a_constraint_that_rolls_back", faultdriver.Fault{Err: faultdriver.Error{Number: 19}, Rollback: true}},
	{"broken_connection", faultdriver.Fault{Err: driver.ErrBadConn, Broken: true}},
}

// TestSharedTransactionFails fails every call that a transaction of eight different calls makes, in every way: nobody is
// told of a success that was none, nothing happens in part, and all works afterwards. // T6, K39
func TestSharedTransactionFails(t *testing.T) {
	for i, kind := range sharedFaults {
		if i > 0 && Slowness > 1 {
			break
		}
		t.Run(kind.name, func(t *testing.T) {
			s := newShared(t)
			injected, failures, again := 0, 0, 0
			for n := 1; ; n++ {
				members := s.members()
				f := kind.Fault
				f.At = n
				errs, where := s.together(members, repeat(t.Context(), len(members)), f)
				if where == "" {
					break
				}
				injected++
				wrong := func(format string, args ...any) {
					t.Helper()
					t.Fatalf("at call %d, %s: "+format, append([]any{n, where}, args...)...)
				}
				lost := f.After && strings.HasSuffix(where, "COMMIT")
				failed := 0
				for i, m := range members {
					switch happened := m.happened(); {
					case errs[i] == nil && !happened:
						wrong("%s has not happened and answered with success", m.name)
					case errs[i] != nil && happened && !lost:
						wrong("%s has happened and answered %v", m.name, errs[i])
					}
					if errs[i] != nil {
						failed++
						if !errors.Is(errs[i], f.Err) && !f.Broken {
							wrong("%s: got %v, want what was injected", m.name, errs[i])
						}
					}
				}
				failures += failed
				if failed == 0 {
					again++
				}
				s.settle(members, wrong)
			}
			t.Logf("%d faults injected into a transaction of eight calls, %d calls failed, %d faults were made good", injected, failures, again)
			if injected < 20 {
				t.Errorf("%d faults were injected, want one for each of the statements", injected)
			}
		})
	}
}

// TestSharedTransactionCallersLeave ends the contexts of some callers while they wait in line, while another process holds
// the lock, and at every call of the driver that their common transaction makes. // K51
func TestSharedTransactionCallersLeave(t *testing.T) {
	for name, leaves := range map[string]func(m member) bool{
		"all":              func(member) bool { return true },
		"the_leader":       func(m member) bool { return m.lane == urgent },
		"one_of_the_crowd": func(m member) bool { return m.name == "ack" },
		"the_crowd":        func(m member) bool { return m.lane == ordinary },
	} {
		t.Run("K51_"+name+"_in_line", func(t *testing.T) {
			s := newShared(t)
			members := s.members()
			contexts, cut := s.contexts(members, leaves)
			s.waiting = cut
			errs, _ := s.together(members, contexts, faultdriver.Fault{})
			s.told(members, errs, func(m member) error {
				if leaves(m) {
					return context.Canceled
				}
				return nil
			})
		})
		t.Run("K51_"+name+"_while_the_database_is_locked", func(t *testing.T) {
			s := newShared(t)
			members := s.members()
			contexts, cut := s.contexts(members, leaves)
			var lock *sql.Tx
			errs, _ := s.together(members, contexts, faultdriver.Fault{At: 1, Do: func() {
				var err error
				lock, err = s.beside.BeginTx(t.Context(), nil)
				if err != nil {
					t.Error(err)
				}
				cut()
			}})
			s.must(lock.Rollback())
			s.told(members, errs, func(m member) error {
				if leaves(m) {
					return context.Canceled
				}
				return sqlstore.ErrBusy
			})
		})
		t.Run("K51_"+name+"_once_it_has_begun", func(t *testing.T) {
			s := newShared(t)
			calls := 0
			for n, more := 2, true; more; n++ { // the first begins
				members := s.members()
				contexts, cut := s.contexts(members, leaves)
				errs, where := s.together(members, contexts, faultdriver.Fault{At: n, Do: cut})
				s.told(members, errs, func(member) error { return nil })
				calls++
				more = where != ""
			}
			t.Logf("at %d calls", calls)
			if calls < 20 {
				t.Errorf("contexts ended at %d calls, want one for each of the statements", calls)
			}
		})
	}
}

// contexts are those of the callers, and what ends the contexts of those who leave.
func (s *shared) contexts(members []member, leaves func(m member) bool) (contexts []context.Context, cut func()) {
	leaving, cut := context.WithCancel(s.Context())
	s.Cleanup(cut)
	for _, m := range members {
		if leaves(m) {
			contexts = append(contexts, leaving)
		} else {
			contexts = append(contexts, s.Context())
		}
	}
	return contexts, cut
}

// told fails the test unless each was told that, and what was told is so.
func (s *shared) told(members []member, errs []error, want func(m member) error) {
	s.Helper()
	for i, m := range members {
		if w, happened := want(m), m.happened(); !errors.Is(errs[i], w) || happened != (w == nil) {
			s.Fatalf("%s: got %v, want %v; it has happened: %v", m.name, errs[i], w, happened)
		}
	}
	s.settle(members, s.Fatalf)
}
