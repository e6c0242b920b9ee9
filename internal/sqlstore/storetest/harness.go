// Package storetest is the conformance suite that every [sqlstore.Store] passes.
//
// A store's own test hands [Run] a function that opens an empty store with a clock the suite can move:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) storetest.Harness {
//			clock := storetest.NewClock()
//			store := memory.New(memory.Options{Clock: clock.Now})
//			t.Cleanup(func() { store.Close() })
//			return storetest.Harness{Store: store, Clock: clock}
//		})
//	}
//
// What a store can do beyond the interface, such as a second handle on one database or a caller's transaction, is an
// optional field of [Harness]; the tests that need it are not run where it is nil.
//
// Every test ends with the accounts of rule D5: each job that went in and was not acked, cancelled, purged or dropped
// must be in exactly one place, and [sqlstore.Store.Check] must find nothing wrong.
package storetest

import (
	"slices"
	"sync/atomic"
	"testing"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// Injected is the text of the error that a store reports while [Harness.FailDeath] is in force.
const Injected = "storetest: injected fault"

// DeathStep is one half of a move to the dead letters.
type DeathStep int

// The two halves, either of which can be made to fail.
const (
	InsertDead DeathStep = iota // writing the row among the dead letters
	DeleteLive                  // removing it from the live jobs
)

// String names the step in test names.
func (s DeathStep) String() string {
	if s == DeleteLive {
		return "delete_live"
	}
	return "insert_dead"
}

// Harness is one empty store and what the suite may do to it. Tests run in parallel, so no two harnesses share
// anything. Several handles write at once and no call may fail for it: a store that waits for locks has to be opened
// with a timeout that a busy machine does not reach, such as a minute. Whatever a harness opens it closes through
// t.Cleanup; a store that the suite has closed already may be closed again.
type Harness struct {
	Store sqlstore.Store

	// Clock is the clock of Store and of every other handle on its database. Only the suite moves it.
	Clock Clock

	// Second opens another handle on the same database, independent of Store: either may be closed while the other
	// is in use. Nil if the database lives and dies with its one handle.
	Second func(t *testing.T) sqlstore.Store

	// Begin starts a transaction of the caller on the same database. Nil if the store takes none.
	Begin func(t *testing.T) Tx

	// FailDeath makes one half of each move to the dead letters fail with an error that contains [Injected], in all
	// handles, until the returned function is called. The other effects of the statement stay what they are: it is
	// the store that has to undo them. Cancel, ack and purge are not the suite's concern while it is in force.
	// Nil if the store cannot fail there.
	FailDeath func(t *testing.T, step DeathStep) (restore func())

	// Edit overwrites one column of a live row behind the store's back, as a person with a database shell would. The
	// column is one of those that rule T4 or E2 names, the value an int64, a string, or nil for NULL. Nil if that is
	// impossible.
	Edit func(t *testing.T, id int64, column string, value any)
}

// Tx is a transaction of the caller.
type Tx struct {
	Tx       sqlstore.Tx // what the store is given
	Commit   func() error
	Rollback func() error // of no effect after Commit
}

// Clock is a clock that stands still until it is set, in whole Unix seconds. Safe for concurrent use.
type Clock interface {
	Now() int64
	Set(unix int64)
}

// ManualClock is the usual [Clock]: its Now is what a store takes as its source of time.
type ManualClock struct{ now atomic.Int64 }

// NewClock returns a clock that shows 14 November 2023, 22:13:20 UTC.
func NewClock() *ManualClock {
	c := new(ManualClock)
	c.Set(1_700_000_000)
	return c
}

// Now reads the clock.
func (c *ManualClock) Now() int64 { return c.now.Load() }

// Set moves the clock, forwards or backwards.
func (c *ManualClock) Set(unix int64) { c.now.Store(unix) }

// Run runs the suite, or the named groups of it, each test over a store of its own. open is called once more than there are
// tests, to see what the store can do.
func Run(t *testing.T, open func(t *testing.T) Harness, only ...string) {
	t.Helper()
	for _, name := range only {
		if !slices.ContainsFunc(groups(), func(g group) bool { return g.name == name }) {
			t.Fatalf("the suite has no group %q", name)
		}
	}
	var able Harness
	t.Run("Open", func(t *testing.T) { able = open(t) })
	if t.Failed() {
		return
	}
	for _, g := range groups() {
		if len(only) > 0 && !slices.Contains(only, g.name) {
			continue
		}
		t.Run(g.name, func(t *testing.T) {
			for _, r := range g.rules {
				if r.needs != nil && !r.needs(able) {
					continue
				}
				t.Run(r.name, func(t *testing.T) {
					t.Parallel()
					r.test(newEnv(t, open(t)))
				})
			}
		})
	}
}

// group is the rules of one letter or subject.
type group struct {
	name  string
	rules []rule
}

// rule is one test, named after the rule that it pins.
type rule struct {
	name  string
	test  func(e *env)
	needs func(h Harness) bool // nil: nothing but the store itself
}

func groups() []group {
	return []group{
		{"Time", timeRules()},
		{"Enqueue", enqueueRules()},
		{"Payload", payloadRules()},
		{"Claim", claimRules()},
		{"Lapse", lapseRules()},
		{"Suspect", suspectRules()},
		{"Ready", readyRules()},
		{"Idle", idleRules()},
		{"Hold", holdRules()},
		{"Handle", handleRules()},
		{"History", historyRules()},
		{"Cancel", cancelRules()},
		{"Dead", deadRules()},
		{"Sweep", sweepRules()},
		{"Requeue", requeueRules()},
		{"Fault", faultRules()},
		{"Read", readRules()},
		{"Schedule", scheduleRules()},
		{"Tick", tickRules()},
		{"Fleet", fleetRules()},
		{"Watch", watchRules()},
		{"Check", checkRules()},
		{"Race", raceRules()},
		{"Traffic", trafficRules()},
		{"Close", closeRules()},
	}
}

func hasSecond(h Harness) bool { return h.Second != nil }

func hasTx(h Harness) bool { return h.Begin != nil }

func hasFault(h Harness) bool { return h.FailDeath != nil }

func hasEdit(h Harness) bool { return h.Edit != nil }
