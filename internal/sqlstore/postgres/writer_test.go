package postgres_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
)

func TestEnqueueTogether(t *testing.T) {
	if _, ok := pgtest.New(t); !ok {
		return
	}
	// plugged locks the table and sends as many calls as may be on their way at once: all others wait in line until
	// unplug.
	plugged := func(t *testing.T, s *postgres.Store, db pgtest.Database) (unplug func()) {
		t.Helper()
		tx := begin(t, pool(t, db))
		if _, err := tx.ExecContext(t.Context(), "LOCK TABLE __alkstore_live"); err != nil {
			t.Fatal(err)
		}
		var plugs sync.WaitGroup
		for i := range postgres.MaxSenders {
			plugs.Go(func() {
				if _, err := s.Enqueue(t.Context(), jobs(1, newJob("plug"))); err != nil {
					t.Error(err)
				}
			})
			until(t, "a call is on its way", func() bool {
				waiting, senders := s.Line()
				return waiting == 0 && senders == i+1
			})
		}
		return func() {
			t.Helper()
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			plugs.Wait()
		}
	}
	gathered := func(t *testing.T, s *postgres.Store, db pgtest.Database, calls ...func() error) []error {
		t.Helper()
		unplug := plugged(t, s, db)
		errs := make([]error, len(calls))
		var all sync.WaitGroup
		for i, call := range calls {
			all.Go(func() { errs[i] = call() })
		}
		until(t, "all are in line", func() bool {
			waiting, _ := s.Line()
			return waiting == len(calls)
		})
		unplug()
		all.Wait()
		return errs
	}
	t.Run("E1_each_call_gets_its_own_ids", func(t *testing.T) {
		db, _ := pgtest.New(t)
		s := open(t, db.DSN(), postgres.Options{})
		const callers = 200
		got := make([][]int64, callers)
		var calls []func() error
		for i := range callers {
			calls = append(calls, func() (err error) {
				batch := jobs(1+i%3, newJob("q"))
				for k := range batch {
					batch[k].Priority = int64(100*i + k)
				}
				got[i], err = s.Enqueue(t.Context(), batch)
				return err
			})
		}
		if err := errors.Join(gathered(t, s, db, calls...)...); err != nil {
			t.Fatal(err)
		}
		for i, ids := range got {
			if len(ids) != 1+i%3 {
				t.Fatalf("caller %d: got %d ids, want %d", i, len(ids), 1+i%3)
			}
			for k, id := range ids {
				if p := get(t, s, id).Priority; p != int64(100*i+k) {
					t.Errorf("caller %d, job %d: got id %d of the job with priority %d", i, k, id, p)
				}
			}
		}
	})
	t.Run("T6_the_failure_of_one_call_is_its_own", func(t *testing.T) {
		db, _ := pgtest.New(t)
		s := open(t, db.DSN(), postgres.Options{})
		beside := pool(t, db)
		execute(t, beside, `CREATE FUNCTION fault() RETURNS trigger LANGUAGE plpgsql
			AS $$ BEGIN IF new.queue = 'bad' THEN RAISE EXCEPTION 'injected' USING ERRCODE = '42501'; END IF; RETURN new; END $$`) // as a row-level policy has it
		execute(t, beside, "CREATE TRIGGER fault BEFORE INSERT ON __alkstore_live FOR EACH ROW EXECUTE FUNCTION fault()")
		var calls []func() error
		for i := range 40 {
			queue := "good"
			if i%10 == 7 {
				queue = "bad"
			}
			calls = append(calls, func() error { return second(s.Enqueue(t.Context(), jobs(2, newJob(queue)))) })
		}
		late := newJob("late")
		late.DelayS, late.ExpiresS = 10, new(int64(5))
		calls = append(calls, func() error {
			if err := second(s.Enqueue(t.Context(), []sqlstore.NewJob{newJob("late"), late})); !errors.Is(err, sqlstore.ErrExpiresFirst) {
				t.Errorf("a late job: got %v, want ErrExpiresFirst", err)
			}
			return second(s.Enqueue(t.Context(), jobs(2, newJob("good"))))
		})
		huge := newJob("huge")
		huge.DelayS = 1<<63 - 1 // added to the clock, this is no number any more
		calls = append(calls, func() error { return second(s.Enqueue(t.Context(), []sqlstore.NewJob{huge})) })
		for i, err := range gathered(t, s, db, calls...) {
			switch {
			case i == 41:
				var typed *sqlstore.Error
				if !errors.Is(err, sqlstore.ErrTooLarge) || !errors.As(err, &typed) || typed.Queue != "huge" {
					t.Errorf("the huge one: got %v, want ErrTooLarge about its queue", err)
				}
			case i%10 == 7:
				var typed *sqlstore.Error
				if err == nil || !strings.Contains(err.Error(), "injected") || !errors.As(err, &typed) || typed.Queue != "bad" {
					t.Errorf("caller %d: got %v, want the injected error about its queue", i, err)
				}
			case err != nil:
				t.Errorf("caller %d: got %v", i, err)
			}
		}
		if n := value[int](t, beside, "SELECT count(*) FROM __alkstore_live WHERE queue != 'plug'"); n != 74 {
			t.Errorf("jobs: got %d, want 74", n)
		}
		healthy(t, s)
	})
	t.Run("K51_the_end_of_one_context_is_its_own", func(t *testing.T) {
		db, _ := pgtest.New(t)
		s := open(t, db.DSN(), postgres.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		var calls []func() error
		for i := range 60 {
			mine := t.Context()
			if i%2 == 1 {
				mine = ctx
			}
			calls = append(calls, func() error { return second(s.Enqueue(mine, jobs(1, newJob("q")))) })
		}
		unplug := plugged(t, s, db)
		errs := make([]error, len(calls))
		var odd, even sync.WaitGroup
		for i, call := range calls {
			group := &even
			if i%2 == 1 {
				group = &odd
			}
			group.Go(func() { errs[i] = call() })
		}
		until(t, "all are in line", func() bool {
			waiting, _ := s.Line()
			return waiting == len(calls)
		})
		began := time.Now()
		cancel()
		odd.Wait()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the calls that were cut short took %v to return", took)
		}
		unplug()
		even.Wait()
		for i, err := range errs {
			if i%2 == 0 && err != nil {
				t.Errorf("caller %d: got %v", i, err)
			}
			if i%2 == 1 && !errors.Is(err, context.Canceled) {
				t.Errorf("caller %d: got %v, want context.Canceled", i, err)
			}
		}
		if n := value[int](t, pool(t, db), "SELECT count(*) FROM __alkstore_live WHERE queue = 'q'"); n != 30 {
			t.Errorf("jobs: got %d, want the 30 that were stored", n)
		}
		healthy(t, s)
	})
	t.Run("E6_a_very_large_call_is_still_one", func(t *testing.T) {
		db, _ := pgtest.New(t)
		s := open(t, db.DSN(), postgres.Options{})
		big := newJob("q")
		big.Payload = make([]byte, 16<<20)
		batch := jobs(6, big) // more than one statement takes
		late := newJob("late")
		late.RunAt, late.ExpiresS = new(int64(1<<40)), new(int64(1))
		if _, err := s.Enqueue(t.Context(), append(batch, late)); !errors.Is(err, sqlstore.ErrExpiresFirst) {
			t.Errorf("with a late one at the end: got %v, want ErrExpiresFirst", err)
		}
		ids := enqueue(t, s, batch...)
		many := enqueue(t, s, jobs(25_000, newJob("many"))...)
		for _, list := range [][]int64{ids, many} {
			for i := range list {
				if i > 0 && list[i] <= list[i-1] {
					t.Fatalf("ids are not ascending: %d after %d", list[i], list[i-1])
				}
			}
		}
		if n := value[int](t, pool(t, db), "SELECT count(*) FROM __alkstore_live"); n != 25_006 {
			t.Errorf("jobs: got %d, want 25,006", n)
		}
		if n := get(t, s, ids[5]).PayloadSize; n != 16<<20 {
			t.Errorf("payload: got %d bytes", n)
		}
	})
}
