package torture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// scene is a small database with a job in every state that some operation cares about.
type scene struct {
	plain   sqlstore.Handle // a claim with attempts left
	last    sqlstore.Handle // a claim of the last attempt
	stale   sqlstore.Handle // a claim that has lapsed
	pending []int64
	dead    []int64
}

const (
	exhaustedText = "max attempts exceeded"
	lapsedText    = "lease lapsed"
)

// paint sets the scene in an empty store.
func paint(ctx context.Context, s sqlstore.Store, clock interface{ Set(int64) }) (scene, error) {
	var sc scene
	var errs []error
	const start = 1_700_000_000
	enqueue := func(n int, change func(*sqlstore.NewJob)) []int64 {
		j := sqlstore.NewJob{Queue: "q", Payload: []byte("payload"), Stamps: sqlstore.Stamps{
			VisibilityTimeoutS: 1000, MaxAttempts: 3, BackoffBaseS: 5, DeadLetterRetentionS: new(int64(10_000)),
		}}
		change(&j)
		ids, err := s.Enqueue(ctx, slices.Repeat([]sqlstore.NewJob{j}, n))
		errs = append(errs, err)
		return ids
	}
	claim := func(queue string, n int64) []sqlstore.Handle {
		rows, err := s.ClaimBatch(ctx, claimOf(queue, n))
		errs = append(errs, err)
		handles := make([]sqlstore.Handle, n) // zero if there were fewer, which the operations then answer with false
		for i, r := range rows {
			handles[i] = sqlstore.Handle{ID: r.ID, Fence: r.Fence}
		}
		return handles
	}
	clock.Set(start)
	enqueue(2, func(j *sqlstore.NewJob) { j.Queue = "claimed"; j.Payload = make([]byte, 2000) })
	sc.plain = claim("claimed", 2)[0]
	enqueue(1, func(j *sqlstore.NewJob) { j.Stamps.MaxAttempts = 1; j.Queue = "last" })
	sc.last = claim("last", 1)[0]
	enqueue(1, func(j *sqlstore.NewJob) { j.Stamps.VisibilityTimeoutS = 1; j.Priority = 9 })
	enqueue(1, func(j *sqlstore.NewJob) {
		j.Stamps.VisibilityTimeoutS, j.Stamps.MaxAttempts, j.Priority = 1, 1, 8
	})
	sc.stale = claim("q", 2)[0] // one comes back, the other is spent
	enqueue(1, func(j *sqlstore.NewJob) { j.ExpiresS = new(int64(1)) })
	short := enqueue(1, func(j *sqlstore.NewJob) { j.Queue, j.Stamps.DeadLetterRetentionS = "dead", new(int64(1)) })
	kept := enqueue(2, func(j *sqlstore.NewJob) { j.Queue = "dead"; j.Payload = make([]byte, 2000) })
	var failures []sqlstore.Failing
	for _, h := range claim("dead", 3) {
		failures = append(failures, sqlstore.Failing{Handle: h, Error: "boom", Stack: "stack"})
	}
	_, err := s.Fail(ctx, failures)
	errs = append(errs, err, s.Register(ctx, "s", func(now int64, _ *sqlstore.Schedule) (*sqlstore.Schedule, error) {
		return &sqlstore.Schedule{Queue: "scheduled", Spec: "@every 7s", NextFireAt: now + 1, CatchUp: 3, Fire: sqlstore.FireOptions{
			Stamps: sqlstore.Stamps{VisibilityTimeoutS: 10, MaxAttempts: 2},
		}}, nil
	}))
	_, err = s.Lead(ctx, "scheduler", "me", 100)
	errs = append(errs, err, s.Announce(ctx, "me", []string{"q"}, 100))
	clock.Set(start + 20)
	sc.pending = slices.Concat(
		enqueue(2, func(*sqlstore.NewJob) {}),
		enqueue(1, func(j *sqlstore.NewJob) { j.Payload = make([]byte, 2000); j.DelayS = 50 }),
	)
	sc.dead = slices.Concat(short, kept)
	return sc, errors.Join(errs...)
}

func claimOf(queue string, limit int64) sqlstore.Claim {
	return sqlstore.Claim{
		Queue: queue, Claimant: "worker", Limit: limit, ExhaustedText: exhaustedText, LapsedText: lapsedText,
	}
}

// claimed claims jobs and reads them afterwards, if the store can do that.
func claimed(ctx context.Context, s sqlstore.Store, c sqlstore.Claim) ([]sqlstore.Row, error) {
	late, ok := s.(sqlstore.LateReader)
	if !ok {
		return s.ClaimBatch(ctx, c)
	}
	unread, err := late.ClaimUnread(ctx, c)
	if err != nil {
		return nil, err
	}
	return unread.Read(ctx)
}

// see is everything that a store shows, with jobs by their place in the order of ids.
func see(ctx context.Context, s sqlstore.Store) (any, error) {
	all, err := s.ListJobs(ctx, sqlstore.Filter{Limit: 10_000, PayloadLimit: 1 << 20})
	errs := []error{err}
	slices.SortFunc(all, func(a, b sqlstore.Row) int { return cmp.Compare(a.ID, b.ID) })
	for i := range all {
		r, err := s.GetJob(ctx, all[i].ID)
		errs = append(errs, err)
		if r != nil {
			all[i].Failures = append([]sqlstore.Failure{}, r.Failures...)
			all[i].ID = 0
		}
	}
	stats, err1 := s.Stats(ctx)
	schedules, err2 := s.ListSchedules(ctx)
	return []any{all, append([]sqlstore.QueueStats{}, stats...), append([]sqlstore.Schedule{}, schedules...)},
		errors.Join(append(errs, err1, err2)...)
}

// operation is one call of a store on the scene. Its answer has no ids in it.
type operation struct {
	name string
	do   func(ctx context.Context, s sqlstore.Store, sc scene) (any, error)
	// model is what the model does instead, which has no transactions and no file.
	model func(ctx context.Context, s sqlstore.Store, sc scene) (any, error)
}

// operations has every method of the interface but Close and Watch, each so that it has as much to do as it can have.
func operations(t *testing.T, d *database) []operation {
	batch := []sqlstore.NewJob{
		{Queue: "q", Payload: []byte("small"), Stamps: sqlstore.Stamps{VisibilityTimeoutS: 1, MaxAttempts: 1}},
		{Queue: "q", Payload: make([]byte, 3000), Stamps: sqlstore.Stamps{VisibilityTimeoutS: 1, MaxAttempts: 1}},
	}
	enqueue := func(ctx context.Context, s sqlstore.Store, _ scene) (any, error) {
		return count(s.Enqueue(ctx, batch))
	}
	ack := func(ctx context.Context, s sqlstore.Store, sc scene) (any, error) {
		return answer(s.AckBatch(ctx, []sqlstore.Handle{sc.plain, sc.stale, sc.last}))
	}
	copied := filepath.Join(t.TempDir(), "copy.db")
	ops := []operation{
		{name: "Now", do: func(ctx context.Context, s sqlstore.Store, _ scene) (any, error) { return answer(s.Now(ctx)) }},
		{name: "Check", do: func(ctx context.Context, s sqlstore.Store, _ scene) (any, error) { return count(s.Check(ctx)) }},
		{name: "Repair", do: func(ctx context.Context, s sqlstore.Store, _ scene) (any, error) { return count(s.Repair(ctx)) }},
		{
			name:  "Backup",
			model: func(context.Context, sqlstore.Store, scene) (any, error) { return nil, nil },
			do: func(ctx context.Context, s sqlstore.Store, _ scene) (any, error) {
				err := s.Backup(ctx, copied)
				if rerr := os.Remove(copied); err != nil && rerr == nil {
					t.Error("half a backup was left behind")
				}
				return nil, err
			},
		},
		{name: "Enqueue", do: enqueue},
		{name: "EnqueueTx", model: enqueue, do: func(ctx context.Context, s sqlstore.Store, _ scene) (any, error) {
			return d.inside(ctx, func(tx sqlstore.Tx) (any, error) { return count(s.EnqueueTx(ctx, tx, batch)) })
		}},
		{name: "GetJob", do: func(ctx context.Context, s sqlstore.Store, sc scene) (any, error) {
			r, err := s.GetJob(ctx, sc.dead[1])
			return r == nil || len(r.Payload) == 2000, err
		}},
		{name: "ListJobs", do: func(ctx context.Context, s sqlstore.Store, _ scene) (any, error) {
			return count(s.ListJobs(ctx, sqlstore.Filter{Limit: 4, PayloadLimit: 1500}))
		}},
		{name: "Stats", do: func(ctx context.Context, s sqlstore.Store, _ scene) (any, error) { return answer(s.Stats(ctx)) }},
		{name: "Queues", do: func(ctx context.Context, s sqlstore.Store, _ scene) (any, error) { return answer(s.Queues(ctx)) }},
		{name: "Cancel", do: func(ctx context.Context, s sqlstore.Store, sc scene) (any, error) {
			return answer(s.Cancel(ctx, append([]int64{sc.plain.ID, sc.dead[0]}, sc.pending...)))
		}},
		{name: "Requeue", do: func(ctx context.Context, s sqlstore.Store, sc scene) (any, error) {
			return answer(s.Requeue(ctx, append([]int64{sc.pending[0]}, sc.dead...)))
		}},
		{name: "RequeueMatching", do: func(ctx context.Context, s sqlstore.Store, _ scene) (any, error) {
			return answer(s.RequeueMatching(ctx, sqlstore.DeadFilter{Queue: "dead"}, 2))
		}},
		{name: "Purge", do: func(ctx context.Context, s sqlstore.Store, sc scene) (any, error) {
			return answer(s.Purge(ctx, append([]int64{sc.pending[0]}, sc.dead...)))
		}},
		{name: "PurgeMatching", do: func(ctx context.Context, s sqlstore.Store, _ scene) (any, error) {
			return answer(s.PurgeMatching(ctx, sqlstore.DeadFilter{OlderThanS: new(int64(5))}, 2))
		}},
		{name: "SetPaused", do: func(ctx context.Context, s sqlstore.Store, _ scene) (any, error) {
			return nil, s.SetPaused(ctx, "q", true)
		}},
		{name: "SweepExpired", do: func(ctx context.Context, s sqlstore.Store, _ scene) (any, error) {
			return answer(s.SweepExpired(ctx, "q", "expired"))
		}},
		{name: "SweepExpired", do: func(ctx context.Context, s sqlstore.Store, _ scene) (any, error) {
			return answer(s.SweepExpired(ctx, "dead", "expired"))
		}},
		{name: "ClaimBatch", do: func(ctx context.Context, s sqlstore.Store, _ scene) (any, error) {
			return count(s.ClaimBatch(ctx, claimOf("q", 2)))
		}},
		{name: "NextReady", do: func(ctx context.Context, s sqlstore.Store, _ scene) (any, error) {
			now, next, err := s.NextReady(ctx, []string{"q", "claimed"})
			return []any{now, next}, err
		}},
		{name: "Idle", do: func(ctx context.Context, s sqlstore.Store, _ scene) (any, error) {
			return answer(s.Idle(ctx, []string{"q"}))
		}},
		{name: "AckBatch", do: ack},
		{name: "AckBatchTx", model: ack, do: func(ctx context.Context, s sqlstore.Store, sc scene) (any, error) {
			return d.inside(ctx, func(tx sqlstore.Tx) (any, error) {
				return answer(s.AckBatchTx(ctx, tx, []sqlstore.Handle{sc.plain, sc.stale, sc.last}))
			})
		}},
		{name: "Heartbeat", do: func(ctx context.Context, s sqlstore.Store, sc scene) (any, error) {
			return answer(s.Heartbeat(ctx, []sqlstore.Extension{{Handle: sc.plain}, {Handle: sc.stale}, {Handle: sc.last, S: new(int64(5))}}))
		}},
		{name: "Retry", do: func(ctx context.Context, s sqlstore.Store, sc scene) (any, error) {
			retrial := sqlstore.Retrial{DelayS: 5, Error: "again", Stack: "stack", DeadText: "dead"}
			var batch []sqlstore.Retrial
			for _, h := range []sqlstore.Handle{sc.plain, sc.stale, sc.last} {
				retrial.Handle = h
				batch = append(batch, retrial)
			}
			return answer(s.Retry(ctx, batch))
		}},
		{name: "Fail", do: func(ctx context.Context, s sqlstore.Store, sc scene) (any, error) {
			return answer(s.Fail(ctx, []sqlstore.Failing{{Handle: sc.plain, Error: "bad"}, {Handle: sc.stale}}))
		}},
		{name: "Release", do: func(ctx context.Context, s sqlstore.Store, sc scene) (any, error) {
			return answer(s.Release(ctx, []sqlstore.Releasing{{Handle: sc.plain, DelayS: 5}, {Handle: sc.stale}}))
		}},
		{name: "Register", do: func(ctx context.Context, s sqlstore.Store, _ scene) (any, error) {
			return nil, s.Register(ctx, "s", func(now int64, have *sqlstore.Schedule) (*sqlstore.Schedule, error) {
				want := *have
				want.Spec, want.NextFireAt = "@every 9s", now+9
				return &want, nil
			})
		}},
		{name: "Unregister", do: func(ctx context.Context, s sqlstore.Store, _ scene) (any, error) {
			return answer(s.Unregister(ctx, "s"))
		}},
		{name: "ListSchedules", do: func(ctx context.Context, s sqlstore.Store, _ scene) (any, error) {
			return count(s.ListSchedules(ctx))
		}},
		{name: "Soonest", do: func(ctx context.Context, s sqlstore.Store, _ scene) (any, error) {
			now, next, err := s.Soonest(ctx)
			return []any{now, next}, err
		}},
		{name: "Tick", do: func(ctx context.Context, s sqlstore.Store, _ scene) (any, error) {
			ticked, err := s.Tick(ctx, func(now int64, due sqlstore.Schedule) (sqlstore.Plan, error) {
				return sqlstore.Plan{Boundaries: []int64{due.NextFireAt, due.NextFireAt + 7}, NextFireAt: now + 7}, nil
			})
			return fmt.Sprint(len(ticked)), err
		}},
		{name: "FireNow", do: func(ctx context.Context, s sqlstore.Store, _ scene) (any, error) {
			_, ok, err := s.FireNow(ctx, "s", func(sqlstore.Schedule) error { return nil })
			return ok, err
		}},
		{name: "Lead", do: func(ctx context.Context, s sqlstore.Store, _ scene) (any, error) {
			return answer(s.Lead(ctx, "scheduler", "me", 200))
		}},
		{name: "Resign", do: func(ctx context.Context, s sqlstore.Store, _ scene) (any, error) {
			return nil, s.Resign(ctx, "scheduler", "me")
		}},
		{name: "Announce", do: func(ctx context.Context, s sqlstore.Store, _ scene) (any, error) {
			return nil, s.Announce(ctx, "me", []string{"q", "dead"}, 100)
		}},
		{name: "Withdraw", do: func(ctx context.Context, s sqlstore.Store, _ scene) (any, error) {
			return nil, s.Withdraw(ctx, "me")
		}},
	}
	known := map[string]bool{"Close": true, "Watch": true}
	for _, op := range ops {
		known[op.name] = true
	}
	for m := range reflect.TypeFor[sqlstore.Store]().Methods() {
		if !known[m.Name] {
			t.Fatalf("there is no operation for Store.%s", m.Name)
		}
	}
	return ops
}

func answer[T any](v T, err error) (any, error) { return v, err }

func count[T any](v []T, err error) (any, error) { return len(v), err }
