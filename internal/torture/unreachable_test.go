package torture

import (
	"database/sql/driver"
	"os"
	goruntime "runtime"
	"testing"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/faultdriver"
)

// held is what a process has in use.
type held struct {
	goroutines  int
	descriptors int
	heap        uint64 // bytes
	open        faultdriver.Open
}

func holding(t *testing.T, d *faultdriver.Driver) held {
	t.Helper()
	goruntime.GC()
	goruntime.GC() // what finalizers let go
	var memory goruntime.MemStats
	goruntime.ReadMemStats(&memory)
	h := held{goroutines: goruntime.NumGoroutine(), heap: memory.HeapAlloc, open: d.InUse()}
	if files, err := os.ReadDir("/dev/fd"); err == nil { // where there is no such folder, nobody counts
		h.descriptors = len(files)
	}
	return h
}

// TestUnreachable has every operation fail thousands of times, in each way in which a database can be away: it costs
// neither goroutines, nor descriptors, nor memory, and all works at once when it is back. Ten minutes of it are two thousand
// tries of a worker. It is not parallel: what it counts belongs to the process. // K38
func TestUnreachable(t *testing.T) {
	away := map[string]faultdriver.Fault{
		"every_call_fails":       {Err: faultdriver.Error{Number: 10}},
		"every_statement_fails":  {Err: faultdriver.Error{Number: 10}, Connects: true},
		"connections_break":      {Err: driver.ErrBadConn, Broken: true, Connects: true},
		"answers_are_lost":       {Err: faultdriver.Error{Number: 10}, After: true},
		"nothing_can_be_written": {Err: faultdriver.Error{Number: 13}, Rollback: true, Connects: true},
	}
	for _, s := range stores {
		if !s.wraps {
			continue
		}
		for name, fault := range away {
			t.Run("K38_"+s.name+"_"+name, func(t *testing.T) {
				var d *faultdriver.Driver
				db, _ := s.create(t, func(under driver.Driver) driver.Driver {
					d = faultdriver.New(under)
					return d
				})
				db.spare = d.Spare
				f := faulty{T: t, database: db, driver: d, store: db.handle(t)}
				var err error
				if f.scene, err = paint(t.Context(), f.store, f.clock); err != nil {
					t.Fatal(err)
				}
				f.do(f.keep)
				ops := operations(t, db)
				fault.At, fault.Lasting = 1, true
				failed := 0
				outage := func(times int) held {
					f.driver.Arm(fault)
					for range times {
						for _, op := range ops {
							if op.name == "Backup" { // has a folder for each call
								continue
							}
							switch _, err := f.call(op); {
							case err != nil && !sqlstore.Transient(err):
								t.Fatalf("%s: got %v, want what may pass", op.name, err)
							case err != nil:
								failed++
							}
						}
					}
					f.driver.Disarm()
					return holding(t, d)
				}
				times := 100
				if !thorough {
					times = 10
				}
				before := outage(times / 10) // what is made at the first use is not a leak
				after := outage(times)
				if failed < len(ops)*times/2 {
					t.Errorf("%d calls failed: the test shows nothing", failed)
				}
				if after.goroutines > before.goroutines || after.descriptors > before.descriptors+2 ||
					after.heap > before.heap+1<<20 || after.open.Rows > 0 || after.open.Txs > 0 || after.open.Conns > 10 {
					t.Errorf("in use before %+v and after %d failed calls %+v", before, failed, after)
				}
				f.do(f.back)
				for _, op := range ops {
					if _, err := f.call(op); err != nil {
						t.Errorf("%s afterwards: %v", op.name, err)
					}
				}
				f.settled(t.Fatalf)
				f.alive()
				t.Logf("%d failed calls; in use before %+v, after %+v", failed, before, after)
			})
		}
	}
}
