package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/sqlite"
	"github.com/alkstore/alkworker/internal/sqlstore/storetest"
)

// randomBytes are incompressible and hold every byte.
func randomBytes(n int) []byte {
	b := make([]byte, n)
	random := rand.NewChaCha8([32]byte{7})
	_, _ = random.Read(b) // never fails
	return b
}

func TestPayloads(t *testing.T) {
	const border = 1024 // bytes up to which a payload is in the row
	sizes := []int{0, 1, border - 1, border, border + 1, 4096, 100_000}
	t.Run("E7_any_size_comes_back_exactly_wherever_it_is_kept", func(t *testing.T) {
		path := newFile(t)
		clock := storetest.NewClock()
		s, beside := open(t, path, sqlite.Options{Clock: clock.Now, Synchronous: "NORMAL"}), pool(t, path)
		for _, n := range sizes {
			payload := randomBytes(n)
			same := func(where string, r sqlstore.Row) {
				t.Helper()
				if !bytes.Equal(r.Payload, payload) || r.Payload == nil || r.PayloadSize != int64(n) {
					t.Errorf("%d bytes, %s: got %d bytes, size %d", n, where, len(r.Payload), r.PayloadSize)
				}
			}
			j := newJob(fmt.Sprint(n))
			j.Payload = payload
			id := enqueue(t, s, j)[0]
			outside := value[int64](t, beside, "SELECT count(*) FROM __alkstore_payloads WHERE id = ?", id)
			if (outside == 1) != (n > border) {
				t.Errorf("%d bytes: %d rows outside, want %v", n, outside, n > border)
			}
			same("pending", get(t, s, id))
			rows := claim(t, s, j.Queue, 1)
			same("claimed", rows[0])
			must(s.Retry(t.Context(), []sqlstore.Retrial{{Handle: handle(rows[0]), Error: "again"}}))(t)
			h := hold(t, s, j.Queue)
			must(s.Fail(t.Context(), []sqlstore.Failing{{Handle: h, Error: "boom"}}))(t)
			same("dead", get(t, s, id))
			must(s.Requeue(t.Context(), []int64{id}))(t)
			same("requeued", claim(t, s, j.Queue, 1)[0])
			for _, limit := range []int{0, 10, border, 1 << 20} {
				page := must(s.ListJobs(t.Context(), sqlstore.Filter{Queue: j.Queue, Limit: 1, PayloadLimit: int64(limit)}))(t)
				if r := page[0]; !bytes.Equal(r.Payload, payload[:min(n, limit)]) || r.PayloadSize != int64(n) {
					t.Errorf("%d bytes, listed with %d: got %d of %d", n, limit, len(r.Payload), r.PayloadSize)
				}
			}
		}
		healthy(t, s)
	})
	for what, end := range map[string]func(t *testing.T, s *sqlite.Store, clock storetest.Clock, h sqlstore.Handle) error{
		"ack": func(t *testing.T, s *sqlite.Store, _ storetest.Clock, h sqlstore.Handle) error {
			return second(s.AckBatch(t.Context(), []sqlstore.Handle{h}))
		},
		"cancel": func(t *testing.T, s *sqlite.Store, _ storetest.Clock, h sqlstore.Handle) error {
			return second(s.Cancel(t.Context(), []int64{h.ID}))
		},
		"purge": func(t *testing.T, s *sqlite.Store, _ storetest.Clock, h sqlstore.Handle) error {
			must(s.Fail(t.Context(), []sqlstore.Failing{{Handle: h}}))(t)
			return second(s.Purge(t.Context(), []int64{h.ID}))
		},
		"purge_matching": func(t *testing.T, s *sqlite.Store, _ storetest.Clock, h sqlstore.Handle) error {
			must(s.Fail(t.Context(), []sqlstore.Failing{{Handle: h}}))(t)
			return second(s.PurgeMatching(t.Context(), sqlstore.DeadFilter{}, 9))
		},
		"purge_matching_a_queue": func(t *testing.T, s *sqlite.Store, _ storetest.Clock, h sqlstore.Handle) error {
			must(s.Fail(t.Context(), []sqlstore.Failing{{Handle: h}}))(t)
			return second(s.PurgeMatching(t.Context(), sqlstore.DeadFilter{Queue: "q"}, 9))
		},
		"retention": func(t *testing.T, s *sqlite.Store, clock storetest.Clock, h sqlstore.Handle) error {
			must(s.Fail(t.Context(), []sqlstore.Failing{{Handle: h}}))(t)
			clock.Set(clock.Now() + 1000)
			return second(s.SweepExpired(t.Context(), "q", "expired"))
		},
	} {
		t.Run("D5_nothing_is_left_of_a_job_after_"+what, func(t *testing.T) {
			path := newFile(t)
			clock := storetest.NewClock()
			s, beside := open(t, path, sqlite.Options{Clock: clock.Now, Synchronous: "NORMAL"}), pool(t, path)
			j := newJob("q")
			j.Payload, j.Stamps.DeadLetterRetentionS = randomBytes(5000), new(int64(10))
			enqueue(t, s, j)
			must(s.Retry(t.Context(), []sqlstore.Retrial{{Handle: hold(t, s, "q"), Error: "again"}}))(t) // has a history
			if err := end(t, s, clock, hold(t, s, "q")); err != nil {
				t.Fatal(err)
			}
			for _, table := range []string{"live", "dead", "payloads", "failures"} {
				if n := value[int64](t, beside, "SELECT count(*) FROM __alkstore_"+table); n != 0 {
					t.Errorf("%d rows are left in %s", n, table)
				}
			}
		})
	}
	t.Run("D3_a_job_that_ends_while_it_is_read_is_there_as_a_whole_or_not_at_all", func(t *testing.T) {
		s := open(t, newFile(t), quick)
		j := newJob("q")
		j.Payload = randomBytes(5000)
		ctx, stop := context.WithCancel(t.Context())
		var readers sync.WaitGroup
		var last syncedID
		for range 2 {
			readers.Go(func() {
				for ctx.Err() == nil {
					r, err := s.GetJob(t.Context(), last.get())
					page, lerr := s.ListJobs(t.Context(), sqlstore.Filter{Limit: 2, PayloadLimit: 10_000})
					if err != nil || lerr != nil {
						t.Errorf("get: %v, list: %v", err, lerr)
						return
					}
					if r != nil {
						page = append(page, *r)
					}
					for _, r := range page {
						if !bytes.Equal(r.Payload, j.Payload) {
							t.Errorf("job %d, %s: got a payload of %d bytes, want 5000", r.ID, r.State, len(r.Payload))
							return
						}
					}
				}
			})
		}
		for range 500 / sqlite.Slowness {
			last.set(enqueue(t, s, j)[0])
			h := hold(t, s, "q")
			must(s.Fail(t.Context(), []sqlstore.Failing{{Handle: h}}))(t)
			must(s.Purge(t.Context(), []int64{h.ID}))(t)
		}
		stop()
		readers.Wait()
	})
	t.Run("K70_what_happens_to_a_large_job_does_not_write_its_payload_again", func(t *testing.T) {
		path := newFile(t)
		clock := storetest.NewClock()
		s, beside := open(t, path, sqlite.Options{Clock: clock.Now, Synchronous: "NORMAL"}), pool(t, path)
		j := newJob("q")
		j.Payload = randomBytes(1 << 20)
		var h sqlstore.Handle
		for _, step := range []struct {
			name string
			do   func() error
		}{
			{"enqueue", func() error { return second(s.Enqueue(t.Context(), jobs(1, j))) }},
			{"claim", func() error { h = hold(t, s, "q"); return nil }},
			{"heartbeat", func() error { return second(s.Heartbeat(t.Context(), []sqlstore.Extension{{Handle: h}})) }},
			{"retry", func() error { return second(s.Retry(t.Context(), []sqlstore.Retrial{{Handle: h, Error: "again"}})) }},
			{"claim again", func() error { h = hold(t, s, "q"); return nil }},
			{"reclaim", func() error { clock.Set(clock.Now() + 31); h = hold(t, s, "q"); return nil }},
			{"release", func() error { return second(s.Release(t.Context(), []sqlstore.Releasing{{Handle: h}})) }},
			{"claim a third time", func() error { h = hold(t, s, "q"); return nil }},
			{"death", func() error { return second(s.Fail(t.Context(), []sqlstore.Failing{{Handle: h, Error: "boom"}})) }},
			{"requeue", func() error { return second(s.Requeue(t.Context(), []int64{h.ID})) }},
		} {
			emptyWAL(t, beside)
			if err := step.do(); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			info := must(os.Stat(path + "-wal"))(t) // a look at the folder: opens nothing
			switch {
			case step.name == "enqueue":
				if info.Size() < 1<<20 {
					t.Errorf("enqueue wrote %d bytes: the test shows nothing", info.Size())
				}
			case info.Size() > 100_000:
				t.Errorf("%s wrote %d bytes, want none of the payload", step.name, info.Size())
			case info.Size() == 0:
				t.Errorf("%s wrote nothing", step.name)
			}
		}
	})
}

// syncedID is an id that goroutines share.
type syncedID struct {
	mu sync.Mutex
	id int64
}

func (s *syncedID) set(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id = id
}

func (s *syncedID) get() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

func emptyWAL(t *testing.T, db *sql.DB) {
	t.Helper()
	var busy, pages, moved int64
	row := db.QueryRowContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)")
	if err := row.Scan(&busy, &pages, &moved); err != nil || busy != 0 {
		t.Fatalf("the WAL cannot be emptied: %v, busy %d", err, busy)
	}
}
