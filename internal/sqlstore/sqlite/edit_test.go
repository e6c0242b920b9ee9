package sqlite_test

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/sqlite"
	"github.com/alkstore/alkworker/internal/sqlstore/storetest"
)

// values are what a person may write into any column.
var values = map[string]string{
	"null": "NULL", "text": "'abc'", "blob": "x'00ff'", "real": "1.5", "zero": "0", "one": "1", "negative": "-7",
	"huge": "9223372036854775807", "least": "(-9223372036854775807 - 1)", "state": "'processing'", "empty": "''",
}

// TestEdits writes every kind of value into every column of every kind of row: what cannot have been the store's own
// doing is named, other jobs go on, and a repair leaves nothing to name and no job lost. K3
func TestEdits(t *testing.T) {
	s, db, paint := editable(t)
	named, mended, free := 0, 0, 0
	for state, table := range map[string]string{
		"pending": "__alkstore_live", "processing": "__alkstore_live", "dead": "__alkstore_dead",
	} {
		try := func(column, what, value string) {
			ids := paint()
			if _, err := db.ExecContext(t.Context(), fmt.Sprintf("UPDATE %s SET %s = %s WHERE id = ?", table, column, value), ids[state]); err != nil {
				return // the table does not take it
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
			now, next, err := s.NextReady(t.Context(), []string{"q"})
			if at, known := next["q"]; err != nil || !known || at > now {
				t.Errorf("%s: looks as if another job of its queue were not ready: %v, %v", where, next, err)
			}
			stats := must(s.Stats(t.Context()))(t)
			if i := slices.IndexFunc(stats, func(q sqlstore.QueueStats) bool { return q.Queue == "q" }); i < 0 || stats[i].OldestReadyS == nil {
				t.Errorf("%s: another job of its queue is not counted by its age: %+v", where, stats)
			}
			if !slices.ContainsFunc(claim(t, s, "q", 10), func(r sqlstore.Row) bool { return r.ID == ids["witness"] }) {
				t.Errorf("%s: another job of its queue is not handed out", where)
			}
			repaired := must(s.Repair(t.Context()))(t)
			left := must(s.Check(t.Context()))(t)
			if len(left) > 0 {
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
	t.Logf("%d edits named, %d harmless, %d problems mended", named, free, mended)
}

// TestEditedFence is about the greatest number, after which none comes: nobody else's claim ends, and no job is in nobody's
// hands. // C1, H1, K2
func TestEditedFence(t *testing.T) {
	clock := storetest.NewClock()
	path := filepath.Join(t.TempDir(), "queue.db")
	s := open(t, path, sqlite.Options{Synchronous: "NORMAL", Clock: clock.Now})
	db := pool(t, path)
	edited := func() (id int64) {
		id = enqueue(t, s, newJob("q"))[0]
		execute(t, db, "UPDATE __alkstore_live SET fence = 9223372036854775807")
		return id
	}
	id := edited()
	first := claim(t, s, "q", 1)
	clock.Set(clock.Now() + 1000)
	if second := claim(t, s, "q", 1); len(first) != 1 || len(second) != 1 {
		t.Fatalf("claimed %d and %d jobs, want the one twice", len(first), len(second))
	}
	if acked := must(s.AckBatch(t.Context(), []sqlstore.Handle{{ID: id, Fence: first[0].Fence}}))(t); acked[0] {
		t.Error("a claim that has lapsed was acked, and ended that of another")
	}
	must(s.Cancel(t.Context(), []int64{id}))(t)
	edited()
	unread := must(s.ClaimUnread(t.Context(), sqlstore.Claim{Queue: "q", Claimant: "w", Limit: 9, Kind: sqlstore.OnlyProven}))(t)
	if rows := must(unread.Read(t.Context()))(t); len(rows) != 1 || unread.N != 1 {
		t.Errorf("claimed %d and read %d jobs, want 1", unread.N, len(rows))
	}
}

// TestNamelessSchedule is about a row that no command can name: the others go on, and a repair gives it a name. // S2, K3
func TestNamelessSchedule(t *testing.T) {
	for what, value := range map[string]string{"null": "NULL", "a blob": "x'00ff'", "a blob that reads as a name": "CAST('b' AS BLOB)"} {
		t.Run(what, func(t *testing.T) {
			s, db, paint := editable(t)
			paint()
			for _, name := range []string{"a", "b"} {
				must(0, s.Register(t.Context(), name, func(now int64, _ *sqlstore.Schedule) (*sqlstore.Schedule, error) {
					return &sqlstore.Schedule{Queue: "q", Spec: "@every 1m", CatchUp: 1, NextFireAt: now - 1,
						Fire: sqlstore.FireOptions{Stamps: sqlstore.Stamps{VisibilityTimeoutS: 30, MaxAttempts: 9}}}, nil
				}))(t)
			}
			execute(t, db, "UPDATE __alkstore_scheduler_tasks SET name = "+value+", next_fire_at = next_fire_at - 9 WHERE name = 'b'")
			ticked := must(s.Tick(t.Context(), func(now int64, due sqlstore.Schedule) (sqlstore.Plan, error) {
				return sqlstore.Plan{Boundaries: []int64{due.NextFireAt}, NextFireAt: now + 60}, nil
			}))(t)
			if len(ticked) != 1 || ticked[0].Name != "a" || len(ticked[0].IDs) != 1 {
				t.Errorf("ticked %+v, want the one with a name fired", ticked)
			}
			if now, next, err := s.Soonest(t.Context()); err != nil || next == nil || *next != now+60 {
				t.Errorf("soonest: %v, %v, want a minute from now", next, err)
			}
			if all := must(s.ListSchedules(t.Context()))(t); len(all) != 1 || all[0].Name != "a" {
				t.Errorf("lists %+v, want the one with a name", all)
			}
			problems := must(s.Check(t.Context()))(t)
			if len(problems) != 1 || problems[0].Kind != "schedule" {
				t.Errorf("named %+v, want the schedule", problems)
			}
			must(s.Repair(t.Context()))(t)
			if left := must(s.Check(t.Context()))(t); len(left) > 0 {
				t.Errorf("left %+v after the repair", left)
			}
			all := must(s.ListSchedules(t.Context()))(t)
			if len(all) != 2 || all[1].Name != "nameless-2" || all[1].Spec != "@every 1m" {
				t.Errorf("after the repair there are %+v, want a second one with a name", all)
			}
		})
	}
}

// TestScheduleAtAFraction: a time as other languages write it is one, and hides no other schedule. // S2
func TestScheduleAtAFraction(t *testing.T) {
	s, db, _ := editable(t)
	now := must(s.Now(t.Context()))(t)
	must(0, s.Register(t.Context(), "a", func(int64, *sqlstore.Schedule) (*sqlstore.Schedule, error) {
		return &sqlstore.Schedule{Queue: "q", Spec: "@every 1m", CatchUp: 1, NextFireAt: now - 5,
			Fire: sqlstore.FireOptions{Stamps: sqlstore.Stamps{VisibilityTimeoutS: 30, MaxAttempts: 9}}}, nil
	}))(t)
	execute(t, db, "UPDATE __alkstore_scheduler_tasks SET next_fire_at = next_fire_at - 0.5")
	if _, next, err := s.Soonest(t.Context()); err != nil || next == nil || *next != now-6 {
		t.Errorf("soonest: %v, %v, want six seconds ago", next, err)
	}
	if all := must(s.ListSchedules(t.Context()))(t); all[0].NextFireAt != now-6 {
		t.Errorf("lists it for %d, want %d", all[0].NextFireAt, now-6)
	}
	ticked := must(s.Tick(t.Context(), func(now int64, due sqlstore.Schedule) (sqlstore.Plan, error) {
		return sqlstore.Plan{Boundaries: []int64{due.NextFireAt}, NextFireAt: now + 60}, nil
	}))(t)
	if len(ticked) != 1 || len(ticked[0].IDs) != 1 || *get(t, s, ticked[0].IDs[0]).ScheduledFor != now-6 {
		t.Errorf("ticked %+v, want it fired for that second", ticked)
	}
	execute(t, db, "UPDATE __alkstore_scheduler_tasks SET next_fire_at = 'soon'")
	if _, next, err := s.Soonest(t.Context()); err != nil || next != nil {
		t.Errorf("soonest of one that is no number: %v, %v, want none", next, err)
	}
}

// TestScheduleCreatedByHand: what is named as wrong goes away when the schedule is set again, as the advice says. // S2
func TestScheduleCreatedByHand(t *testing.T) {
	s, db, _ := editable(t)
	put := func() {
		must(0, s.Register(t.Context(), "a", func(now int64, _ *sqlstore.Schedule) (*sqlstore.Schedule, error) {
			return &sqlstore.Schedule{Queue: "q", Spec: "@every 1m", CatchUp: 1, NextFireAt: now + 60}, nil
		}))(t)
	}
	put()
	for _, column := range []string{"created_at", "anchor", "next_fire_at"} {
		for _, value := range []string{"'x'", "9223372036854775807", "-9223372036854775807"} {
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
	if all := must(s.ListSchedules(t.Context()))(t); all[0].CreatedAt != must(s.Now(t.Context()))(t) {
		t.Errorf("created at %d, want now", all[0].CreatedAt)
	}
}

// columnsOf names the columns of a table, but for its key.
func columnsOf(t *testing.T, db *sql.DB, table string) []string {
	t.Helper()
	return strings.Split(value[string](t, db, "SELECT group_concat(name) FROM pragma_table_info(?) WHERE pk = 0", table), ",")
}

// editable is a store, a pool beside it, and a function that makes four jobs anew: pending, processing and dead ones, and
// a witness.
func editable(t *testing.T) (s *sqlite.Store, db *sql.DB, paint func() map[string]int64) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "queue.db")
	s = open(t, path, sqlite.Options{Synchronous: "NORMAL", Clock: func() int64 { return 1_700_000_000 }})
	db = pool(t, path)
	return s, db, func() map[string]int64 {
		execute(t, db, `DELETE FROM __alkstore_live; DELETE FROM __alkstore_dead; DELETE FROM __alkstore_payloads;
			DELETE FROM __alkstore_failures; DELETE FROM __alkstore_queues; DELETE FROM __alkstore_locks;
			DELETE FROM __alkstore_workers; DELETE FROM __alkstore_scheduler_tasks`)
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
	}
}

// TestEditsAcrossRows is for what is wrong between rows, and in the tables around them.
func TestEditsAcrossRows(t *testing.T) {
	const bring = `INSERT INTO __alkstore_dead (id, queue, payload, payload_size, run_at, attempts, max_attempts, created_at,
		last_error, died_at, visibility_timeout_s, backoff_base_s, fence)
		SELECT id, queue, payload, payload_size, run_at, 0, 3, created_at + :later, 'x', :now, 30, 5, 1
		FROM __alkstore_live WHERE id = :pending`
	for name, tc := range map[string]struct {
		edit   string
		kind   string
		left   bool // a person has to decide
		number int  // of jobs in the end, if it is not four
	}{
		"a_job_live_and_dead": {edit: bring, kind: "twice"},
		"two_jobs_of_one_id":  {edit: strings.ReplaceAll(bring, ":later", "1"), kind: "twice", left: true, number: 5},
		"two_jobs_of_two_queues": {
			edit: strings.Replace(bring, "SELECT id, queue", "SELECT id, 'x'", 1),
			kind: "twice", left: true, number: 5,
		},
		"a_dead_job_of_a_later_id": {
			edit: strings.Replace(bring, "SELECT id, ", "SELECT id + 1000, ", 1), kind: "sequence", number: 5,
		},
		"a_worker_for_years":           {edit: "INSERT INTO __alkstore_workers VALUES ('w', 'q', 9999999999999)", kind: "worker"},
		"a_live_payload_lost":          {edit: "DELETE FROM __alkstore_payloads WHERE id = :processing", kind: "payload", left: true},
		"a_dead_payload_lost":          {edit: "DELETE FROM __alkstore_payloads WHERE id = :dead", kind: "payload", left: true},
		"a_payload_too_many":           {edit: "INSERT INTO __alkstore_payloads VALUES (:pending, 'x')", kind: "payload"},
		"a_payload_forgotten":          {edit: "UPDATE __alkstore_live SET spilled = 0 WHERE id = :processing", kind: "payload"},
		"a_payload_of_another_size":    {edit: "UPDATE __alkstore_payloads SET payload = 'x' WHERE id = :dead", kind: "payload"},
		"a_payload_of_nobody":          {edit: "INSERT INTO __alkstore_payloads VALUES (99999, 'x')", kind: "orphan"},
		"a_job_deleted_by_hand":        {edit: "DELETE FROM __alkstore_dead WHERE id = :dead", kind: "orphan", number: 3},
		"a_failure_of_nobody":          {edit: "INSERT INTO __alkstore_failures VALUES (99999, 1, 1, 1, 'x', '')", kind: "orphan"},
		"a_failure_that_is_unreadable": {edit: "UPDATE __alkstore_failures SET attempt = 'x', error = x'ff'", kind: "history"},
		"a_failure_without_a_fence":    {edit: "UPDATE __alkstore_failures SET fence = 'x'", kind: "history"},
		"a_pause_that_is_none":         {edit: "INSERT INTO __alkstore_queues VALUES ('q', 'yes')", kind: "pause"},
		"a_lock_for_ever":              {edit: "INSERT INTO __alkstore_locks VALUES ('l', 'o', 9999999999999)", kind: "lock"},
		"a_lock_until_a_word":          {edit: "INSERT INTO __alkstore_locks VALUES ('l', 'o', 'x')", kind: "lock"},
		"a_worker_for_ever":            {edit: "INSERT INTO __alkstore_workers VALUES ('w', 'q', 'x')", kind: "worker"},
		"the_sequence_set_back":        {edit: "UPDATE sqlite_sequence SET seq = 0", kind: "sequence"},
		"the_sequence_lost":            {edit: "DELETE FROM sqlite_sequence", kind: "sequence"},
		"a_schedule_that_never_fires": {
			edit: `INSERT INTO __alkstore_scheduler_tasks (name, queue, spec, payload, priority, visibility_timeout_s,
				max_attempts, backoff_base_s, catch_up, next_fire_at, paused, created_at)
				VALUES ('s', 'q', '@every 1s', x'', 0, 30, 3, 5, 1, 'soon', 0, 1)`,
			kind: "schedule", left: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, db, paint := editable(t)
			ids := paint()
			edit := strings.ReplaceAll(strings.ReplaceAll(tc.edit, ":later", "0"), ":now", "1700000000")
			for name, id := range ids {
				edit = strings.ReplaceAll(edit, ":"+name, fmt.Sprint(id))
			}
			execute(t, db, edit)
			problems := must(s.Check(t.Context()))(t)
			if !slices.ContainsFunc(problems, func(p sqlstore.Problem) bool { return p.Kind == tc.kind }) {
				t.Errorf("problems: got %+v, want one of kind %s", problems, tc.kind)
			}
			if r := must(s.GetJob(t.Context(), ids["dead"]))(t); r == nil && tc.number != 3 {
				t.Error("the dead job cannot be read")
			}
			rows := func() (all []*sqlstore.Row) {
				for _, name := range []string{"pending", "processing", "dead"} {
					all = append(all, must(s.GetJob(t.Context(), ids[name]))(t))
				}
				return all
			}
			var before []*sqlstore.Row
			if tc.kind == "orphan" { // which is nobody else's concern
				before = rows()
			}
			mended := must(s.Repair(t.Context()))(t)
			if d := cmp.Diff(before, rows()); before != nil && d != "" {
				t.Errorf("others after the repair (-before +after):\n%s", d)
			}
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

// TestLastID: a job with the highest possible id leaves none for others, which is no matter of space. // E1
func TestLastID(t *testing.T) {
	s, db, paint := editable(t)
	ids := paint()
	for range 10 { // lone ones, so that ids are reserved
		ids["last"] = enqueue(t, s, newJob("other"))[0]
	}
	before := value[int64](t, db, "SELECT seq FROM sqlite_sequence WHERE name = '__alkstore_live'")
	move := func(id, to int64) {
		t.Helper()
		execute(t, db, fmt.Sprintf(`UPDATE __alkstore_live SET id = %d WHERE id = %d;
			UPDATE sqlite_sequence SET seq = %d WHERE name = '__alkstore_live'`, to, id, to))
	}
	move(ids["pending"], math.MaxInt64-15)
	for id := int64(math.MaxInt64 - 14); id != math.MinInt64; id++ {
		if got := enqueue(t, s, newJob("q"))[0]; got != id {
			t.Fatalf("enqueue: got id %d, want %d", got, id)
		}
	}
	for _, n := range []int64{4, 100} { // all of which are in runs of ids
		rows := must(s.ClaimBatch(t.Context(), claimOf("q", n)))(t)
		held, extensions := make([]sqlstore.Handle, len(rows)), make([]sqlstore.Extension, len(rows))
		for i, r := range rows {
			held[i] = sqlstore.Handle{ID: r.ID, Fence: r.Fence}
			extensions[i] = sqlstore.Extension{Handle: held[i]}
		}
		if kept := must(s.Heartbeat(t.Context(), extensions))(t); slices.Contains(kept, false) {
			t.Errorf("heartbeat: got %v", kept)
		}
		if acked := must(s.AckBatch(t.Context(), held))(t); len(acked) == 0 || slices.Contains(acked, false) {
			t.Errorf("ack: got %v", acked)
		}
	}
	if left := must(s.ListJobs(t.Context(), sqlstore.Filter{Queue: "q", Limit: 100}))(t); len(left) > 0 {
		t.Errorf("left %d jobs that were acked", len(left))
	}
	move(ids["last"], math.MaxInt64)
	for _, n := range []int{1, 1, 3} {
		if _, err := s.Enqueue(t.Context(), jobs(n, newJob("q"))); !errors.Is(err, sqlstore.ErrNoID) ||
			errors.Is(err, sqlstore.ErrFull) || !strings.Contains(err.Error(), "doctor") {
			t.Errorf("enqueue of %d: got %v, want what to do", n, err)
		}
	}
	for range 2 {
		problems := must(s.Check(t.Context()))(t)
		if len(problems) != 1 || problems[0].Kind != "sequence" || !strings.Contains(problems[0].Detail, "sqlite_sequence") {
			t.Errorf("named %+v, want the sequence", problems)
		}
		if mended := must(s.Repair(t.Context()))(t); len(mended) > 0 {
			t.Errorf("mended %+v, which is up to a person", mended)
		}
	}
	if listed := must(s.ListJobs(t.Context(), sqlstore.Filter{Limit: 1}))(t); len(listed) != 1 || listed[0].ID != math.MaxInt64 {
		t.Errorf("listed %+v, want the job with the highest id first", listed)
	}
	must(s.Cancel(t.Context(), []int64{math.MaxInt64}))(t)
	must(s.Purge(t.Context(), []int64{math.MaxInt64}))(t)
	execute(t, db, fmt.Sprintf("UPDATE sqlite_sequence SET seq = %d WHERE name = '__alkstore_live'", before))
	if id := enqueue(t, s, newJob("q"))[0]; id <= before || id > before+100 {
		t.Errorf("after what was advised: got id %d, want one after %d", id, before)
	}
	healthy(t, s)
}

func TestLastIDOfAll(t *testing.T) {
	t.Run("E1_counts_jobs_that_are_gone", func(t *testing.T) {
		s := open(t, newFile(t), quick)
		if last := must(s.LastID(t.Context()))(t); last != 0 {
			t.Errorf("of an empty file: got %d, want 0", last)
		}
		given := enqueue(t, s, jobs(3, newJob("q"))...)
		must(s.Cancel(t.Context(), given))(t)
		if last := must(s.LastID(t.Context()))(t); last != given[2] {
			t.Errorf("got %d, want %d", last, given[2])
		}
	})
}
