package sqlite

import (
	"database/sql"
	"encoding/binary"
	"errors"
	"io"
	"os"
	goruntime "runtime"
	"testing"

	moderncsqlite "modernc.org/sqlite"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/faultdriver"
)

func TestCheckpointer(t *testing.T) {
	size := func(t *testing.T, s *Store) int64 {
		t.Helper()
		info, err := os.Stat(s.Path() + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	restarts := func(t *testing.T, s *Store) uint32 { // since the file was made, as its header says
		t.Helper()
		wal, err := os.Open(s.Path() + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = wal.Close() }()
		var header [16]byte
		if _, err := io.ReadFull(wal, header[:]); err != nil {
			t.Fatal(err)
		}
		return binary.BigEndian.Uint32(header[12:])
	}
	t.Run("K59_a_full_disk_gets_back_what_the_WAL_has_taken", func(t *testing.T) {
		driver := faultdriver.New(&moderncsqlite.Driver{})
		s := openStore(t, Options{Driver: driver})
		if _, err := s.Stats(t.Context()); err != nil { // with a reader, the WAL outlives the writer's connection
			t.Fatal(err)
		}
		if _, err := s.Enqueue(t.Context(), oneJob); err != nil || size(t, s) == 0 {
			t.Fatalf("enqueue: %v, with %d bytes in the WAL", err, size(t, s))
		}
		driver.Arm(faultdriver.Fault{At: 1, Err: faultdriver.Error{Number: 13}, Rollback: true})
		if _, err := s.Enqueue(t.Context(), oneJob); !errors.Is(err, sqlstore.ErrFull) {
			t.Fatalf("enqueue on a full disk: got %v, want ErrFull", err)
		}
		for size(t, s) > 0 { // for ever, if nobody did anything
			goruntime.Gosched()
		}
	})
	t.Run("no_call_waits_for_the_header_of_a_WAL_that_starts_over", func(t *testing.T) {
		s := openStore(t, Options{})
		large := sqlstore.NewJob{Queue: "q", Payload: make([]byte, long*pageBytes), Stamps: oneJob[0].Stamps}
		if _, err := s.Enqueue(t.Context(), oneJob); err != nil { // now there is a WAL
			t.Fatal(err)
		}
		before := restarts(t, s)
		if _, err := s.Enqueue(t.Context(), []sqlstore.NewJob{large}); err != nil {
			t.Fatal(err)
		}
		for restarts(t, s) == before { // for ever, if nobody did it without being asked
			goruntime.Gosched()
		}
		var locks int
		if err := s.readers.QueryRowContext(t.Context(), "SELECT count(*) FROM __alkstore_locks").Scan(&locks); err != nil || locks > 0 {
			t.Errorf("%d locks are left behind, %v", locks, err)
		}
	})
	t.Run("K53_the_WAL_starts_over_while_writes_go_on_without_a_break", func(t *testing.T) {
		s := openStore(t, Options{Synchronous: "NORMAL"})
		job := sqlstore.NewJob{Queue: "q", Payload: make([]byte, 1000), Stamps: oneJob[0].Stamps}
		jobs := make([]sqlstore.NewJob, 500)
		for i := range jobs {
			jobs[i] = job
		}
		enqueue := func() {
			t.Helper()
			if _, err := s.Enqueue(t.Context(), jobs); err != nil {
				t.Fatal(err)
			}
		}
		enqueue() // now there is a WAL
		for before, n := restarts(t, s), 0; restarts(t, s) < before+5; n++ {
			if enqueue(); n == 1500 { // some 900 MB
				t.Fatalf("the WAL has %d bytes, and has started over %d times", size(t, s), restarts(t, s)-before)
			}
		}
	})
}

// TestCheckpointsBeforeTheWALStartsOver: a backlog is copied beside the writers, and only once the WAL is long it starts
// over, for which they pause.
func TestCheckpointsBeforeTheWALStartsOver(t *testing.T) {
	s := openStore(t, Options{Synchronous: "NORMAL"})
	unattended(s)
	c := s.write.wal
	length := func() (pages, moved int64) {
		t.Helper()
		pages, moved, err := c.checkpoint("checkpoint_noop")
		if err != nil {
			t.Fatal(err)
		}
		return pages, moved
	}
	fill := func(to int64) {
		t.Helper()
		job := oneJob[0]
		job.Payload = make([]byte, 4*pageBytes)
		for pages, _ := length(); pages < to; pages, _ = length() {
			if _, err := s.Enqueue(t.Context(), []sqlstore.NewJob{job}); err != nil {
				t.Fatal(err)
			}
		}
	}
	look := func(at int64) (before, after, moved int64) {
		t.Helper()
		fill(at)
		before, _ = length()
		c.look()
		after, moved = length()
		return before, after, moved
	}
	if _, after, moved := look(backlog / 2); moved > 0 {
		t.Errorf("of half a backlog %d of %d pages were copied, want none", moved, after)
	}
	fill(backlog * 5 / 4)
	reader, err := s.readers.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true}) // else the next write would start over
	if err != nil {
		t.Fatal(err)
	}
	var jobs int
	if err := reader.QueryRowContext(t.Context(), "SELECT count(*) FROM __alkstore_live").Scan(&jobs); err != nil {
		t.Fatal(err)
	}
	if before, after, moved := look(0); after != before || moved != after {
		t.Errorf("of a backlog of %d pages %d of %d are copied, want all, in a WAL that goes on", before, moved, after)
	}
	fill(long) // less than a backlog since
	if err := reader.Rollback(); err != nil {
		t.Fatal(err)
	}
	if before, after, _ := look(0); before < long || after > 2 {
		t.Errorf("the WAL had %d pages and has %d, want one that was long and has started over", before, after)
	}
}
