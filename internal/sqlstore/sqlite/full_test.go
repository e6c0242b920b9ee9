package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	driver "modernc.org/sqlite"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// TestFull lets the file reach a size that SQLite itself enforces, which fails as a full disk does, at whatever page of
// a transaction. K59
func TestFull(t *testing.T) {
	path := newFile(t)
	open(t, path, quick) // the tables
	var pages atomic.Int64
	pages.Store(120)
	d := &driver.Driver{}
	d.RegisterConnectionHook(func(c driver.ExecQuerierContext, _ string) error {
		_, err := c.ExecContext(context.Background(), fmt.Sprintf("PRAGMA max_page_count = %d", pages.Load()), nil)
		return err
	})
	o := quick
	o.Driver = d
	s := open(t, path, o)
	var stored []int64
	batch := jobs(5, newJob("q"))
	for i := range batch {
		batch[i].Payload = make([]byte, 3000)
	}
	full := 0
	for full < 5 {
		got, err := s.Enqueue(t.Context(), batch)
		switch {
		case err == nil:
			stored = append(stored, got...)
		case errors.Is(err, sqlstore.ErrFull) && sqlstore.Transient(err):
			full++
		default:
			t.Fatalf("got %v, want ErrFull", err)
		}
	}
	healthy(t, s)
	if got := len(must(s.ListJobs(t.Context(), sqlstore.Filter{Limit: 10_000}))(t)); got != len(stored) {
		t.Errorf("%d jobs are there, %d were acknowledged", got, len(stored))
	}
	for _, r := range claim(t, s, "q", 10) { // what exists can be worked off, which is what makes room
		if acked := must(s.AckBatch(t.Context(), []sqlstore.Handle{handle(r)}))(t); !acked[0] {
			t.Errorf("ack of %d was refused", r.ID)
		}
	}
	must(s.Enqueue(t.Context(), batch))(t)
	healthy(t, s)
}
