package queue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
	"github.com/alkstore/alkworker/internal/sqlstore/sqlite"
)

// house is a file full of jobs, and an empty schema to move to.
type house struct {
	*testing.T
	clock    atomic.Int64 // read by checkpoints too
	path     string
	file     *sqlite.Store
	server   *postgres.Store
	from, to *Client
}

func newHouse(t *testing.T) (*house, bool) {
	t.Helper()
	db, ok := pgtest.New(t)
	if !ok {
		return nil, false
	}
	h := &house{T: t, path: filepath.Join(t.TempDir(), "jobs.db")}
	h.clock.Store(1_700_000_000)
	var err1, err2 error
	h.file, err1 = sqlite.Open(t.Context(), h.path, sqlite.Options{Synchronous: "NORMAL", Clock: h.clock.Load})
	h.server, err2 = postgres.Open(t.Context(), db.DSN(), postgres.Options{Clock: h.clock.Load})
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	h.from, h.to = NewClient(h.file, nil), NewClient(h.server, nil)
	t.Cleanup(func() {
		if err := errors.Join(h.from.Close(), h.to.Close()); err != nil {
			t.Error(err)
		}
	})
	return h, true
}

func (h *house) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *house) enqueue(s sqlstore.Store, queue string, n int, payload []byte) []int64 {
	h.Helper()
	jobs := make([]sqlstore.NewJob, n)
	for i := range jobs {
		jobs[i] = sqlstore.NewJob{Queue: queue, Payload: payload, Priority: int64(i % 3), Stamps: sqlstore.Stamps{
			VisibilityTimeoutS: 30, MaxAttempts: 3, BackoffBaseS: 5, DeadLetterRetentionS: new(int64(100_000)),
		}}
	}
	ids, err := s.Enqueue(h.Context(), jobs)
	h.must(err)
	return ids
}

func (h *house) claim(s sqlstore.Store, queue string, n int64) []sqlstore.Handle {
	h.Helper()
	rows, err := s.ClaimBatch(h.Context(), sqlstore.Claim{
		Queue: queue, Claimant: "worker", Limit: n, ExhaustedText: TextMaxAttempts, LapsedText: TextLeaseLapsed,
	})
	h.must(err)
	var handles []sqlstore.Handle
	for _, r := range rows {
		handles = append(handles, sqlstore.Handle{ID: r.ID, Fence: r.Fence})
	}
	return handles
}

// furnish fills the file with jobs of every kind: more than one part of them, some of which are gone again.
func (h *house) furnish() {
	h.Helper()
	h.enqueue(h.file, "plain", copyJobs+100, []byte("small"))
	h.enqueue(h.file, "odd", 3, []byte("\x00\xff odd"))
	h.enqueue(h.file, "odd", 1, nil)
	h.enqueue(h.file, "large", 2, make([]byte, copyBytes/2+1))
	for _, claim := range h.claim(h.file, "plain", 60) {
		switch claim.ID % 4 {
		case 0:
			_, err := h.file.Fail(h.Context(), []sqlstore.Failing{{Handle: claim, Error: "schön", Stack: "stack"}})
			h.must(err)
		case 1:
			_, err := h.file.Retry(h.Context(), []sqlstore.Retrial{{Handle: claim, DelayS: 70, Error: "again", DeadText: "dead"}})
			h.must(err)
		case 2:
			_, err := h.file.AckBatch(h.Context(), []sqlstore.Handle{claim})
			h.must(err)
		} // the rest lapses
	}
	h.clock.Add(40)
	h.claim(h.file, "plain", 5) // the first of those that have lapsed
	h.clock.Add(40)
	h.must(h.file.SetPaused(h.Context(), "odd", true))
	for _, name := range []string{"nightly", "daily"} {
		h.must(h.file.Register(h.Context(), name, func(now int64, _ *sqlstore.Schedule) (*sqlstore.Schedule, error) {
			return &sqlstore.Schedule{
				Queue: "plain", Spec: "@every 1d", Payload: []byte("tick"), NextFireAt: now + 5, CatchUp: 3,
				Fire: sqlstore.FireOptions{Stamps: sqlstore.Stamps{VisibilityTimeoutS: 10, MaxAttempts: 2}},
			}, nil
		}))
	}
	h.clock.Add(10)
	_, err := h.file.Tick(h.Context(), func(now int64, due sqlstore.Schedule) (sqlstore.Plan, error) {
		return sqlstore.Plan{Boundaries: []int64{due.NextFireAt}, NextFireAt: now + 86400}, nil
	})
	h.must(err)
	last := h.enqueue(h.file, "plain", 1, nil)
	_, err = h.file.Cancel(h.Context(), last) // its id must never be used again
	h.must(err)
}

// everything is all that can be read of a store.
func (h *house) everything(s sqlstore.Store) (rows []sqlstore.Row, schedules []sqlstore.Schedule, paused []string) {
	h.Helper()
	all, err := allJobs(h.Context(), s)
	h.must(err)
	for _, j := range all {
		r, err := s.GetJob(h.Context(), j.id)
		h.must(err)
		rows = append(rows, *r)
	}
	schedules, err = s.ListSchedules(h.Context())
	h.must(err)
	stats, err := s.Stats(h.Context())
	h.must(err)
	for _, q := range stats {
		if q.Paused {
			paused = append(paused, q.Queue)
		}
	}
	return rows, schedules, paused
}

func (h *house) moved() {
	h.Helper()
	rows, schedules, paused := h.everything(h.file)
	rows2, schedules2, paused2 := h.everything(h.server)
	for i := range rows {
		if i < len(rows2) && text(rows[i]) != text(rows2[i]) { // cmp walks through payloads byte by byte
			if d := cmp.Diff(rows[i], rows2[i]); d != "" {
				h.Fatalf("job %d (-file +server):\n%s", rows[i].ID, d)
			}
		}
	}
	if d := cmp.Diff([]any{len(rows), schedules, paused}, []any{len(rows2), schedules2, paused2}); d != "" {
		h.Errorf("(-file +server):\n%s", d)
	}
	from, err1 := h.file.LastID(h.Context())
	to, err2 := h.server.LastID(h.Context())
	if err := errors.Join(err1, err2); err != nil || from != to {
		h.Errorf("last id: got %d, want %d; %v", to, from, err)
	}
}

func TestCopy(t *testing.T) {
	h, ok := newHouse(t)
	if !ok {
		return
	}
	h.furnish()
	first, err := Copy(t.Context(), h.from, h.to)
	h.must(err)
	h.moved()
	if first.Already != 0 || first.Pending == 0 || first.Processing == 0 || first.Dead == 0 || first.Failures == 0 || first.Schedules != 2 {
		t.Errorf("copied: got %+v, want some of everything", first)
	}
	again, err := Copy(t.Context(), h.from, h.to)
	h.must(err)
	if again.Already != first.Pending+first.Processing+first.Dead || again.Checksum != first.Checksum {
		t.Errorf("once more: got %+v, want nothing new after %+v", again, first)
	}
	last, err := h.file.LastID(t.Context())
	h.must(err)
	if id := h.enqueue(h.server, "plain", 1, nil)[0]; id != last+1 { // E1
		t.Errorf("the first new job has id %d, want %d", id, last+1)
	}
	if n := len(h.claim(h.server, "plain", 10_000)); n == 0 {
		t.Error("nothing to claim after the move")
	}
	if _, err := Copy(t.Context(), h.from, h.to); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("copy into what has been used: got %v, want a refusal", err)
	}
}

// failing is a target that cannot be reached for one of its imports.
type failing struct {
	sqlstore.Target
	left int
}

func (f *failing) Import(ctx context.Context, m sqlstore.Moved) error {
	if f.left--; f.left < 0 {
		return fmt.Errorf("%w: injected", sqlstore.ErrUnavailable)
	}
	return f.Target.Import(ctx, m)
}

// TestCopyInterrupted stops a copy before each of its imports, and goes on.
func TestCopyInterrupted(t *testing.T) {
	h, ok := newHouse(t)
	if !ok {
		return
	}
	h.furnish()
	stops := 0
	for left := 0; ; left = 1 { // each goes one import further
		c, err := Copy(t.Context(), h.from, NewClient(&failing{h.server, left}, nil))
		if err == nil {
			if c.Already == 0 {
				t.Error("everything was copied anew")
			}
			break
		}
		stops++
		if !errors.Is(err, ErrUnavailable) || stops > 20 {
			t.Fatal(err)
		}
	}
	h.moved()
	if stops < 3 {
		t.Errorf("interrupted %d times, want at least 3", stops)
	}
}

func TestCopyRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(h *house)
		copied  bool // before
		want    string
	}{
		"a_worker_on_the_file": {want: `the origin is in use: 1 workers serve queue "plain"`, prepare: func(h *house) {
			h.must(h.file.Announce(h.Context(), "w", []string{"plain"}, 60))
		}},
		"a_worker_on_the_server": {want: `the target is in use: 1 workers serve queue "plain"`, prepare: func(h *house) {
			h.must(h.server.Announce(h.Context(), "w", []string{"plain"}, 60))
		}},
		"a_claim_on_the_file": {want: "the origin is in use: job", prepare: func(h *house) { h.claim(h.file, "plain", 1) }},
		"jobs_on_the_server":  {want: "the target is in use: it has 1 jobs", prepare: func(h *house) { h.enqueue(h.server, "plain", 1, nil) }},
		"a_lock_that_no_job_has": {want: "such as: the lock l is held for years", prepare: func(h *house) {
			_, err := h.file.Lead(h.Context(), "l", "somebody", 9_999_999_999)
			h.must(err)
		}},
		"jobs_that_were_there": {want: "the target is in use", prepare: func(h *house) {
			ids := h.enqueue(h.server, "plain", 1, nil)
			_, err := h.server.Cancel(h.Context(), ids)
			h.must(err)
		}},
		"a_schedule_on_the_server": {want: "schedules of its own", prepare: func(h *house) {
			h.must(h.server.Register(h.Context(), "mine", func(now int64, _ *sqlstore.Schedule) (*sqlstore.Schedule, error) {
				return &sqlstore.Schedule{Queue: "q", Spec: "@every 1h", NextFireAt: now + 100}, nil
			}))
		}},
		"a_pause_on_the_server": {want: `its queue "plain" is paused`, prepare: func(h *house) {
			h.must(h.server.SetPaused(h.Context(), "plain", true))
		}},
		"a_job_cancelled_since": {copied: true, want: "the target is in use", prepare: func(h *house) {
			_, err := h.server.Cancel(h.Context(), []int64{300})
			h.must(err)
		}},
		"a_job_run_since": {copied: true, want: "the target is in use: its job", prepare: func(h *house) {
			claims := h.claim(h.server, "plain", 1)
			_, err := h.server.Release(h.Context(), []sqlstore.Releasing{{Handle: claims[0]}})
			h.must(err)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			h, ok := newHouse(t)
			if !ok {
				return
			}
			if !tc.copied {
				h.enqueue(h.file, "plain", 20, []byte("small"))
			} else {
				h.furnish()
				_, err := Copy(t.Context(), h.from, h.to)
				h.must(err)
			}
			tc.prepare(h)
			before, _, _ := h.everything(h.server)
			_, err := Copy(t.Context(), h.from, h.to)
			var typed *Error
			if err == nil || !strings.Contains(err.Error(), tc.want) || !errors.As(err, &typed) || typed.Op != "copy" {
				t.Errorf("got %v, want an error of copy with %q", err, tc.want)
			}
			if after, _, _ := h.everything(h.server); len(after) != len(before) {
				t.Errorf("a refused copy has left %d jobs where there were %d", len(after), len(before))
			}
		})
	}
	t.Run("a_file_as_the_target", func(t *testing.T) {
		h, ok := newHouse(t)
		if !ok {
			return
		}
		if _, err := Copy(t.Context(), h.to, h.from); !errors.Is(err, ErrUnsupported) {
			t.Errorf("got %v, want ErrUnsupported", err)
		}
	})
}

// What the server refuses at the last moment, it has not taken: a sequence of ids that has moved is not undone by that.
func TestCopyAfterACommitThatFailed(t *testing.T) {
	h, ok := newHouse(t)
	if !ok {
		return
	}
	db, _ := pgtest.New(t)
	server, err := postgres.Open(t.Context(), db.DSN(), postgres.Options{Clock: h.clock.Load})
	h.must(err)
	to := NewClient(server, nil)
	defer func() { h.must(to.Close()) }()
	beside, err := sql.Open("pgx", db.SearchPath())
	h.must(err)
	defer func() { h.must(beside.Close()) }()
	execute := func(statement string) {
		_, err := beside.ExecContext(t.Context(), statement)
		h.must(err)
	}
	h.enqueue(h.file, "plain", 20, []byte("small"))
	execute(`CREATE FUNCTION fault() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'injected'; END $$`)
	execute(`CREATE CONSTRAINT TRIGGER fault AFTER INSERT ON __alkstore_live DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW EXECUTE FUNCTION fault()`)
	if _, err := Copy(t.Context(), h.from, to); err == nil {
		t.Fatal("the injected failure did not arrive")
	}
	execute(`DROP TRIGGER fault ON __alkstore_live`)
	if c, err := Copy(t.Context(), h.from, to); err != nil || c.Pending != 20 {
		t.Errorf("once more: got %+v, %v, want the copy", c, err)
	}
}

// A file takes texts that no server does, and the engine has not always kept them out. // K88
func TestCopyOfTexts(t *testing.T) {
	h, ok := newHouse(t)
	if !ok {
		return
	}
	h.enqueue(h.file, "plain", 1, []byte("small"))
	_, err := h.file.Fail(t.Context(), []sqlstore.Failing{{Handle: h.claim(h.file, "plain", 1)[0], Error: "a\x00b", Stack: "a\xffb"}})
	h.must(err)
	for _, time := range []string{"once", "again"} {
		if _, err := Copy(t.Context(), h.from, h.to); err != nil {
			t.Errorf("copied %s: %v", time, err)
		}
	}
}

// A file, or a server, may have rows that were inserted by hand with ids that no job has: they are named, and what lists all
// jobs comes to an end. // K3
func TestCopyOfIDsThatNoJobHas(t *testing.T) {
	for _, id := range []int64{0, -1, math.MinInt64} {
		t.Run(strconv.FormatInt(id, 10), func(t *testing.T) {
			h, ok := newHouse(t)
			if !ok {
				return
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			edited := h.enqueue(h.file, "plain", 2, []byte("small"))[0]
			beside, err := sql.Open("sqlite", SQLiteDSN(h.path))
			h.must(err)
			defer func() { h.must(beside.Close()) }()
			_, err = beside.ExecContext(ctx, "UPDATE __alkstore_live SET id = ? WHERE id = ?", id, edited)
			h.must(err)
			h.must(h.server.Import(ctx, sqlstore.Moved{Jobs: []sqlstore.Row{{ID: id, Queue: "plain", State: sqlstore.Pending}}}))
			for store, n := range map[sqlstore.Store]int{h.file: 2, h.server: 1} {
				if all, err := allJobs(ctx, store); err != nil || len(all) != n || all[0].id != id {
					t.Errorf("%T has %v, %v, want %d jobs", store, all, err, n)
				}
				found, err := store.Check(ctx)
				if err != nil || !slices.ContainsFunc(found, func(p sqlstore.Problem) bool { return p.Kind == "id" && p.JobID == id }) {
					t.Errorf("%T names %v, %v, want the job", store, found, err)
				}
			}
			if _, err := Copy(ctx, h.from, h.to); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("has the id %d,", id)) {
				t.Errorf("got %v, want the job named", err)
			}
		})
	}
}

// TestCopyOfNames: names that were edited into what no server takes are refused by name, before anything is copied, and other
// texts are cleaned. // K3 K88
func TestCopyOfNames(t *testing.T) {
	h, ok := newHouse(t)
	if !ok {
		return
	}
	h.enqueue(h.file, "plain", 1, []byte("small"))
	h.must(h.file.Register(t.Context(), "nightly", func(now int64, _ *sqlstore.Schedule) (*sqlstore.Schedule, error) {
		return &sqlstore.Schedule{Queue: "plain", Spec: "@every 1d", NextFireAt: now + 5, CatchUp: 3}, nil
	}))
	beside, err := sql.Open("sqlite", SQLiteDSN(h.path))
	h.must(err)
	defer func() { h.must(beside.Close()) }()
	edit := func(statement, value string) {
		t.Helper()
		_, err := beside.ExecContext(t.Context(), statement, value)
		h.must(err)
	}
	const (
		live   = "UPDATE __alkstore_live SET queue = ?"
		pause  = "INSERT INTO __alkstore_queues VALUES (?, 1)"
		name   = "UPDATE __alkstore_scheduler_tasks SET name = ?"
		target = "UPDATE __alkstore_scheduler_tasks SET queue = ?"
	)
	for _, tc := range []struct{ edit, undo, as, want string }{
		{live, live, "plain", `queue "ab%sc" of the origin has a name`},
		{pause, "DELETE FROM __alkstore_queues WHERE queue != ?", "plain", `queue "ab%sc" of the origin has a name`},
		{name, name, "nightly", `schedule "ab%sc" of the origin has a name`},
		{target, target, "plain", `schedule "nightly" of the origin: queue name "ab%sc"`},
	} {
		for value, quoted := range map[string]string{"ab\x00c": `\x00`, "ab\xffc": `\xff`} {
			edit(tc.edit, value)
			if _, err := Copy(t.Context(), h.from, h.to); err == nil || !strings.Contains(err.Error(), fmt.Sprintf(tc.want, quoted)) {
				t.Errorf("%s with %q: got %v, want it named", tc.edit, value, err)
			}
			edit(tc.undo, tc.as)
		}
	}
	if all, err := allJobs(t.Context(), h.server); err != nil || len(all) > 0 {
		t.Errorf("what was refused has left %v, %v", all, err)
	}
	edit("UPDATE __alkstore_live SET scheduled_for = 1, schedule = ?", "a\x00b")
	edit("UPDATE __alkstore_scheduler_tasks SET spec = ?", "a\xffb")
	for _, time := range []string{"once", "again"} {
		if _, err := Copy(t.Context(), h.from, h.to); err != nil {
			t.Errorf("copied %s: %v", time, err)
		}
	}
}
