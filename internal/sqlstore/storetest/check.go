package storetest

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

func checkRules() []rule {
	return []rule{
		{name: "D5_a_healthy_database_has_no_problems", test: checkHealthy},
		{name: "K3_a_processing_row_without_a_deadline_is_named", test: checkNoDeadline, needs: hasEdit},
		{name: "K3_a_deadline_in_the_year_9999_is_named", test: checkFarDeadline, needs: hasEdit},
		{name: "K3_attempts_above_the_budget_end_in_the_dead_letters", test: checkAttempts, needs: hasEdit},
		{name: "K3_repair_makes_a_stuck_claim_end", test: repairStuck, needs: hasEdit},
		{name: "D5_repair_leaves_a_healthy_database_alone", test: repairHealthy},
		{name: "D5_the_checker_notices_a_job_too_few_or_too_many", test: checkerNotices},
		{name: "K64_backup_never_overwrites", test: backup},
	}
}

func (e *env) problems() []sqlstore.Problem {
	e.Helper()
	problems, err := e.store.Check(e.Context())
	e.ok(err)
	return problems
}

func checkHealthy(e *env) {
	same(e, "problems of an empty database", len(e.problems()), 0)
	ids := e.mixture()
	e.register("nightly", "mail")
	e.ok(e.store.SetPaused(e.Context(), "mail", true))
	e.advance(100_000)
	same(e, "problems of one that nobody has looked after", len(e.problems()), 0)
	CheckInvariants(e.T, e.store, ids)
}

// named fails the test unless a problem is about the job.
func (e *env) named(id int64, queue string) {
	e.Helper()
	problems := e.problems()
	i := slices.IndexFunc(problems, func(p sqlstore.Problem) bool { return p.JobID == id })
	if i < 0 {
		e.Fatalf("problems: got %+v, want one about job %d", problems, id)
	}
	if p := problems[i]; p.Kind == "" || p.Detail == "" || p.Queue != queue {
		e.Errorf("problem: got %+v, want a kind, a detail and queue %q", p, queue)
	}
}

func checkNoDeadline(e *env) {
	_, h := e.hold(newJob("mail"))
	e.h.Edit(e.T, h.ID, "claim_expires_at", nil)
	e.named(h.ID, "mail")
	same(e, "sweep", e.sweep("mail"), sqlstore.Swept{Repaired: 1})
	same(e, "problems after a sweep", len(e.problems()), 0)
}

func checkFarDeadline(e *env) {
	_, h := e.hold(newJob("mail"))
	answers, err := e.store.Heartbeat(e.Context(), []sqlstore.Extension{{Handle: h, S: new(int64(86_400))}})
	e.ok(err)
	same(e, "heartbeat of a day", answers, []bool{true})
	same(e, "problems with a long lease", len(e.problems()), 0)
	e.h.Edit(e.T, h.ID, "claim_expires_at", int64(253_402_300_799))
	e.named(h.ID, "mail")
	same(e, "cancel", e.cancel(h.ID), []bool{true})
}

func repairStuck(e *env) {
	_, none := e.hold(newJob("mail"))
	_, far := e.hold(newJob("mail"))
	_, well := e.hold(newJob("mail"))
	e.h.Edit(e.T, none.ID, "claim_expires_at", nil)
	e.h.Edit(e.T, far.ID, "claim_expires_at", int64(253_402_300_799))
	found := e.problems()
	mended, err := e.store.Repair(e.Context())
	e.ok(err)
	same(e, "mended", mended, found)
	same(e, "problems after a repair", len(e.problems()), 0)
	same(e, "claims that hold", e.heartbeat(none, far, well), []bool{false, true, true})
	same(e, "reclaimed", e.claimOne("mail").ID, none.ID)
	e.advance(visibility + 1)
	same(e, "reclaimed later", len(e.claim("mail", 10)), 3)
}

func repairHealthy(e *env) {
	e.mixture()
	e.register("nightly", "mail")
	e.unchanged("a repair of nothing", func() {
		mended, err := e.store.Repair(e.Context())
		e.ok(err)
		same(e, "mended", len(mended), 0)
	})
}

func checkAttempts(e *env) {
	_, h := e.hold(newJob("mail"))
	e.h.Edit(e.T, h.ID, "attempts", int64(99))
	e.advance(visibility + 1)
	same(e, "handed out", len(e.claim("mail", 1)), 0)
	e.states(sqlstore.Dead, h.ID)
	same(e, "purge", e.purge(h.ID), []bool{true})
}

// muffled is a test that only notes whether it failed.
type muffled struct {
	testing.TB
	failed bool
}

func (m *muffled) Helper()               {}
func (m *muffled) Errorf(string, ...any) { m.failed = true }

func checkerNotices(e *env) {
	ids := e.enqueue(jobs(3, newJob("mail"))...)
	for _, c := range []struct {
		want   []int64
		failed bool
	}{{ids, false}, {ids[:2], true}, {append([]int64{1 << 40}, ids...), true}, {nil, true}} {
		m := &muffled{TB: e.T}
		CheckInvariants(m, e.store, c.want)
		if m.failed != c.failed {
			e.Errorf("CheckInvariants with %v expected and %v there: failed %v, want %v", c.want, ids, m.failed, c.failed)
		}
	}
}

func backup(e *env) {
	id := e.enqueueOne(newJob("mail"))
	path := filepath.Join(e.TempDir(), "copy of it's 100%.db")
	err := e.store.Backup(e.Context(), path)
	if errors.Is(err, sqlstore.ErrUnsupported) {
		return
	}
	e.ok(err)
	before, err := os.ReadFile(path)
	e.ok(err)
	if len(before) == 0 {
		e.Error("backup is empty")
	}
	if err := e.store.Backup(e.Context(), path); err == nil {
		e.Error("second backup to the same path: got no error")
	}
	after, err := os.ReadFile(path)
	e.ok(err)
	if !slices.Equal(before, after) {
		e.Error("a refused backup has changed the file")
	}
	e.states(sqlstore.Pending, id)
}
