package postgres_test

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
)

// values are what a person may write into any column.
var values = map[string]string{
	"null": "NULL", "text": "'abc'", "bytes": `'\x00ff'`, "real": "1.5", "zero": "0", "one": "1", "negative": "-7",
	"huge": "9223372036854775807", "least": "-9223372036854775808", "state": "'processing'", "empty": "''",
	"other_state": "'pending'",
}

// TestEdits writes every kind of value into every column of every kind of row: what cannot have been the store's own
// doing is named, other jobs go on, and a repair leaves nothing to name and no job lost. K3
func TestEdits(t *testing.T) {
	s, db, paint, ok := editable(t)
	if !ok {
		return
	}
	named, mended, free, refused := 0, 0, 0, 0
	for state, table := range map[string]string{
		"pending": "__alkstore_live", "processing": "__alkstore_live", "dead": "__alkstore_dead",
	} {
		try := func(column, what, value string) {
			ids := paint()
			edit := fmt.Sprintf("UPDATE %s SET %s = %s WHERE id = $1", table, column, value)
			if _, err := db.ExecContext(t.Context(), edit, ids[state]); err != nil {
				refused++ // by the table
				return
			}
			where := fmt.Sprintf("%s of a %s job set to %s", column, state, what)
			problems := must(s.Check(t.Context()))(t)
			switch about := slices.ContainsFunc(problems, func(p sqlstore.Problem) bool { return p.JobID == ids[state] }); {
			case about:
				named++
			case len(problems) > 0:
				t.Errorf("%s: problems of somebody else: %+v", where, problems)
			default:
				free++
			}
			others(t, s, where, ids["witness"])
			repaired := must(s.Repair(t.Context()))(t)
			if left := must(s.Check(t.Context()))(t); len(left) > 0 {
				t.Errorf("%s: not mended: %+v (mended %+v)", where, left, repaired)
			}
			if column == "run_at" && what == "least" && state != "dead" && len(repaired) == 0 {
				t.Errorf("%s: it is not named", where)
			}
			mended += len(repaired)
			r := must(s.GetJob(t.Context(), ids[state]))(t)
			if r == nil || len(must(s.ListJobs(t.Context(), sqlstore.Filter{Limit: 10}))(t)) != 4 {
				t.Errorf("%s: job lost, or there twice", where)
			}
		}
		for _, column := range columnsOf(t, db, table) {
			for what, value := range values {
				try(column, what, value)
			}
		}
	}
	t.Logf("%d edits refused by the tables, %d named, %d harmless, %d problems mended", refused, named, free, mended)
}

// others fails the test unless everything that is not about one job works, and the witness is handed out.
func others(t *testing.T, s *postgres.Store, where string, witness int64) {
	t.Helper()
	queues := must(s.Queues(t.Context()))(t)
	if _, _, err := s.NextReady(t.Context(), queues); err != nil {
		t.Errorf("%s: %v", where, err)
	}
	if _, err := s.Stats(t.Context()); err != nil {
		t.Errorf("%s: %v", where, err)
	}
	claimed := claim(t, s, "q", 10)
	if !slices.Contains(ids(claimed), witness) {
		t.Errorf("%s: another job of its queue is not handed out", where)
	}
	if _, err := s.Heartbeat(t.Context(), []sqlstore.Extension{{Handle: handle(claimed[0])}}); err != nil {
		t.Errorf("%s: %v", where, err)
	}
}

// TestEditsAndProvenJobs: the statement that most claims are has to bear the same. K3
func TestEditsAndProvenJobs(t *testing.T) {
	s, db, paint, ok := editable(t)
	if !ok {
		return
	}
	for _, column := range []string{"fence", "visibility_timeout_s", "max_attempts", "expires_at", "priority"} {
		ids := paint()
		execute(t, db, fmt.Sprintf("UPDATE __alkstore_live SET %s = 9223372036854775807 WHERE id = $1", column), ids["pending"])
		proven := claimOf("q", 10)
		proven.Kind = sqlstore.OnlyProven
		if got := must(s.ClaimBatch(t.Context(), proven))(t); len(got) != 2 {
			t.Errorf("%s: claimed %d jobs, want 2", column, len(got))
		}
	}
}

// columnsOf names the columns of a table, but for its key.
func columnsOf(t *testing.T, db *sql.DB, table string) []string {
	t.Helper()
	return strings.Split(value[string](t, db, `SELECT string_agg(column_name, ',') FROM information_schema.columns
		WHERE table_schema = current_schema AND table_name = $1 AND column_name != 'id'`, table), ",")
}

// editable is a store, a pool beside it, and a function that makes four jobs anew: pending, processing and dead ones, and
// a witness.
func editable(t *testing.T) (s *postgres.Store, db *sql.DB, paint func() map[string]int64, ok bool) {
	t.Helper()
	at, ok := pgtest.New(t)
	if !ok {
		return nil, nil, nil, false
	}
	s = open(t, at.DSN(), postgres.Options{Clock: func() int64 { return 1_700_000_000 }})
	db = pool(t, at)
	return s, db, func() map[string]int64 {
		for _, table := range []string{"live", "dead", "failures", "queues", "locks", "workers", "scheduler_tasks"} {
			execute(t, db, "DELETE FROM __alkstore_"+table)
		}
		ids := make(map[string]int64)
		j := newJob("claimed")
		j.Payload = make([]byte, 2000)
		ids["processing"] = enqueue(t, s, j)[0]
		hold(t, s, "claimed")
		j.Queue = "dead"
		ids["dead"] = enqueue(t, s, j)[0]
		must(s.Fail(t.Context(), []sqlstore.Failing{{Handle: hold(t, s, "dead"), Error: "boom", Stack: "stack"}}))(t)
		ids["pending"] = enqueue(t, s, newJob("q"))[0]
		ids["witness"] = enqueue(t, s, newJob("q"))[0]
		return ids
	}, true
}

// bring makes a live job dead as well.
const bring = `INSERT INTO __alkstore_dead (id, queue, payload, priority, run_at, attempts, max_attempts, created_at,
	last_error, died_at, visibility_timeout_s, backoff_base_s, fence)
	SELECT id, queue, payload, 0, run_at, 0, 3, created_at + :later, 'x', 1700000000, 30, 5, 1
	FROM __alkstore_live WHERE id = :pending`

// TestEditsAcrossRows is for what is wrong between rows, and in the tables around them.
func TestEditsAcrossRows(t *testing.T) {
	for name, tc := range map[string]struct {
		edit   string
		kind   string
		left   bool // a person has to decide
		number int  // of jobs in the end, if it is not four
	}{
		"a_job_live_and_dead":   {edit: bring, kind: "twice"},
		"two_jobs_of_one_id":    {edit: strings.ReplaceAll(bring, ":later", "1"), kind: "twice", left: true, number: 5},
		"a_job_deleted_by_hand": {edit: "DELETE FROM __alkstore_dead WHERE id = :dead", kind: "orphan", number: 3},
		"a_failure_of_nobody":   {edit: "INSERT INTO __alkstore_failures VALUES (99999, 1, 1, 1, 'x', '')", kind: "orphan"},
		"a_lock_for_ever":       {edit: "INSERT INTO __alkstore_locks VALUES ('l', 'o', 9223372036854775807)", kind: "lock"},
		"a_worker_for_ever":     {edit: "INSERT INTO __alkstore_workers VALUES ('w', 'q', 9223372036854775807)", kind: "worker"},
		"the_sequence_set_back": {edit: "SELECT setval('__alkstore_live_id_seq', 1)", kind: "sequence"},
		"the_sequence_restarted": {
			edit: "ALTER SEQUENCE __alkstore_live_id_seq RESTART", kind: "sequence",
		},
		"the_sequence_about_to_repeat": {
			edit: "SELECT setval('__alkstore_live_id_seq', :witness, false)", kind: "sequence",
		},
		"a_schedule_that_never_fires": {
			edit: `INSERT INTO __alkstore_scheduler_tasks (name, queue, spec, payload, priority, visibility_timeout_s,
				max_attempts, backoff_base_s, catch_up, next_fire_at, paused, created_at)
				VALUES ('s', 'q', '@every 1s', '', 0, 30, 3, 5, 1, 9223372036854775807, false, 1)`,
			kind: "schedule", left: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, db, paint, ok := editable(t)
			if !ok {
				return
			}
			ids := paint()
			execute(t, db, filled(tc.edit, ids))
			problems := must(s.Check(t.Context()))(t)
			if !slices.ContainsFunc(problems, func(p sqlstore.Problem) bool { return p.Kind == tc.kind }) {
				t.Errorf("problems: got %+v, want one of kind %s", problems, tc.kind)
			}
			mended := must(s.Repair(t.Context()))(t)
			left := must(s.Check(t.Context()))(t)
			if (len(left) > 0) != tc.left || (len(mended) == 0) != tc.left {
				t.Errorf("mended %+v, left %+v, want something left: %v", mended, left, tc.left)
			}
			want := tc.number
			if want == 0 {
				want = len(ids)
			}
			if n := len(must(s.ListJobs(t.Context(), sqlstore.Filter{Limit: 10}))(t)); n != want {
				t.Errorf("%d jobs are left, want %d", n, want)
			}
			highest := slices.Max([]int64{ids["witness"], ids["pending"]})
			if id := enqueue(t, s, newJob("q"))[0]; id <= highest {
				t.Errorf("a new job has the used id %d", id)
			}
		})
	}
}

// TestScheduleCreatedByHand: what is named as wrong goes away when the schedule is set again, as the advice says. // S2
func TestScheduleCreatedByHand(t *testing.T) {
	s, db, _, ok := editable(t)
	if !ok {
		return
	}
	put := func() {
		must(0, s.Register(t.Context(), "a", func(now int64, _ *sqlstore.Schedule) (*sqlstore.Schedule, error) {
			return &sqlstore.Schedule{Queue: "q", Spec: "@every 1m", CatchUp: 1, NextFireAt: now + 60}, nil
		}))(t)
	}
	put()
	for _, column := range []string{"created_at", "anchor", "next_fire_at"} {
		for _, value := range []string{"9223372036854775807", "-9223372036854775807"} {
			execute(t, db, "UPDATE __alkstore_scheduler_tasks SET "+column+" = "+value)
			if problems := must(s.Check(t.Context()))(t); len(problems) != 1 || problems[0].Kind != "schedule" {
				t.Errorf("%s set to %s: named %+v, want the schedule", column, value, problems)
			}
			put()
			if left := must(s.Check(t.Context()))(t); len(left) > 0 {
				t.Errorf("%s set to %s: left %+v", column, value, left)
			}
		}
	}
}

// filled is an edit with the ids of the jobs in it.
func filled(edit string, ids map[string]int64) string {
	edit = strings.ReplaceAll(edit, ":later", "0")
	for name, id := range ids {
		edit = strings.ReplaceAll(edit, ":"+name, fmt.Sprint(id))
	}
	return edit
}

// TestEditsOfAJobThatIsThereTwice: nothing but that job is held up by it. K3
func TestEditsOfAJobThatIsThereTwice(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, s *postgres.Store, job int64){
		"fail": func(t *testing.T, s *postgres.Store, job int64) {
			want := []bool{true, true}
			var all []sqlstore.Failing
			for _, h := range handles(claim(t, s, "q", 10)) {
				all = append(all, sqlstore.Failing{Handle: h, Error: "boom"})
			}
			if got := must(s.Fail(t.Context(), all))(t); !slices.Equal(got, want) {
				t.Errorf("fail: got %v, want %v", got, want)
			}
		},
		"requeue": func(t *testing.T, s *postgres.Store, job int64) {
			if got := must(s.Requeue(t.Context(), []int64{job}))(t); !got[0] {
				t.Error("requeue: got false, want true")
			}
		},
		"requeue_matching": func(t *testing.T, s *postgres.Store, _ int64) {
			if n := must(s.RequeueMatching(t.Context(), sqlstore.DeadFilter{Queue: "q"}, 10))(t); n != 1 {
				t.Errorf("requeue: got %d, want 1", n)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, db, paint, ok := editable(t)
			if !ok {
				return
			}
			ids := paint()
			execute(t, db, filled(bring, ids))
			end(t, s, ids["pending"])
			if problems := must(s.Check(t.Context()))(t); len(problems) > 0 {
				t.Errorf("problems: got %+v, want none", problems)
			}
			if n := len(must(s.ListJobs(t.Context(), sqlstore.Filter{Limit: 10}))(t)); n != len(ids) {
				t.Errorf("%d jobs, want %d", n, len(ids))
			}
		})
	}
}

// TestRepairLeavesTheRestAlone: repairs beside workers cost none of them a claim. D5
func TestRepairLeavesTheRestAlone(t *testing.T) {
	s, db, paint, ok := editable(t)
	if !ok {
		return
	}
	ids := paint()
	execute(t, db, "UPDATE __alkstore_live SET run_at = 9223372036854775807 WHERE id = $1", ids["pending"])
	held := hold(t, s, "q")
	if held.ID != ids["witness"] {
		t.Fatalf("claimed job %d, want %d", held.ID, ids["witness"])
	}
	before := get(t, s, held.ID)
	if mended := must(s.Repair(t.Context()))(t); len(mended) != 1 {
		t.Errorf("mended %+v, want one problem", mended)
	}
	if after := get(t, s, held.ID); after.Fence != before.Fence || *after.ClaimExpiresAt != *before.ClaimExpiresAt {
		t.Errorf("the job of a worker: got %+v, want %+v", after, before)
	}
	if got := must(s.AckBatch(t.Context(), []sqlstore.Handle{held}))(t); !got[0] {
		t.Error("its claim does not hold any more")
	}
	if got := hold(t, s, "q"); got.ID != ids["pending"] {
		t.Errorf("then: claimed job %d, want the mended %d", got.ID, ids["pending"])
	}
}

// Behind the greatest id there is none left to give away.
func TestRepairOfTheGreatestID(t *testing.T) {
	s, db, paint, ok := editable(t)
	if !ok {
		return
	}
	execute(t, db, "UPDATE __alkstore_live SET id = 9223372036854775807 WHERE id = $1", paint()["pending"])
	must(s.Repair(t.Context()))(t)
	enqueue(t, s, newJob("q"))
}

// TestLastID: a sequence at its end is named, with what to do. // E1
func TestLastID(t *testing.T) {
	s, db, paint, ok := editable(t)
	if !ok {
		return
	}
	last := paint()["witness"]
	execute(t, db, "SELECT setval('__alkstore_live_id_seq', 9223372036854775805)")
	for id := int64(math.MaxInt64 - 1); id != math.MinInt64; id++ {
		if got := enqueue(t, s, newJob("q"))[0]; got != id {
			t.Fatalf("enqueue: got id %d, want %d", got, id)
		}
	}
	if _, err := s.Enqueue(t.Context(), jobs(2, newJob("q"))); !errors.Is(err, sqlstore.ErrNoID) || !strings.Contains(err.Error(), "__alkstore_live_id_seq") {
		t.Errorf("enqueue: got %v, want the sequence named", err)
	}
	if problems := must(s.Check(t.Context()))(t); len(problems) == 0 || problems[0].Kind != "sequence" {
		t.Errorf("named %+v, want the sequence", problems)
	}
	if listed := must(s.ListJobs(t.Context(), sqlstore.Filter{Limit: 1}))(t); len(listed) != 1 || listed[0].ID != math.MaxInt64 {
		t.Errorf("listed %+v, want the job with the highest id first", listed)
	}
	if n := len(must(s.ClaimBatch(t.Context(), claimOf("q", 10)))(t)); n != 4 {
		t.Errorf("claimed %d jobs, want 4", n)
	}
	high := []int64{math.MaxInt64, math.MaxInt64 - 1}
	must(s.Cancel(t.Context(), high))(t)
	must(s.Purge(t.Context(), high))(t)
	execute(t, db, fmt.Sprintf("SELECT setval('__alkstore_live_id_seq', %d)", last))
	if id := enqueue(t, s, newJob("q"))[0]; id <= last || id > last+100 {
		t.Errorf("after what was advised: got id %d, want one after %d", id, last)
	}
}
