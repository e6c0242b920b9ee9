//go:build !race

package sqlite_test

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/sqlite"
)

// traffic enqueues and acks jobs that come to so many bytes, and returns the largest WAL that was seen meanwhile.
func traffic(t *testing.T, s *sqlite.Store, bytes int) (largest int64) {
	t.Helper()
	j := newJob("q")
	j.Payload = randomBytes(1 << 20)
	for range bytes >> 20 {
		enqueue(t, s, j)
		must(s.AckBatch(t.Context(), []sqlstore.Handle{hold(t, s, "q")}))(t)
		largest = max(largest, walSize(t, s))
	}
	return largest
}

func walSize(t *testing.T, s *sqlite.Store) int64 {
	t.Helper()
	return must(os.Stat(s.Path() + "-wal"))(t).Size() // a look at the folder: opens nothing
}

// Nothing can be taken out of the WAL that a reader may still ask for. // K53
func TestReadersHoldTheWAL(t *testing.T) {
	const limit = 64 << 20 // what is left of a WAL that has grown
	t.Run("K53_a_transaction_left_open_in_a_shell", func(t *testing.T) {
		path := newFile(t)
		s := open(t, path, quick)
		enqueue(t, s, newJob("other"))
		shell := must(pool(t, path).Conn(t.Context()))(t)
		defer shell.Close()
		if _, err := shell.ExecContext(t.Context(), "BEGIN"); err != nil {
			t.Fatal(err)
		}
		count := func() (n int) {
			t.Helper()
			if err := shell.QueryRowContext(t.Context(), "SELECT count(*) FROM __alkstore_live").Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		before := count()
		if largest := traffic(t, s, 80<<20); largest < limit {
			t.Errorf("the WAL grew to %d bytes: the test shows nothing", largest)
		}
		enqueue(t, s, newJob("other"))
		if got := count(); got != before {
			t.Errorf("the reader sees %d jobs and then %d in one transaction", before, got)
		}
		if _, err := shell.ExecContext(t.Context(), "COMMIT"); err != nil {
			t.Fatal(err)
		}
		traffic(t, s, 10<<20) // a checkpoint comes every few megabytes, and the next write cuts the file
		if size := walSize(t, s); size > limit {
			t.Errorf("the WAL has %d bytes after the reader has ended, want %d at most", size, limit)
		}
		if largest := traffic(t, s, 80<<20); largest > limit {
			t.Errorf("the WAL grew to %d bytes without a reader", largest)
		}
		healthy(t, s)
	})
	t.Run("K53_dashboards_that_refresh_without_a_pause", func(t *testing.T) {
		s := open(t, newFile(t), quick)
		enqueue(t, s, jobs(500, newJob("other"))...)
		ctx, stop := context.WithCancel(t.Context())
		var readers sync.WaitGroup
		for range 4 {
			readers.Go(func() {
				for ctx.Err() == nil {
					must(s.Stats(t.Context()))(t)
					must(s.ListJobs(t.Context(), sqlstore.Filter{Limit: 200, PayloadLimit: 100}))(t)
				}
			})
		}
		largest := traffic(t, s, 200<<20)
		stop()
		readers.Wait()
		t.Logf("the largest WAL had %d bytes", largest)
		if largest < limit/2 { // the readers may leave a gap by chance
			t.Errorf("the WAL grew to %d bytes: the test shows nothing", largest)
		}
		if largest > 2*limit {
			t.Errorf("the WAL grew to %d bytes while pages were read, want %d at most", largest, 2*limit)
		}
		healthy(t, s)
	})
}
