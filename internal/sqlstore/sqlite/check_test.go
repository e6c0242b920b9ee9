package sqlite_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// edit is what a person with a database shell may do to a job, and what Check must say about it.
type edit struct {
	name, statement string // $job is the id of the job
	state           string // the job is pending, processing or dead
	kind            string // of the problem, about the job unless noJob
	noJob           bool
}

func edits() []edit {
	live := func(name, set, state, kind string) edit {
		return edit{name: name, statement: "UPDATE __alkstore_live SET " + set + " WHERE id = $job", state: state, kind: kind}
	}
	dead := func(name, set, kind string) edit {
		return edit{name: name, statement: "UPDATE __alkstore_dead SET " + set + " WHERE id = $job", state: "dead", kind: kind}
	}
	all := []edit{
		live("a_state_that_does_not_exist", "state = 'done'", "pending", "state"),
		live("a_dead_state_among_the_living", "state = 'dead'", "processing", "state"),
		live("processing_without_a_deadline", "claim_expires_at = NULL", "processing", "stuck"),
		live("a_deadline_in_the_year_9999", "claim_expires_at = 253402300799", "processing", "stuck"),
		live("pending_with_a_claimant", "claimant = 'me'", "pending", "claim"),
		live("pending_with_a_deadline", "claim_expires_at = 5", "pending", "claim"),
		live("attempts_above_the_budget", "attempts = 99", "pending", "attempts"),
		live("attempts_below_zero", "attempts = -1", "pending", "attempts"),
		live("a_budget_of_nothing", "max_attempts = 0", "pending", "stamps"),
		live("a_visibility_timeout_of_nothing", "visibility_timeout_s = 0", "pending", "stamps"),
		live("a_negative_backoff", "backoff_base_s = -5", "pending", "stamps"),
		live("a_negative_retention", "dead_letter_retention_s = -5", "pending", "stamps"),
		{name: "the_same_job_alive_and_dead", state: "pending", kind: "twice", statement: `INSERT INTO __alkstore_dead
			(id, queue, payload, run_at, max_attempts, created_at, died_at) VALUES ($job, 'q', x'', 0, 1, 0, 0)`},
		{name: "a_payload_deleted", state: "pending", kind: "payload", statement: "DELETE FROM __alkstore_payloads WHERE id = $job"},
		{name: "a_payload_of_a_dead_job_deleted", state: "dead", kind: "payload",
			statement: "DELETE FROM __alkstore_payloads WHERE id = $job"},
		{name: "a_live_row_deleted", state: "pending", kind: "orphan", statement: "DELETE FROM __alkstore_live WHERE id = $job"},
		{name: "a_dead_row_deleted", state: "dead", kind: "orphan", statement: "DELETE FROM __alkstore_dead WHERE id = $job"},
		{name: "the_sequence_set_back", state: "dead", kind: "sequence",
			statement: "UPDATE sqlite_sequence SET seq = $job - 1 WHERE name = '__alkstore_live'"},
		{name: "the_sequence_deleted", state: "dead", kind: "sequence",
			statement: "DELETE FROM sqlite_sequence WHERE name = '__alkstore_live'"},
		{name: "an_index_of_something_else", state: "dead", kind: "integrity", noJob: true,
			statement: `PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, '(queue', '(state')
				WHERE name = '__alkstore_dead_queue'; PRAGMA schema_version = 9999`},
	}
	for _, column := range []string{
		"run_at", "priority", "attempts", "max_attempts", "created_at", "fence", "expires_at", "visibility_timeout_s",
		"backoff_base_s", "dead_letter_retention_s",
	} {
		all = append(all, live("text_in_"+column, column+" = 'tomorrow'", "pending", "type"))
	}
	all = append(all, live("text_as_deadline", "claim_expires_at = 'tomorrow'", "processing", "type"),
		live("a_fraction_of_a_second", "run_at = 1.5", "pending", "type"))
	for _, column := range []string{"died_at", "fence", "dead_letter_retention_s"} {
		all = append(all, dead("dead_with_text_in_"+column, column+" = 'tomorrow'", "type"))
	}
	return all
}

func TestCheck(t *testing.T) {
	for _, e := range edits() {
		t.Run("K3_"+e.name, func(t *testing.T) {
			t.Parallel()
			path := newFile(t)
			s, beside := open(t, path, quick), pool(t, path)
			big := newJob("q")
			big.Payload = make([]byte, 5000)
			id := enqueue(t, s, big)[0]
			if e.state != "pending" {
				h := hold(t, s, "q")
				if e.state == "dead" {
					must(s.Fail(t.Context(), []sqlstore.Failing{{Handle: h, Error: "boom"}}))(t)
				}
			}
			others := enqueue(t, s, jobs(2, newJob("other"))...)
			if e.state == "dead" {
				must(s.Cancel(t.Context(), others))(t)
			}
			healthy(t, s)

			execute(t, beside, strings.ReplaceAll(e.statement, "$job", fmt.Sprint(id)))
			problems := must(s.Check(t.Context()))(t)
			if !slices.ContainsFunc(problems, func(p sqlstore.Problem) bool {
				return p.Kind == e.kind && (e.noJob || p.JobID == id) && p.Detail != ""
			}) {
				t.Errorf("problems: got %+v, want one of kind %q about job %d", problems, e.kind, id)
			}

			if e.kind == "integrity" {
				return
			}
			// Whatever it is, it stays the problem of that one job.
			for _, do := range []func() error{
				func() error { return second(s.ClaimBatch(t.Context(), claimOf("q", 5))) },
				func() error { return second(s.SweepExpired(t.Context(), "q", "expired")) },
				func() error { _, _, err := s.NextReady(t.Context(), []string{"q", "other"}); return err },
				func() error { return second(s.Idle(t.Context(), []string{"q"})) },
				func() error { return second(s.Stats(t.Context())) },
				func() error { return second(s.ListJobs(t.Context(), sqlstore.Filter{Limit: 9, PayloadLimit: 9})) },
				func() error { return second(s.GetJob(t.Context(), id)) },
				func() error { return second(s.Cancel(t.Context(), []int64{id})) },
				func() error { return second(s.Purge(t.Context(), []int64{id})) },
			} {
				if err := do(); err != nil {
					t.Errorf("after the edit: %v", err)
				}
			}
			if e.state != "dead" {
				if got := ids(claim(t, s, "other", 5)); !slices.Equal(got, others) {
					t.Errorf("claimed from the other queue: got %v, want %v", got, others)
				}
			}
		})
	}
	t.Run("K3_a_job_that_is_alive_and_dead_can_still_die_and_be_requeued", func(t *testing.T) {
		path := newFile(t)
		s, beside := open(t, path, quick), pool(t, path)
		twice := enqueue(t, s, jobs(2, newJob("q"))...)
		for _, id := range twice {
			execute(t, beside, `INSERT INTO __alkstore_dead (id, queue, payload, run_at, max_attempts, created_at, died_at, last_error)
				VALUES (?, 'q', x'', 0, 1, 0, 0, 'before')`, id)
		}
		h := hold(t, s, "q")
		must(s.Fail(t.Context(), []sqlstore.Failing{{Handle: h, Error: "now"}}))(t)
		if r := get(t, s, h.ID); r.State != sqlstore.Dead || *r.LastError != "now" {
			t.Errorf("after it died: got %+v, want it dead of what happened now", r)
		}
		if n := must(s.RequeueMatching(t.Context(), sqlstore.DeadFilter{}, 10))(t); n != 2 {
			t.Errorf("requeued %d jobs, want 2", n)
		}
		if got := ids(claim(t, s, "q", 10)); !slices.Equal(sorted(got), twice) {
			t.Errorf("claimed after the requeue: got %v, want %v", got, twice)
		}
		healthy(t, s)
	})
	t.Run("S2_nonsense_in_a_schedule_stays_the_problem_of_that_one", func(t *testing.T) {
		path := newFile(t)
		s, beside := open(t, path, quick), pool(t, path)
		for _, name := range []string{"bad", "good"} {
			err := s.Register(t.Context(), name, func(int64, *sqlstore.Schedule) (*sqlstore.Schedule, error) {
				return &sqlstore.Schedule{Queue: "q", Fire: sqlstore.FireOptions{Stamps: newJob("").Stamps}, CatchUp: 1}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, column := range []string{
			"priority", "visibility_timeout_s", "max_attempts", "backoff_base_s", "dead_letter_retention_s", "expires_s",
			"anchor", "catch_up", "created_at", "paused", "next_fire_at",
		} {
			execute(t, beside, "UPDATE __alkstore_scheduler_tasks SET "+column+" = 'tomorrow' WHERE name = 'bad'")
			if n := len(must(s.ListSchedules(t.Context()))(t)); n != 2 {
				t.Errorf("text in %s: listed %d schedules, want 2", column, n)
			}
			execute(t, beside, "UPDATE __alkstore_scheduler_tasks SET next_fire_at = 0 WHERE name = 'good'")
			ticked, err := s.Tick(t.Context(), func(now int64, _ sqlstore.Schedule) (sqlstore.Plan, error) {
				return sqlstore.Plan{Boundaries: []int64{now}, NextFireAt: now + 60}, nil
			})
			if err != nil || !slices.ContainsFunc(ticked, func(o sqlstore.Ticked) bool { return o.Name == "good" && len(o.IDs) == 1 }) {
				t.Errorf("text in %s: ticked %+v, %v, want the good one to fire", column, ticked, err)
			}
		}
	})
}
