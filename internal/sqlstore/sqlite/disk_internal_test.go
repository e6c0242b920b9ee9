package sqlite

import (
	"context"
	"errors"
	"os"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

var oneJob = []sqlstore.NewJob{{Queue: "q", Stamps: sqlstore.Stamps{VisibilityTimeoutS: 30, MaxAttempts: 3}}}

// slow makes each sync of a store wait: what it sends has begun, and ends with an element of release, or when that is
// closed.
func slow(s *Store) (began chan struct{}, release chan struct{}) {
	began, release = make(chan struct{}, 100), make(chan struct{})
	s.write.disk.sync = func(f *os.File) error {
		began <- struct{}{}
		<-release
		return syncFile(f)
	}
	return began, release
}

// awaitCommits returns when a store has committed so many times.
func awaitCommits(s *Store, n int64) {
	for s.write.disk.commits.Load() < n {
		goruntime.Gosched()
	}
}

func TestDisk(t *testing.T) {
	enqueue := func(t *testing.T, s *Store) chan error {
		t.Helper()
		ended := make(chan error, 1)
		go func() {
			_, err := s.Enqueue(context.Background(), oneJob)
			ended <- err
		}()
		return ended
	}
	stats := func(t *testing.T, s *Store) int64 {
		t.Helper()
		all, err := s.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var ready int64
		for _, q := range all {
			ready += q.Ready
		}
		return ready
	}
	t.Run("C5_a_job_wakes_as_soon_as_it_is_committed_and_is_handed_out_when_it_is_on_the_disk", func(t *testing.T) {
		s := openStore(t, Options{})
		began, release := slow(s)
		told := s.signals.Listen()
		defer s.signals.Leave(told)
		enqueued := enqueue(t, s)
		<-began
		<-told.Ring() // never, if the disk had to be first
		claimed := make(chan int, 1)
		go func() {
			rows, err := s.ClaimBatch(context.Background(), sqlstore.Claim{Queue: "q", Claimant: "me", Limit: 1})
			if err != nil {
				t.Error(err)
			}
			claimed <- len(rows)
		}()
		awaitCommits(s, 2)
		select {
		case err := <-enqueued:
			t.Errorf("enqueued before the sync: %v", err)
		case n := <-claimed:
			t.Errorf("claimed %d jobs before the sync", n)
		default:
		}
		close(release)
		if err, n := <-enqueued, <-claimed; err != nil || n != 1 {
			t.Errorf("got error %v and %d jobs", err, n)
		}
	})
	t.Run("T6_a_call_returns_when_it_is_on_the_disk_and_the_next_does_not_wait_for_that_to_begin", func(t *testing.T) {
		s := openStore(t, Options{})
		began, release := slow(s)
		first := enqueue(t, s)
		<-began
		second := enqueue(t, s)
		awaitCommits(s, 2) // while the first is waiting
		if got := stats(t, s); got != 2 {
			t.Errorf("%d jobs are committed, want both", got)
		}
		select {
		case err := <-first:
			t.Errorf("the first returned before its sync: %v", err)
		case err := <-second:
			t.Errorf("the second returned before its sync: %v", err)
		default:
		}
		release <- struct{}{}
		if err := <-first; err != nil {
			t.Error(err)
		}
		<-began // what came after the first sync had begun needs another
		close(release)
		if err := <-second; err != nil {
			t.Error(err)
		}
	})
	t.Run("whoever_comes_during_one_sync_and_before_another_shares_the_transaction_after_it", func(t *testing.T) {
		s := openStore(t, Options{})
		began, release := slow(s)
		ended := []chan error{enqueue(t, s)}
		<-began
		ended = append(ended, enqueue(t, s))
		awaitCommits(s, 2)
		c := &crowd{Store: s, t: t}
		for n := range 10 {
			ended = append(ended, enqueue(t, s))
			c.awaits(n + 1)
		}
		close(release)
		for _, e := range ended {
			if err := <-e; err != nil {
				t.Error(err)
			}
		}
		if n := s.write.disk.commits.Load(); n != 3 {
			t.Errorf("%d transactions, want 3", n)
		}
	})
	t.Run("K6_a_heartbeat_waits_for_no_disk_not_even_with_those_in_its_transaction_who_do", func(t *testing.T) {
		s := openStore(t, Options{})
		if _, err := s.Enqueue(t.Context(), oneJob); err != nil {
			t.Fatal(err)
		}
		rows, err := s.ClaimBatch(t.Context(), sqlstore.Claim{Queue: "q", Claimant: "me", Limit: 1})
		if err != nil || len(rows) != 1 {
			t.Fatalf("claimed %v, %v", rows, err)
		}
		beat := func() error {
			extended, err := s.Heartbeat(t.Context(), []sqlstore.Extension{{Handle: sqlstore.Handle{ID: rows[0].ID, Fence: 1}}})
			if err == nil && !extended[0] {
				return errors.New("refused")
			}
			return err
		}
		began, release := slow(s)
		if err := beat(); err != nil { // alone
			t.Error(err)
		}
		c := holdUp(t, s) // and as the leader of others
		var all sync.WaitGroup
		all.Go(func() {
			if err := beat(); err != nil {
				t.Error(err)
			}
		})
		c.awaits(1)
		var ended []chan error
		for n := range 5 {
			ended = append(ended, enqueue(t, s))
			c.awaits(n + 2)
		}
		close(c.release)
		all.Wait()
		<-began
		for _, e := range ended {
			select {
			case err := <-e:
				t.Errorf("an enqueue returned before its sync: %v", err)
			default:
			}
		}
		close(release)
		for _, e := range ended {
			if err := <-e; err != nil {
				t.Error(err)
			}
		}
		c.first.Wait()
	})
	t.Run("C5_the_next_claim_waits_for_no_disk_but_whoever_reads_the_jobs_of_the_last_does", func(t *testing.T) {
		s := openStore(t, Options{})
		if _, err := s.Enqueue(t.Context(), slices.Repeat(oneJob, 2)); err != nil {
			t.Fatal(err)
		}
		began, release := slow(s)
		one := sqlstore.Claim{Queue: "q", Claimant: "me", Limit: 1, Kind: sqlstore.OnlyProven}
		var claims [2]sqlstore.Unread
		for i := range claims {
			var err error
			if claims[i], err = s.ClaimUnread(t.Context(), one); err != nil || claims[i].N != 1 {
				t.Fatalf("claimed %d jobs, %v, want one", claims[i].N, err)
			}
		}
		read := make(chan error, 1)
		go func() {
			_, err := claims[0].Read(context.Background())
			read <- err
		}()
		<-began
		select {
		case err := <-read:
			t.Errorf("read before the sync had ended: %v", err)
		default:
		}
		close(release)
		if err := <-read; err != nil {
			t.Error(err)
		}
		s.write.disk.sync = func(*os.File) error { return errors.New("synced once more") }
		if rows, err := claims[1].Read(t.Context()); err != nil || len(rows) != 1 {
			t.Errorf("got %d jobs, %v: the sync was for this claim too", len(rows), err)
		}
	})
	t.Run("T6_claims_that_are_not_on_the_disk_are_nobodys", func(t *testing.T) {
		s := openStore(t, Options{})
		if _, err := s.Enqueue(t.Context(), oneJob); err != nil {
			t.Fatal(err)
		}
		c := sqlstore.Claim{Queue: "q", Claimant: "me", Limit: 1, Kind: sqlstore.OnlyProven}
		unread, err := s.ClaimUnread(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		s.write.disk.sync = func(*os.File) error { return errors.New("the disk is on fire") }
		if rows, err := unread.Read(t.Context()); !errors.Is(err, sqlstore.ErrUnavailable) || rows != nil {
			t.Errorf("got %d jobs, %v, want the error of the sync as ErrUnavailable", len(rows), err)
		}
		s.write.disk.sync = syncFile
		if rows, err := s.ClaimBatch(t.Context(), c); err != nil || len(rows) != 1 || rows[0].Attempts != 1 {
			t.Errorf("got %+v, %v, want the job again, which has spent no attempt", rows, err)
		}
	})
	t.Run("T6_a_claim_that_reads_at_once_waits_at_once", func(t *testing.T) {
		s := openStore(t, Options{})
		if _, err := s.Enqueue(t.Context(), oneJob); err != nil {
			t.Fatal(err)
		}
		c := sqlstore.Claim{Queue: "q", Claimant: "me", Limit: 2, Kind: sqlstore.OnlyProven}
		rows, err := s.ClaimBatch(t.Context(), c)
		if err == nil {
			_, err = s.Retry(t.Context(), []sqlstore.Retrial{{Handle: sqlstore.Handle{ID: rows[0].ID, Fence: rows[0].Fence}}})
		}
		if err == nil {
			_, err = s.Enqueue(t.Context(), oneJob) // so that the two have different fences
		}
		if err != nil {
			t.Fatal(err)
		}
		s.write.disk.sync = func(*os.File) error { return errors.New("the disk is on fire") }
		if u, err := s.ClaimUnread(t.Context(), c); !errors.Is(err, sqlstore.ErrUnavailable) {
			t.Errorf("claimed %d jobs, %v, want the error of the sync as ErrUnavailable", u.N, err)
		}
	})
	t.Run("K49_nobody_waits_with_NORMAL_or_for_nothing", func(t *testing.T) {
		for name, o := range map[string]Options{"NORMAL": {Synchronous: "NORMAL"}, "FULL": {}} {
			s := openStore(t, o)
			if _, err := s.Enqueue(t.Context(), oneJob); name == "NORMAL" && err != nil {
				t.Fatal(err)
			}
			s.write.disk.sync = func(*os.File) error { return errors.New("synced with " + name) }
			if name == "NORMAL" {
				if _, err := s.Enqueue(t.Context(), oneJob); err != nil {
					t.Error(err)
				}
			}
			if _, err := s.ClaimBatch(t.Context(), sqlstore.Claim{Queue: "empty", Claimant: "me", Limit: 1}); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("T6_after_a_failed_sync_all_of_the_WAL_is_written_another_way", func(t *testing.T) {
		s := openStore(t, Options{})
		var syncs atomic.Int64
		s.write.disk.sync = func(f *os.File) error {
			if syncs.Add(1) == 1 {
				return errors.New("the disk is on fire")
			}
			return syncFile(f)
		}
		_, err := s.Enqueue(t.Context(), oneJob)
		if !errors.Is(err, sqlstore.ErrUnavailable) || !strings.Contains(err.Error(), "on fire") {
			t.Errorf("enqueue: got %v, want the error of the sync as ErrUnavailable", err)
		}
		reader := openPool(s.path, s.options, callers, 1)
		defer func() { _ = reader.Close() }()
		snapshot, err := reader.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range []string{"BEGIN", "SELECT count(*) FROM __alkstore_live"} {
			if _, err := snapshot.ExecContext(t.Context(), q); err != nil {
				t.Fatal(err)
			}
		}
		// As long as somebody needs the WAL it cannot be emptied: no success until then.
		if _, err := s.Enqueue(t.Context(), oneJob); !errors.Is(err, sqlstore.ErrUnavailable) {
			t.Errorf("enqueue while the WAL is needed: got %v, want ErrUnavailable", err)
		}
		if _, err := snapshot.ExecContext(t.Context(), "COMMIT"); err != nil {
			t.Fatal(err)
		}
		if err := snapshot.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Enqueue(t.Context(), oneJob); err != nil {
			t.Errorf("enqueue afterwards: %v", err)
		}
		if info, err := os.Stat(s.path + "-wal"); err != nil || info.Size() != 0 {
			t.Errorf("the WAL: got %v, %v, want it empty", info, err)
		}
		if _, err := s.Enqueue(t.Context(), oneJob); err != nil || syncs.Load() != 2 {
			t.Errorf("the next enqueue: got %v after %d syncs, want 2", err, syncs.Load())
		}
		if got := stats(t, s); got != 4 {
			t.Errorf("%d jobs are there, want the four that were committed", got)
		}
	})
	t.Run("T5_close_waits_for_the_disk", func(t *testing.T) {
		s := openStore(t, Options{})
		began, release := slow(s)
		ended := enqueue(t, s)
		<-began
		closed := make(chan error, 1)
		go func() { closed <- s.Close() }()
		release <- struct{}{}
		if err := errors.Join(<-ended, <-closed); err != nil {
			t.Error(err)
		}
		if s.write.disk.file != nil {
			t.Error("the WAL is still open")
		}
	})
}
