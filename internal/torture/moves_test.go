package torture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"

	"pgregory.net/rapid"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// queues are few, so that operations meet.
var queues = []string{"a", `it's "b" 100%`, "日本"}

var (
	queueNames    = rapid.SampledFrom(queues)
	scheduleNames = rapid.SampledFrom([]string{"s", `t's "name"`})
	workers       = rapid.SampledFrom([]string{"worker 1", "worker 2"})
	texts         = rapid.SampledFrom([]string{"", "boom", "it's \"bad\"\n\t\u2028 日本 \U0001f600"})
	delays        = rapid.SampledFrom([]int64{0, 0, 1, 5, 10, 60})
	// sizes lie around the size at which payloads leave their row.
	sizes = rapid.SampledFrom([]int{0, 1, 50, 1023, 1024, 1025, 3000})
)

// moves are all operations, and the clock; the one without a name comes after each of them.
func (w *twins) moves() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"":                w.compare,
		"clock":           w.advance,
		"clock again":     w.advance,
		"enqueue":         w.enqueue,
		"enqueue again":   w.enqueue,
		"in transaction":  w.inTransaction,
		"claim":           w.claim,
		"claim again":     w.claim,
		"claim once more": w.claim,
		"ack":             w.ack,
		"heartbeat":       w.heartbeat,
		"retry":           w.retry,
		"retry again":     w.retry,
		"fail":            w.fail,
		"release":         w.release,
		"cancel":          w.cancel,
		"requeue":         w.requeue,
		"purge":           w.purge,
		"matching":        w.matching,
		"sweep":           w.sweep,
		"pause":           w.pause,
		"list":            w.list,
		"register":        w.register,
		"unregister":      w.unregister,
		"tick":            w.tick,
		"fire":            w.fire,
		"lead":            w.lead,
		"announce":        w.announce,
	}
}

// advance moves the clock, now and then backwards: machines do that.
func (w *twins) advance(rt *rapid.T) {
	w.clock.Set(w.clock.Now() + rapid.SampledFrom([]int64{1, 1, 2, 5, 9, 10, 11, 31, 100, -3}).Draw(rt, "seconds"))
	w.both(rt, "now", func(s *world) (any, error) { return s.store.Now(context.Background()) })
}

func optionally[T any](g *rapid.Generator[T]) *rapid.Generator[*T] {
	return rapid.Custom(func(rt *rapid.T) *T {
		if rapid.IntRange(0, 2).Draw(rt, "given") > 0 {
			return nil
		}
		return new(g.Draw(rt, "value"))
	})
}

var stampings = rapid.Custom(func(rt *rapid.T) sqlstore.Stamps {
	return sqlstore.Stamps{
		VisibilityTimeoutS:   rapid.SampledFrom([]int64{1, 5, 10, 30, 365 * 86400}).Draw(rt, "visibility"),
		MaxAttempts:          rapid.SampledFrom([]int64{1, 1, 2, 3, math.MaxInt32}).Draw(rt, "max attempts"),
		BackoffBaseS:         rapid.Int64Range(0, 9).Draw(rt, "backoff"),
		DeadLetterRetentionS: optionally(rapid.SampledFrom([]int64{0, 1, 10, 60, math.MaxInt64 / 1_000_000_000})).Draw(rt, "retention"),
	}
})

var newJobs = rapid.Custom(func(rt *rapid.T) sqlstore.NewJob {
	return sqlstore.NewJob{
		Queue:    queueNames.Draw(rt, "queue"),
		Priority: rapid.SampledFrom([]int64{0, 0, 0, 1, -1, math.MaxInt64, math.MinInt64}).Draw(rt, "priority"),
		RunAt:    optionally(rapid.SampledFrom([]int64{0, 1_699_999_990, 1_700_000_020, 253402300799})).Draw(rt, "run at"),
		DelayS:   delays.Draw(rt, "delay"),
		ExpiresS: optionally(rapid.SampledFrom([]int64{0, 1, 10, 60, 253402300799})).Draw(rt, "expires"),
		Stamps:   stampings.Draw(rt, "stamps"),
	}
})

// batches draws jobs with payloads, which are not drawn themselves: they would fill the screen when something fails.
func batches(rt *rapid.T) []sqlstore.NewJob {
	batch := rapid.SliceOfN(newJobs, 0, 3).Draw(rt, "jobs")
	for i, size := range rapid.SliceOfN(sizes, len(batch), len(batch)).Draw(rt, "sizes") {
		batch[i].Payload = bytes.Repeat([]byte{byte(i), 0xff}, size)[:size]
	}
	return batch
}

func (w *twins) enqueue(rt *rapid.T) {
	batch := batches(rt)
	w.both(rt, "enqueue", func(s *world) (any, error) {
		ids, err := s.store.Enqueue(context.Background(), batch)
		return s.learn(ids), err
	})
}

// inTransaction enqueues and acks in a transaction of the caller. The model takes none, so it does the same once the
// transaction is committed. E5, H2
func (w *twins) inTransaction(rt *rapid.T) {
	if w.d.users == nil {
		return
	}
	ctx := context.Background()
	batch, claims := batches(rt), w.some(rt)
	commit := rapid.Bool().Draw(rt, "commit")
	w.both(rt, "in transaction", func(s *world) (any, error) {
		if s == w.model {
			return w.outside(rt, batch, claims, commit)
		}
		tx, err := w.d.users.BeginTx(ctx, nil)
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }() // of no effect after Commit
		ids, enqueueErr := s.store.EnqueueTx(ctx, tx, batch)
		acked, ackErr := s.store.AckBatchTx(ctx, tx, s.handles(claims))
		if !commit {
			return nil, nil
		}
		if err := tx.Commit(); err != nil { // also after a refusal, which has changed nothing: T6
			rt.Fatal(err)
		}
		return []any{s.learn(ids), append([]bool{}, acked...)}, errors.Join(enqueueErr, ackErr)
	})
}

func (w *twins) outside(rt *rapid.T, batch []sqlstore.NewJob, claims []sqlstore.Handle, commit bool) (any, error) {
	if !commit {
		return nil, nil
	}
	ids, enqueueErr := w.model.store.Enqueue(context.Background(), batch)
	acked, ackErr := w.model.store.AckBatch(context.Background(), w.model.handles(claims))
	if ackErr != nil {
		rt.Fatal(ackErr)
	}
	return []any{w.model.learn(ids), append([]bool{}, acked...)}, enqueueErr
}

func (w *twins) claim(rt *rapid.T) {
	c := sqlstore.Claim{
		Queue: queueNames.Draw(rt, "queue"), Claimant: workers.Draw(rt, "claimant"),
		Limit: rapid.SampledFrom([]int64{1, 1, 2, 10, 1000, 0, -1}).Draw(rt, "limit"),
		Kind: rapid.SampledFrom([]sqlstore.ClaimKind{
			sqlstore.AnyJob, sqlstore.AnyJob, sqlstore.OnlyProven, sqlstore.OnlySuspects,
		}).Draw(rt, "kind"),
		ExhaustedText: "max attempts exceeded", LapsedText: "lease lapsed",
	}
	rows := w.both(rt, "claim", func(s *world) (any, error) {
		rows, err := claimed(context.Background(), s.store, c)
		return s.rows(rows), err
	}).([]sqlstore.Row)
	for _, r := range rows {
		w.claims = append(w.claims, sqlstore.Handle{ID: r.ID, Fence: r.Fence})
	}
}

// some draws claims, mostly recent ones, the same perhaps twice, and now and then one that was never handed out.
func (w *twins) some(rt *rapid.T) []sqlstore.Handle {
	drawn := []sqlstore.Handle{}
	for range rapid.IntRange(0, 3).Draw(rt, "claims") {
		back := rapid.SampledFrom([]int{1, 1, 1, 2, 2, 3, 4, 6, 9}).Draw(rt, "how recent")
		if back > len(w.claims) {
			drawn = append(drawn, sqlstore.Handle{ID: rapid.SampledFrom(oddIDs).Draw(rt, "id"), Fence: 1})
			continue
		}
		drawn = append(drawn, w.claims[len(w.claims)-back])
	}
	return drawn
}

var oddIDs = []int64{0, -1, math.MaxInt64, math.MinInt64, 1 << 53, 1<<53 + 1}

func (w *world) handles(drawn []sqlstore.Handle) []sqlstore.Handle {
	handles := []sqlstore.Handle{}
	for _, d := range drawn {
		handles = append(handles, w.handle(d))
	}
	return handles
}

func (w *twins) ack(rt *rapid.T) {
	drawn := w.some(rt)
	w.both(rt, "ack", func(s *world) (any, error) {
		answers, err := s.store.AckBatch(context.Background(), s.handles(drawn))
		return append([]bool{}, answers...), err
	})
}

func (w *twins) heartbeat(rt *rapid.T) {
	drawn := w.some(rt)
	extensions := rapid.SliceOfN(optionally(rapid.SampledFrom([]int64{0, 1, 10, 100})), len(drawn), len(drawn)).Draw(rt, "seconds")
	w.both(rt, "heartbeat", func(s *world) (any, error) {
		var batch []sqlstore.Extension
		for i, h := range s.handles(drawn) {
			batch = append(batch, sqlstore.Extension{Handle: h, S: extensions[i]})
		}
		answers, err := s.store.Heartbeat(context.Background(), batch)
		return append([]bool{}, answers...), err
	})
}

func (w *twins) retry(rt *rapid.T) {
	drawn, delay, text, stack := w.some(rt), delays.Draw(rt, "delay"), texts.Draw(rt, "error"), texts.Draw(rt, "stack")
	w.both(rt, "retry", func(s *world) (any, error) {
		var batch []sqlstore.Retrial
		for _, h := range s.handles(drawn) {
			batch = append(batch, sqlstore.Retrial{Handle: h, DelayS: delay, Error: text, Stack: stack, DeadText: "dead: " + text})
		}
		verdicts, err := s.store.Retry(context.Background(), batch)
		return append([]sqlstore.Verdict{}, verdicts...), err
	})
}

func (w *twins) fail(rt *rapid.T) {
	drawn, text, stack := w.some(rt), texts.Draw(rt, "error"), texts.Draw(rt, "stack")
	w.both(rt, "fail", func(s *world) (any, error) {
		var batch []sqlstore.Failing
		for _, h := range s.handles(drawn) {
			batch = append(batch, sqlstore.Failing{Handle: h, Error: text, Stack: stack})
		}
		answers, err := s.store.Fail(context.Background(), batch)
		return append([]bool{}, answers...), err
	})
}

func (w *twins) release(rt *rapid.T) {
	drawn, delay := w.some(rt), delays.Draw(rt, "delay")
	w.both(rt, "release", func(s *world) (any, error) {
		var batch []sqlstore.Releasing
		for _, h := range s.handles(drawn) {
			batch = append(batch, sqlstore.Releasing{Handle: h, DelayS: delay})
		}
		answers, err := s.store.Release(context.Background(), batch)
		return append([]bool{}, answers...), err
	})
}

// someJobs draws jobs, the same perhaps twice, and now and then an id that is none.
func (w *twins) someJobs(rt *rapid.T) []int64 {
	drawn := []int64{}
	for range rapid.IntRange(0, 3).Draw(rt, "jobs") {
		o := rapid.Int64Range(0, int64(len(w.model.ids))).Draw(rt, "job")
		if o == 0 {
			o = rapid.SampledFrom(oddIDs).Draw(rt, "id")
		}
		drawn = append(drawn, o)
	}
	return drawn
}

func (w *twins) cancel(rt *rapid.T) {
	w.byID(rt, "cancel", func(s sqlstore.Store) byID { return s.Cancel })
}

func (w *twins) requeue(rt *rapid.T) {
	w.byID(rt, "requeue", func(s sqlstore.Store) byID { return s.Requeue })
}

func (w *twins) purge(rt *rapid.T) {
	w.byID(rt, "purge", func(s sqlstore.Store) byID { return s.Purge })
}

type byID = func(ctx context.Context, ids []int64) ([]bool, error)

func (w *twins) byID(rt *rapid.T, what string, method func(sqlstore.Store) byID) {
	drawn := w.someJobs(rt)
	w.both(rt, what, func(s *world) (any, error) {
		answers, err := method(s.store)(context.Background(), s.idsOf(drawn))
		return append([]bool{}, answers...), err
	})
	w.whole(rt, drawn)
}

func (w *twins) matching(rt *rapid.T) {
	f := sqlstore.DeadFilter{
		Queue:      rapid.SampledFrom(append([]string{""}, queues...)).Draw(rt, "queue"),
		OlderThanS: optionally(rapid.SampledFrom([]int64{0, 1, 10, 60, math.MaxInt64 / 1_000_000_000})).Draw(rt, "older than"),
	}
	limit, requeue := rapid.SampledFrom([]int64{1000, 1, 2, 0, -1}).Draw(rt, "limit"), rapid.Bool().Draw(rt, "requeue")
	w.both(rt, "matching", func(s *world) (any, error) {
		if requeue {
			return s.store.RequeueMatching(context.Background(), f, limit)
		}
		return s.store.PurgeMatching(context.Background(), f, limit)
	})
}

func (w *twins) sweep(rt *rapid.T) {
	queue, text := queueNames.Draw(rt, "queue"), texts.Draw(rt, "text")
	w.both(rt, "sweep", func(s *world) (any, error) { return s.store.SweepExpired(context.Background(), queue, text) })
}

func (w *twins) pause(rt *rapid.T) {
	queue, paused := queueNames.Draw(rt, "queue"), rapid.IntRange(0, 2).Draw(rt, "paused") == 2
	w.both(rt, "pause", func(s *world) (any, error) { return nil, s.store.SetPaused(context.Background(), queue, paused) })
}

func (w *twins) list(rt *rapid.T) {
	before := rapid.Int64Range(0, int64(len(w.model.ids))).Draw(rt, "before")
	f := sqlstore.Filter{
		Queue:        rapid.SampledFrom(append([]string{""}, queues...)).Draw(rt, "queue"),
		State:        rapid.SampledFrom([]sqlstore.State{"", sqlstore.Pending, sqlstore.Processing, sqlstore.Dead}).Draw(rt, "state"),
		Limit:        rapid.SampledFrom([]int64{1000, 1, 2, 5, 0, -1}).Draw(rt, "limit"),
		PayloadLimit: rapid.SampledFrom([]int64{0, 1, 1024, 1500, math.MaxInt64}).Draw(rt, "payload limit"),
	}
	names := rapid.SliceOfN(queueNames, 0, 2).Draw(rt, "queues")
	w.both(rt, "list", func(s *world) (any, error) {
		f := f
		f.Before = s.id(before)
		page, err1 := s.store.ListJobs(context.Background(), f)
		idle, err2 := s.store.Idle(context.Background(), names)
		now, next, err3 := s.store.NextReady(context.Background(), names)
		return []any{s.rows(page), idle, now, next}, errors.Join(err1, err2, err3)
	})
}

// errPlan is the error of a change or a plan.
var errPlan = errors.New("this one cannot be read")

func (w *twins) register(rt *rapid.T) {
	name, kind := scheduleNames.Draw(rt, "name"), rapid.IntRange(0, 5).Draw(rt, "kind")
	s := sqlstore.Schedule{
		Queue: queueNames.Draw(rt, "queue"), Spec: "@every 7s", Payload: make([]byte, sizes.Draw(rt, "size")),
		Anchor: optionally(rapid.Int64Range(0, 1000)).Draw(rt, "anchor"), CatchUp: rapid.Int64Range(1, 64).Draw(rt, "catch up"),
		Paused: rapid.IntRange(0, 3).Draw(rt, "paused") == 3, Fire: sqlstore.FireOptions{
			Priority: rapid.Int64Range(-1, 1).Draw(rt, "priority"),
			ExpiresS: optionally(rapid.SampledFrom([]int64{0, 10, 60})).Draw(rt, "expires"), Stamps: stampings.Draw(rt, "stamps"),
		},
	}
	delay := rapid.Int64Range(-20, 20).Draw(rt, "delay")
	w.both(rt, "register", func(world *world) (any, error) {
		var saw *sqlstore.Schedule
		err := world.store.Register(context.Background(), name, func(now int64, have *sqlstore.Schedule) (*sqlstore.Schedule, error) {
			saw = have
			switch kind {
			case 0:
				return nil, errPlan
			case 1:
				return nil, nil
			}
			c := s
			c.NextFireAt = now + delay
			return &c, nil
		})
		return saw, err
	})
}

func (w *twins) unregister(rt *rapid.T) {
	name := scheduleNames.Draw(rt, "name")
	w.both(rt, "unregister", func(s *world) (any, error) { return s.store.Unregister(context.Background(), name) })
}

func (w *twins) tick(rt *rapid.T) {
	bad := rapid.SampledFrom([]string{"", "", "s"}).Draw(rt, "bad")
	most := rapid.SampledFrom([]int{1, 3, sqlstore.MaxCatchUpFires, sqlstore.MaxCatchUpFires + 1}).Draw(rt, "most")
	plan := func(now int64, due sqlstore.Schedule) (sqlstore.Plan, error) {
		if due.Name == bad {
			return sqlstore.Plan{}, errPlan
		}
		p := sqlstore.Plan{NextFireAt: due.NextFireAt}
		for ; p.NextFireAt <= now; p.NextFireAt += 7 {
			if len(p.Boundaries) < most {
				p.Boundaries = append(p.Boundaries, p.NextFireAt)
			}
		}
		return p, nil
	}
	w.both(rt, "tick", func(s *world) (any, error) {
		ticked, err := s.store.Tick(context.Background(), plan)
		answer := []string{}
		for _, tk := range ticked {
			answer = append(answer, fmt.Sprint(tk.Name, tk.Queue, s.learn(tk.IDs), kindOf(tk.Err)))
		}
		return answer, err
	})
}

func (w *twins) fire(rt *rapid.T) {
	name := scheduleNames.Draw(rt, "name")
	w.both(rt, "fire", func(s *world) (any, error) {
		id, ok, err := s.store.FireNow(context.Background(), name, func(sqlstore.Schedule) error { return nil })
		if !ok {
			return id, err
		}
		return s.learn([]int64{id}), err
	})
}

func (w *twins) lead(rt *rapid.T) {
	lock, owner := rapid.SampledFrom([]string{"scheduler", "other"}).Draw(rt, "lock"), workers.Draw(rt, "owner")
	resign, ttl := rapid.IntRange(0, 2).Draw(rt, "resign") == 2, rapid.Int64Range(1, 10).Draw(rt, "ttl")
	w.both(rt, "lead", func(s *world) (any, error) {
		if resign {
			return nil, s.store.Resign(context.Background(), lock, owner)
		}
		return s.store.Lead(context.Background(), lock, owner, ttl)
	})
}

func (w *twins) announce(rt *rapid.T) {
	worker, withdraw := workers.Draw(rt, "worker"), rapid.IntRange(0, 2).Draw(rt, "withdraw") == 2
	names, ttl := rapid.SliceOfNDistinct(queueNames, 0, 2, rapid.ID).Draw(rt, "queues"), rapid.Int64Range(1, 30).Draw(rt, "ttl")
	w.both(rt, "announce", func(s *world) (any, error) {
		if withdraw {
			return nil, s.store.Withdraw(context.Background(), worker)
		}
		return nil, s.store.Announce(context.Background(), worker, names, ttl)
	})
}
