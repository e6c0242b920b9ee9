package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// TestReservedIDs is about ids that are given away without a write of the sequence. // E1, C2
func TestReservedIDs(t *testing.T) {
	open := func(t *testing.T, path string) *Store {
		t.Helper()
		s, err := Open(t.Context(), path, Options{Synchronous: "NORMAL"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	fresh := func(t *testing.T) (*Store, string) {
		t.Helper()
		path := filepath.Join(t.TempDir(), "queue.db")
		return open(t, path), path
	}
	enqueue := func(t *testing.T, s *Store, n int) []int64 {
		t.Helper()
		ids, err := s.Enqueue(context.WithoutCancel(t.Context()), slices.Repeat(oneJob, n))
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	// alone enqueues n jobs one by one, and leaves the store with ids in reserve.
	alone := func(t *testing.T, s *Store, n int) (ids []int64) {
		t.Helper()
		for range n {
			ids = append(ids, enqueue(t, s, 1)...)
		}
		for !s.write.ids.left() {
			ids = append(ids, enqueue(t, s, 1)...)
		}
		return ids
	}
	execute := func(t *testing.T, s *Store, statement string, args ...any) {
		t.Helper()
		beside := openPool(s.path, s.options, callers, 1)
		defer func() { _ = beside.Close() }()
		if _, err := beside.ExecContext(t.Context(), statement, args...); err != nil {
			t.Fatal(err)
		}
	}
	ascending := func(t *testing.T, ids []int64) {
		t.Helper()
		for i := 1; i < len(ids); i++ {
			if ids[i] <= ids[i-1] {
				t.Fatalf("job %d came after job %d", ids[i], ids[i-1])
			}
		}
	}

	t.Run("one_process_leaves_no_gaps", func(t *testing.T) {
		s, path := fresh(t)
		ids := alone(t, s, 100)
		ids = append(ids, enqueue(t, s, 3)...)
		ids = append(ids, alone(t, s, 20)...)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, alone(t, open(t, path), 50)...)
		for i, id := range ids {
			if id != int64(i+1) {
				t.Fatalf("the job in place %d has the id %d", i+1, id)
			}
		}
	})
	t.Run("E1_whoever_comes_later_has_a_higher_id", func(t *testing.T) {
		a, path := fresh(t)
		b := open(t, path)
		var ids []int64
		for i := range 10 {
			ids = append(ids, alone(t, a, 20)...)
			ids = append(ids, enqueue(t, b, 1)...)
			ids = append(ids, enqueue(t, a, 1)...)
			ids = append(ids, alone(t, b, 30+i)...)
			ids = append(ids, enqueue(t, a, 2)...)
		}
		ascending(t, ids)
	})
	for name, edit := range map[string]string{
		"all_jobs_deleted":      "DELETE FROM __alkstore_live",
		"the_sequence_set_back": "UPDATE sqlite_sequence SET seq = 1",
		"the_sequence_lost":     "DELETE FROM sqlite_sequence",
	} {
		t.Run("E1_by_hand_"+name, func(t *testing.T) {
			s, _ := fresh(t)
			ids := alone(t, s, 20)
			execute(t, s, edit)
			ascending(t, append(ids, alone(t, s, 20)...))
		})
	}
	t.Run("E1_nor_by_a_process_that_comes_when_all_of_a_killed_one_is_gone", func(t *testing.T) {
		killed, path := fresh(t)
		ids := alone(t, killed, 20)
		execute(t, killed, "DELETE FROM __alkstore_live")
		ascending(t, append(ids, alone(t, open(t, path), 20)...))
	})
	t.Run("E1_one_that_ends_gives_back_nothing_that_others_have_gone_beyond", func(t *testing.T) {
		a, path := fresh(t)
		b := open(t, path)
		alone(t, a, 20)
		last := enqueue(t, b, 1)
		execute(t, b, "DELETE FROM __alkstore_live") // an id counts, be its job gone
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		ascending(t, append(last, enqueue(t, b, 2)...))
	})
	t.Run("a_row_that_somebody_has_put_there_is_no_error", func(t *testing.T) {
		s, _ := fresh(t)
		ids := alone(t, s, 20)
		next := ids[len(ids)-1] + 1
		execute(t, s, `INSERT INTO __alkstore_live (id, queue, payload, run_at, max_attempts, created_at) VALUES (?, 'q', x'', 0, 1, 0)`, next)
		more := alone(t, s, 20)
		if slices.Contains(more, next) {
			t.Errorf("the id %d was given away, and is another's", next)
		}
		ascending(t, more)
	})
	t.Run("a_store_whose_last_connection_never_wrote_is_closed", func(t *testing.T) {
		s, path := fresh(t)
		s.write.patience = 0
		alone(t, s, 20)
		execute(t, s, "CREATE TRIGGER refuse BEFORE INSERT ON __alkstore_live BEGIN SELECT RAISE(FAIL, 'refused'); END")
		if _, err := s.Enqueue(t.Context(), oneJob); err == nil || s.write.on != nil || !s.write.ids.left() {
			t.Fatalf("got %v, want the connection given up and ids left", err)
		}
		locked := openPool(path, s.options, callers, 1)
		defer func() { _ = locked.Close() }()
		lock, err := locked.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Enqueue(t.Context(), oneJob); !errors.Is(err, sqlstore.ErrBusy) {
			t.Errorf("got %v, want ErrBusy", err)
		}
		if err := errors.Join(s.Close(), lock.Rollback()); err != nil {
			t.Error(err)
		}
	})
	t.Run("a_lone_enqueue_writes_two_pages", func(t *testing.T) {
		s, path := fresh(t)
		if _, err := s.Stats(t.Context()); err != nil { // a reader
			t.Fatal(err)
		}
		alone(t, s, 10)
		size := func() int64 {
			info, err := os.Stat(path + "-wal")
			if err != nil {
				t.Fatal(err)
			}
			return info.Size()
		}
		const frame = 4096 + 24
		before := size()
		for range 10 {
			enqueue(t, s, 1)
		}
		if pages := (size() - before) / frame; pages < 20 || pages > 26 { // a page of either tree may be split
			t.Errorf("ten enqueues wrote %d pages, want two each", pages)
		}
	})
}
