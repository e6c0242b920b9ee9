package storetest

import (
	"context"
	"path/filepath"
	"reflect"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// call is one method of the store with arguments that name exactly one queue or job, where it takes any.
type call struct {
	method string
	queue  string
	jobID  int64
	do     func(ctx context.Context, s sqlstore.Store) error
}

// calls has every method but Close. Those that need a transaction are left out without one.
func (e *env) calls(tx sqlstore.Tx) []call {
	const (
		queue = "mail"
		id    = 1 << 40 // no test gets that far
	)
	h := sqlstore.Handle{ID: id, Fence: 1}
	all := []call{
		{"Now", "", 0, func(ctx context.Context, s sqlstore.Store) error { return second(s.Now(ctx)) }},
		{"Watch", "", 0, func(ctx context.Context, s sqlstore.Store) error {
			return s.Watch(ctx, time.Hour, func(string) {})
		}},
		{"Check", "", 0, func(ctx context.Context, s sqlstore.Store) error { return second(s.Check(ctx)) }},
		{"Repair", "", 0, func(ctx context.Context, s sqlstore.Store) error { return second(s.Repair(ctx)) }},
		{"Backup", "", 0, func(ctx context.Context, s sqlstore.Store) error {
			return s.Backup(ctx, filepath.Join(e.TempDir(), "copy"))
		}},
		{"Enqueue", queue, 0, func(ctx context.Context, s sqlstore.Store) error {
			return second(s.Enqueue(ctx, jobs(1, newJob(queue))))
		}},
		{"EnqueueTx", queue, 0, func(ctx context.Context, s sqlstore.Store) error {
			return second(s.EnqueueTx(ctx, tx, jobs(1, newJob(queue))))
		}},
		{"GetJob", "", id, func(ctx context.Context, s sqlstore.Store) error { return second(s.GetJob(ctx, id)) }},
		{"ListJobs", queue, 0, func(ctx context.Context, s sqlstore.Store) error {
			return second(s.ListJobs(ctx, sqlstore.Filter{Queue: queue, Limit: 1}))
		}},
		{"Stats", "", 0, func(ctx context.Context, s sqlstore.Store) error { return second(s.Stats(ctx)) }},
		{"Cancel", "", id, func(ctx context.Context, s sqlstore.Store) error {
			return second(s.Cancel(ctx, []int64{id}))
		}},
		{"Requeue", "", id, func(ctx context.Context, s sqlstore.Store) error {
			return second(s.Requeue(ctx, []int64{id}))
		}},
		{"RequeueMatching", queue, 0, func(ctx context.Context, s sqlstore.Store) error {
			return second(s.RequeueMatching(ctx, sqlstore.DeadFilter{Queue: queue}, 1))
		}},
		{"Purge", "", id, func(ctx context.Context, s sqlstore.Store) error { return second(s.Purge(ctx, []int64{id})) }},
		{"PurgeMatching", queue, 0, func(ctx context.Context, s sqlstore.Store) error {
			return second(s.PurgeMatching(ctx, sqlstore.DeadFilter{Queue: queue}, 1))
		}},
		{"SetPaused", queue, 0, func(ctx context.Context, s sqlstore.Store) error { return s.SetPaused(ctx, queue, true) }},
		{"SweepExpired", queue, 0, func(ctx context.Context, s sqlstore.Store) error {
			return second(s.SweepExpired(ctx, queue, expiredText))
		}},
		{"Queues", "", 0, func(ctx context.Context, s sqlstore.Store) error { return second(s.Queues(ctx)) }},
		{"ClaimBatch", queue, 0, func(ctx context.Context, s sqlstore.Store) error {
			return second(s.ClaimBatch(ctx, claimOf(queue, 1)))
		}},
		{"NextReady", queue, 0, func(ctx context.Context, s sqlstore.Store) error {
			_, _, err := s.NextReady(ctx, []string{queue})
			return err
		}},
		{"Idle", queue, 0, func(ctx context.Context, s sqlstore.Store) error {
			return second(s.Idle(ctx, []string{queue}))
		}},
		{"AckBatch", "", id, func(ctx context.Context, s sqlstore.Store) error {
			return second(s.AckBatch(ctx, []sqlstore.Handle{h}))
		}},
		{"AckBatchTx", "", id, func(ctx context.Context, s sqlstore.Store) error {
			return second(s.AckBatchTx(ctx, tx, []sqlstore.Handle{h}))
		}},
		{"Heartbeat", "", id, func(ctx context.Context, s sqlstore.Store) error {
			return second(s.Heartbeat(ctx, []sqlstore.Extension{{Handle: h}}))
		}},
		{"Retry", "", id, func(ctx context.Context, s sqlstore.Store) error {
			return second(s.Retry(ctx, []sqlstore.Retrial{{Handle: h}}))
		}},
		{"Fail", "", id, func(ctx context.Context, s sqlstore.Store) error {
			return second(s.Fail(ctx, []sqlstore.Failing{{Handle: h}}))
		}},
		{"Release", "", id, func(ctx context.Context, s sqlstore.Store) error {
			return second(s.Release(ctx, []sqlstore.Releasing{{Handle: h}}))
		}},
		{"Register", "", 0, func(ctx context.Context, s sqlstore.Store) error {
			return s.Register(ctx, "nightly", func(now int64, _ *sqlstore.Schedule) (*sqlstore.Schedule, error) {
				return new(newSchedule(queue, now)), nil
			})
		}},
		{"Unregister", "", 0, func(ctx context.Context, s sqlstore.Store) error {
			return second(s.Unregister(ctx, "nightly"))
		}},
		{"ListSchedules", "", 0, func(ctx context.Context, s sqlstore.Store) error { return second(s.ListSchedules(ctx)) }},
		{"Soonest", "", 0, func(ctx context.Context, s sqlstore.Store) error {
			_, _, err := s.Soonest(ctx)
			return err
		}},
		{"Tick", "", 0, func(ctx context.Context, s sqlstore.Store) error { return second(s.Tick(ctx, everyMinute)) }},
		{"FireNow", "", 0, func(ctx context.Context, s sqlstore.Store) error {
			_, _, err := s.FireNow(ctx, "nightly", anySchedule)
			return err
		}},
		{"Lead", "", 0, func(ctx context.Context, s sqlstore.Store) error {
			return second(s.Lead(ctx, "scheduler", "me", 10))
		}},
		{"Resign", "", 0, func(ctx context.Context, s sqlstore.Store) error { return s.Resign(ctx, "scheduler", "me") }},
		{"Announce", "", 0, func(ctx context.Context, s sqlstore.Store) error {
			return s.Announce(ctx, "me", []string{queue}, 10)
		}},
		{"Withdraw", "", 0, func(ctx context.Context, s sqlstore.Store) error { return s.Withdraw(ctx, "me") }},
	}
	e.complete(all)
	if tx != nil {
		return all
	}
	var without []call
	for _, c := range all {
		if c.method != "EnqueueTx" && c.method != "AckBatchTx" {
			without = append(without, c)
		}
	}
	return without
}

// complete fails the test if the interface has grown a method that calls does not know.
func (e *env) complete(all []call) {
	e.Helper()
	known := map[string]bool{"Close": true}
	for _, c := range all {
		known[c.method] = true
	}
	for m := range reflect.TypeFor[sqlstore.Store]().Methods() {
		if !known[m.Name] {
			e.Fatalf("storetest does not call Store.%s", m.Name)
		}
	}
}

// second drops the value of a call.
func second[T any](_ T, err error) error { return err }
