package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

func openStore(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "queue.db"), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func TestCheckVersion(t *testing.T) {
	for version, ok := range map[string]bool{
		"3.51.3": true, "3.51.4": true, "3.51.10": true, "3.52.0": true, "3.100.0": true, "4.0.0": true,
		"3.51.2": false, "3.51.0": false, "3.50.99": false, "3.9.0": false, "3.5.13": false, "2.99.99": false,
		"": false, "unknown": false,
	} {
		err := checkVersion(version) // K48
		if ok != (err == nil) || (!ok && !errors.Is(err, sqlstore.ErrUnsupported)) {
			t.Errorf("K48: SQLite %q: got %v, want fine: %v, else ErrUnsupported", version, err, ok)
		}
	}
}

// settings are what every connection must have (K49).
type settings struct {
	BusyTimeout, ForeignKeys, Synchronous, QueryOnly int64
	JournalMode                                      string
	WALLimit                                         int64
}

func settingsOf(t *testing.T, conn *sql.Conn) (s settings) {
	t.Helper()
	for pragma, to := range map[string]any{
		"busy_timeout": &s.BusyTimeout, "foreign_keys": &s.ForeignKeys, "synchronous": &s.Synchronous,
		"query_only": &s.QueryOnly, "journal_mode": &s.JournalMode, "journal_size_limit": &s.WALLimit,
	} {
		if err := conn.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(to); err != nil {
			t.Fatalf("%s: %v", pragma, err)
		}
	}
	return s
}

// spoil makes the pool replace a connection.
func spoil(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = conn.Close()
}

func TestSettings(t *testing.T) {
	for _, c := range []struct {
		name        string
		options     Options
		timeout     int64
		synchronous int64
	}{
		{"K49_by_default", Options{}, 5000, 2},
		{"K49_as_chosen", Options{BusyTimeout: 1234 * time.Millisecond, Synchronous: "NORMAL"}, 1234, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openStore(t, c.options)
			want := settings{c.timeout, 1, c.synchronous, 0, "wal", walSizeLimit}
			reading, writing := want, want
			reading.QueryOnly = 1
			writing.BusyTimeout, writing.Synchronous = 0, 1 // it waits for both itself
			check := func(what string, conn *sql.Conn, want settings) {
				t.Helper()
				if d := cmp.Diff(want, settingsOf(t, conn)); d != "" {
					t.Errorf("%s (-want +got):\n%s", what, d)
				}
			}
			ofCaller := openPool(s.Path(), c.options, callers, readerConnections)
			defer func() { _ = ofCaller.Close() }()
			for _, round := range []string{"first", "recycled", "aged"} {
				for pool, want := range map[*sql.DB]settings{s.readers: reading, ofCaller: want} {
					conns := make([]*sql.Conn, readerConnections) // all at once, so that they are as many
					for i := range conns {
						var err error
						if conns[i], err = pool.Conn(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
					for _, conn := range conns {
						check(round+" connection of a pool", conn, want)
						spoil(conn)
					}
					if round == "recycled" {
						pool.SetConnMaxLifetime(time.Nanosecond)
					}
				}
				err := s.writing(t.Context(), ordinary, alone, func(_ context.Context, tx *tx) error {
					check(round+" connection of the writer", s.write.conn, writing)
					return errors.New("undo")
				})
				if err == nil {
					t.Fatal("the writer swallows errors")
				}
				s.write.drop()
			}
		})
	}
}

func TestHalfReadRows(t *testing.T) {
	t.Run("K54_a_claim_that_is_not_read_to_the_end_has_not_happened", func(t *testing.T) {
		s := openStore(t, Options{Synchronous: "NORMAL"})
		job := sqlstore.NewJob{Queue: "q", Stamps: sqlstore.Stamps{VisibilityTimeoutS: 30, MaxAttempts: 3}}
		if _, err := s.Enqueue(t.Context(), []sqlstore.NewJob{job, job, job}); err != nil {
			t.Fatal(err)
		}
		half := errors.New("half")
		err := s.writing(t.Context(), ordinary, alone, func(ctx context.Context, tx *tx) error {
			if rows, err := tx.claim(ctx, sqlstore.Claim{Queue: "q", Claimant: "me", Limit: 1}); err != nil || len(rows) != 1 {
				t.Errorf("first half: got %d jobs, %v", len(rows), err)
			}
			return tx.query(ctx, "claim_ready", func(*sql.Rows) error { return half }, arguments(statement("claim_ready"), map[string]any{
				"queue": "q", "limit": 3, "priority": 0, "now": tx.now,
			})...)
		})
		if !errors.Is(err, half) {
			t.Fatalf("got %v, want the error of the reader", err)
		}
		other := openPool(s.Path(), Options{BusyTimeout: 1}, callers, 1) // a nanosecond: no wait at all
		defer func() { _ = other.Close() }()
		if _, err := other.ExecContext(t.Context(), "BEGIN IMMEDIATE; ROLLBACK"); err != nil {
			t.Errorf("lock after half a claim: %v", err)
		}
		rows, err := s.ClaimBatch(t.Context(), sqlstore.Claim{Queue: "q", Claimant: "me", Limit: 10})
		if err != nil || len(rows) != 3 {
			t.Fatalf("claim after half a one: got %d jobs, %v, want 3", len(rows), err)
		}
		for _, r := range rows {
			if r.Attempts != 1 || r.Fence != 1 {
				t.Errorf("job %d: got attempt %d and fence %d, want 1 and 1", r.ID, r.Attempts, r.Fence)
			}
		}
	})
}
