package sqlite_test

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

func TestTimes(t *testing.T) {
	t.Run("K55_every_time_is_stored_as_a_whole_number", func(t *testing.T) {
		path := newFile(t)
		s, beside := open(t, path, quick), pool(t, path)
		for _, way := range writes(t, s) {
			if err := way.do(t.Context()); err != nil {
				t.Fatalf("%s: %v", way.name, err)
			}
		}
		columns := must(beside.QueryContext(t.Context(), `SELECT m.name, c.name FROM sqlite_schema AS m, pragma_table_info(m.name) AS c
			WHERE m.type = 'table' AND m.name LIKE '\_\_alkstore%' ESCAPE '\'
				AND (c.name LIKE '%\_at' ESCAPE '\' OR c.name LIKE '%\_s' ESCAPE '\' OR c.name IN ('scheduled_for', 'anchor'))`))(t)
		defer columns.Close()
		var queries []string
		for columns.Next() {
			var table, column string
			if err := columns.Scan(&table, &column); err != nil {
				t.Fatal(err)
			}
			queries = append(queries, fmt.Sprintf("SELECT count(*) FROM %s WHERE typeof(%s) NOT IN ('integer', 'null')", table, column))
		}
		if err := columns.Err(); err != nil || len(queries) < 25 {
			t.Fatalf("found %d columns with times, %v", len(queries), err)
		}
		for _, q := range queries {
			if n := value[int64](t, beside, q); n != 0 {
				t.Errorf("%s: got %d", strings.TrimPrefix(q, "SELECT count(*) FROM "), n)
			}
		}
	})
	t.Run("E3_a_delay_counts_from_the_clock_however_a_job_is_enqueued", func(t *testing.T) {
		s := open(t, newFile(t), quick)
		late, brief, large := newJob("q"), newJob("q"), newJob("q")
		late.DelayS, brief.DelayS, large.DelayS = 100, 100, 100
		brief.ExpiresS = new(int64(1000))
		large.Payload = randomBytes(5000)
		before := must(s.Now(t.Context()))(t)
		given := enqueue(t, s, jobs(10, late)...)
		for range 60 {
			given = append(given, enqueue(t, s, late)...)
		}
		var crowd sync.WaitGroup
		together := make([][]int64, 16)
		for i := range together { // of whom some share a transaction
			crowd.Go(func() {
				for range 10 {
					ids, err := s.Enqueue(t.Context(), jobs(1, late))
					if err != nil {
						t.Error(err)
					}
					together[i] = append(together[i], ids...)
				}
			})
		}
		crowd.Wait()
		given = append(given, slices.Concat(together...)...)
		given = append(given, enqueue(t, s, brief)...)
		given = append(given, enqueue(t, s, large)...)
		after := must(s.Now(t.Context()))(t)
		for _, id := range given {
			if r := get(t, s, id); r.RunAt != r.CreatedAt+100 || r.CreatedAt < before || r.CreatedAt > after {
				t.Fatalf("job %d: created at %d and ready at %d, want from %d to %d and 100 s later",
					id, r.CreatedAt, r.RunAt, before, after)
			}
		}
	})
	t.Run("K55_processes_in_different_time_zones_agree", func(t *testing.T) {
		path := newFile(t)
		s := open(t, path, quick)
		before := must(s.Now(t.Context()))(t)
		var created []int64
		for _, zone := range []string{"Pacific/Kiritimati", "UTC", "Pacific/Pago_Pago"} { // 25 hours apart
			id := must(strconv.ParseInt(startChild(t, "TZ="+zone).must("created", path), 10, 64))(t)
			r := get(t, s, id)
			if r.RunAt != r.CreatedAt+60 {
				t.Errorf("%s: created at %d and ready at %d, want 60 s between them", zone, r.CreatedAt, r.RunAt)
			}
			created = append(created, r.CreatedAt)
		}
		after := must(s.Now(t.Context()))(t)
		for i, at := range created {
			if at < before || at > after || (i > 0 && at < created[i-1]) {
				t.Errorf("created at %v, want times from %d to %d in order", created, before, after)
			}
		}
		if _, next, err := s.NextReady(t.Context(), []string{"zone"}); err != nil || next["zone"] != created[0]+60 {
			t.Errorf("next ready: got %v, %v, want %d", next, err, created[0]+60)
		}
		if n := len(claim(t, s, "zone", 9)); n != 0 {
			t.Errorf("claimed %d jobs a minute early", n)
		}
		must(s.Cancel(t.Context(), ids(must(s.ListJobs(t.Context(), sqlstore.Filter{Limit: 9}))(t))))(t)
	})
	t.Run("T1_the_clock_is_read_when_the_lock_is_held", func(t *testing.T) {
		path := newFile(t)
		s, beside := open(t, path, quick), pool(t, path)
		for range 10 { // calls that meet nobody, until they are taken for the rule
			enqueue(t, s, newJob("q"))
		}
		soon := newJob("q")
		soon.ExpiresS = new(int64(60)) // so that one statement is not enough
		for name, j := range map[string]sqlstore.NewJob{"alone": newJob("q"), "in a transaction": soon} {
			t.Run(name, func(t *testing.T) {
				tx := begin(t, beside)
				clock := func() (now int64) {
					must(0, tx.QueryRowContext(t.Context(), "SELECT unixepoch()").Scan(&now))(t)
					return now
				}
				called := clock()
				answer := make(chan error, 1)
				var id []int64
				go func() {
					var err error
					id, err = s.Enqueue(t.Context(), jobs(1, j))
					answer <- err
				}()
				for clock() < called+2 {
					runtime.Gosched()
				}
				must(0, tx.Rollback())(t)
				must(0, <-answer)(t)
				if at := get(t, s, id[0]).CreatedAt; at < called+2 {
					t.Errorf("created at %d, when the lock was another's until %d", at, called+2)
				}
			})
		}
	})
}
