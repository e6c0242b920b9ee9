package sqlite

import (
	goruntime "runtime"
	"sync"
	"testing"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// TestReadersPrepare has readers wait for all connections while somebody prepares a statement, which takes a connection
// too. With the one in the hands of those who wait for the other, no read would ever end. // T5
func TestReadersPrepare(t *testing.T) {
	s := openStore(t, Options{Synchronous: "NORMAL"})
	ids, err := s.Enqueue(t.Context(), oneJob)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.GetJob(t.Context(), ids[0]); err != nil { // prepares what the readers below need
		t.Fatal(err)
	}
	connections := s.readers.Stats().MaxOpenConnections
	for range 20 { // who of them comes first is chance
		if err := s.read.close(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.GetJob(t.Context(), ids[0]); err != nil {
			t.Fatal(err)
		}
		var held []interface{ Close() error }
		for range connections {
			c, err := s.readers.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, c)
		}
		waited := s.readers.Stats().WaitCount
		awaits := func(n int) {
			for s.readers.Stats().WaitCount < waited+int64(n) {
				goruntime.Gosched()
			}
		}
		var all sync.WaitGroup
		for range connections {
			all.Go(func() {
				if job, err := s.GetJob(t.Context(), ids[0]); err != nil || job == nil {
					t.Errorf("get: %v, %v", job, err)
				}
			})
		}
		awaits(connections)
		all.Go(func() {
			if _, err := s.Stats(t.Context()); err != nil {
				t.Errorf("stats: %v", err)
			}
		})
		awaits(connections + 1)
		for _, c := range held {
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		}
		all.Wait()
	}
}

// TestTogether bounds what one statement inserts: SQLite takes no value of more than a billion bytes. // E6
func TestTogether(t *testing.T) {
	payload := make([]byte, spillOver)
	jobs := make([]sqlstore.NewJob, 2*statementBytes/spillOver)
	for i := range jobs {
		jobs[i] = sqlstore.NewJob{Queue: "q", Payload: payload, Stamps: sqlstore.Stamps{MaxAttempts: 1}}
	}
	_, n, err := new(tx).together(jobs)
	if err != nil || n*spillOver != statementBytes {
		t.Errorf("%d jobs of %d bytes go into one statement, %v; want %d bytes", n, spillOver, err, statementBytes)
	}
}
