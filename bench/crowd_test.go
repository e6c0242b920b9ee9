package main

import (
	"strings"
	"testing"
	"time"
)

// TestCrowd is about drains by several processes that do not go as they should. On a file, where no server is needed.
func TestCrowd(t *testing.T) {
	crowdOf := func(t *testing.T) order {
		return order{Subject: "alkworker-normal", Jobs: 3, Slots: 4, Limit: 300 * time.Millisecond,
			Place: Place{Path: t.TempDir() + "/jobs.db"}}
	}
	t.Run("lost_jobs_are_noticed", func(t *testing.T) {
		_, err := runCrowd(t.Context(), crowdOf(t), 2)
		if err == nil || !strings.Contains(err.Error(), "0 different jobs were handled, want 3") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("it_is_given_up_after_the_limit", func(t *testing.T) {
		o := crowdOf(t)
		fill := o
		fill.Step, fill.Case = stepFill, caseDelayed
		if _, err := runStep(t.Context(), fill); err != nil {
			t.Fatal(err)
		}
		a, err := runCrowd(t.Context(), o, 2)
		if err != nil {
			t.Fatal(err)
		}
		if m := a.Metrics; m["capped"] != 1 || m["left"] != 3 || m["handled"] != 0 || len(a.Notes) != 1 {
			t.Errorf("got %v, %q, want 3 jobs left and a note", m, a.Notes)
		}
	})
	t.Run("one_that_fails_ends_all", func(t *testing.T) {
		o := crowdOf(t)
		o.Place.Path = "/nowhere/jobs.db"
		if _, err := runCrowd(t.Context(), o, 3); err == nil || !strings.Contains(err.Error(), "/nowhere") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a_job_of_two_processes_ran_twice", func(t *testing.T) {
		c := &crowd{order: order{Jobs: 34}, shares: []answer{
			{Metrics: Metrics{"handled": 32}, Seen: []uint32{1<<32 - 1, 0}},
			{Metrics: Metrics{"handled": 3, "duplicates": 1}, Seen: []uint32{1 << 7, 3}},
		}}
		m := Metrics{"seconds": 2}
		if err := c.settle(m); err != nil || m["handled"] != 34 || m["duplicates"] != 2 || m["rate"] != 17 {
			t.Errorf("got %v and %v, want 34 handled, 2 of them twice", m, err)
		}
		c.shares[1].Metrics["strangers"] = 1
		if err := c.settle(m); err == nil {
			t.Error("a job that nobody enqueued goes unnoticed")
		}
	})
}

// TestPostgresURL sees that it leads where the address does.
func TestPostgresURL(t *testing.T) {
	p := &postgres{sockets: "/tmp/a b"}
	_, err := postgresURL("host='", 1)
	if err == nil {
		t.Error("an address that is none is taken")
	}
	got, err := postgresURL(strings.Replace(p.address("bench1"), "/tmp/a b", "'/tmp/a b'", 1), 10)
	want := "postgres://bench@/bench1?host=%2Ftmp%2Fa+b&pool_max_conns=10&port=5432&sslmode=disable"
	if err != nil || got != want {
		t.Errorf("got %q and %v, want %q", got, err, want)
	}
}
