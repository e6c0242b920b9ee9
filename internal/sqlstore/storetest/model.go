package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/memory"
)

func modelRules() []rule {
	return []rule{{name: "D5_random_histories_agree_with_the_model", test: agreesWithModel}}
}

// agreesWithModel does the same random things to the store and to the memory store, and compares each answer and,
// from time to time, every job. STORETEST_SEED repeats a run.
func agreesWithModel(e *env) {
	const steps = 800
	seed := rand.Uint64()
	if s, err := strconv.ParseUint(os.Getenv("STORETEST_SEED"), 10, 64); err == nil {
		seed = s
	}
	e.Logf("seed: STORETEST_SEED=%d", seed)
	h := &history{Rand: rand.New(rand.NewPCG(seed, 0))}
	subject := &world{store: e.store, ordinals: make(map[int64]int64)}
	model := &world{
		store:    booked{memory.New(memory.Options{Clock: e.h.Clock.Now}), newBooks()},
		ordinals: make(map[int64]int64),
	}
	for i := range steps {
		if h.IntN(4) == 0 {
			e.advance(h.Int64N(12))
		}
		name, do := h.next()
		got, gotErr := do(e, subject)
		want, wantErr := do(e, model)
		if d := diff(want, got); d != "" || (gotErr == nil) != (wantErr == nil) {
			e.Fatalf("step %d, %s: got error %v, want %v; answers (-want +got):\n%s", i, name, gotErr, wantErr, d)
		}
		h.seen(want)
		if i%50 == 49 {
			same(e, fmt.Sprintf("jobs after step %d, %s", i, name), subject.everything(e), model.everything(e))
		}
	}
}

// world is one of the two stores. Jobs go by their ordinal, the order in which they were enqueued, from 1: the ids of
// the two need not agree.
type world struct {
	store    sqlstore.Store
	ids      []int64
	ordinals map[int64]int64
}

func (w *world) learn(ids []int64) []int64 {
	var ordinals []int64
	for _, id := range ids {
		w.ids = append(w.ids, id)
		w.ordinals[id] = int64(len(w.ids))
		ordinals = append(ordinals, w.ordinals[id])
	}
	return ordinals
}

func (w *world) id(ordinal int64) int64 { return w.ids[ordinal-1] }

func (w *world) handle(h sqlstore.Handle) sqlstore.Handle {
	return sqlstore.Handle{ID: w.id(h.ID), Fence: h.Fence}
}

func (w *world) rows(rows []sqlstore.Row) []sqlstore.Row {
	renamed := []sqlstore.Row{}
	for _, r := range rows {
		r.ID = w.ordinals[r.ID]
		renamed = append(renamed, r)
	}
	return renamed
}

func (w *world) everything(e *env) []sqlstore.Row {
	e.Helper()
	var rows []sqlstore.Row
	for _, r := range listAll(e.T, w.store) {
		full, err := w.store.GetJob(e.Context(), r.ID)
		e.ok(err)
		rows = append(rows, *full)
	}
	return w.rows(rows)
}

// history draws what to do next.
type history struct {
	*rand.Rand
	jobs    int64 // enqueued so far
	handles []sqlstore.Handle
}

// seen takes note of new jobs and claims in an answer.
func (h *history) seen(answer any) {
	switch a := answer.(type) {
	case enqueued:
		h.jobs += int64(len(a))
	case claimed:
		for _, r := range a {
			h.handles = append(h.handles, handle(r))
		}
	case []sqlstore.Ticked:
		for _, tk := range a {
			h.jobs += int64(len(tk.IDs))
		}
	}
}

type (
	enqueued []int64
	claimed  []sqlstore.Row
	step     func(e *env, w *world) (answer any, err error)
)

func (h *history) queue() string { return []string{"a", "b", "c"}[h.IntN(3)] }

func (h *history) schedule() string { return []string{"s", "t"}[h.IntN(2)] }

// some draws up to three distinct claims, mostly recent ones.
func (h *history) some() []sqlstore.Handle {
	var drawn []sqlstore.Handle
	used := make(map[sqlstore.Handle]bool)
	for range h.IntN(4) {
		if len(h.handles) == 0 {
			break
		}
		recent := max(0, len(h.handles)-1-int(h.ExpFloat64()*4))
		if c := h.handles[recent]; !used[c] {
			drawn, used[c] = append(drawn, c), true
		}
	}
	return drawn
}

// ordinalsOf draws up to three distinct jobs.
func (h *history) ordinalsOf() []int64 {
	var drawn []int64
	used := make(map[int64]bool)
	for range h.IntN(4) {
		if h.jobs == 0 {
			break
		}
		if o := 1 + h.Int64N(h.jobs); !used[o] {
			drawn, used[o] = append(drawn, o), true
		}
	}
	return drawn
}

func (h *history) next() (string, step) {
	steps := map[string]func() step{
		"enqueue": h.enqueue, "claim": h.claim, "ack": h.ack, "heartbeat": h.heartbeat, "retry": h.retry,
		"fail": h.fail, "release": h.release, "by id": h.byID, "matching": h.matching, "sweep": h.sweep,
		"pause": h.pause, "read": h.read, "schedule": h.reschedule, "tick": h.tick, "fire": h.fire,
	}
	names := []string{
		"enqueue", "enqueue", "enqueue", "claim", "claim", "claim", "claim", "ack", "heartbeat", "retry", "retry",
		"retry", "fail", "release", "by id", "by id", "matching", "sweep", "pause", "read", "read", "schedule", "tick",
		"fire",
	}
	name := names[h.IntN(len(names))]
	return name, steps[name]()
}

func (h *history) maybe(limit int64) *int64 {
	if h.IntN(3) > 0 {
		return nil
	}
	return new(h.Int64N(limit))
}

func (h *history) stamps() sqlstore.Stamps {
	return sqlstore.Stamps{
		VisibilityTimeoutS: 1 + h.Int64N(30), MaxAttempts: 1 + h.Int64N(4), BackoffBaseS: h.Int64N(9),
		DeadLetterRetentionS: h.maybe(60),
	}
}

func (h *history) enqueue() step {
	batch := make([]sqlstore.NewJob, 1+h.IntN(4))
	for i := range batch {
		batch[i] = sqlstore.NewJob{
			Queue: h.queue(), Payload: make([]byte, h.IntN(2000)), Priority: h.Int64N(3) - 1, DelayS: h.Int64N(3) * 10,
			ExpiresS: h.maybe(90), Stamps: h.stamps(), // some expire before they are ready: none of the batch is stored
		}
	}
	return func(e *env, w *world) (any, error) {
		ids, err := w.store.Enqueue(e.Context(), batch)
		return enqueued(w.learn(ids)), err
	}
}

func (h *history) claim() step {
	c := claimOf(h.queue(), 1+h.Int64N(5))
	c.Kind = sqlstore.ClaimKind(max(0, h.IntN(6)-3)) // mostly any
	c.Claimant = fmt.Sprint("worker ", h.IntN(3))
	return func(e *env, w *world) (any, error) {
		rows, err := w.store.ClaimBatch(e.Context(), c)
		return claimed(w.rows(rows)), err
	}
}

func (h *history) ack() step {
	drawn := h.some()
	return func(e *env, w *world) (any, error) {
		var handles []sqlstore.Handle
		for _, d := range drawn {
			handles = append(handles, w.handle(d))
		}
		answers, err := w.store.AckBatch(e.Context(), handles)
		return append([]bool{}, answers...), err
	}
}

func (h *history) heartbeat() step {
	drawn, s := h.some(), h.maybe(50)
	return func(e *env, w *world) (any, error) {
		var extensions []sqlstore.Extension
		for _, d := range drawn {
			extensions = append(extensions, sqlstore.Extension{Handle: w.handle(d), S: s})
		}
		answers, err := w.store.Heartbeat(e.Context(), extensions)
		return append([]bool{}, answers...), err
	}
}

func (h *history) retry() step {
	drawn, delay, text := h.some(), h.Int64N(15), fmt.Sprint("error ", h.IntN(1000))
	return func(e *env, w *world) (any, error) {
		var retries []sqlstore.Retrial
		for _, d := range drawn {
			retries = append(retries, sqlstore.Retrial{
				Handle: w.handle(d), DelayS: delay, Error: text, Stack: text, DeadText: deadText,
			})
		}
		verdicts, err := w.store.Retry(e.Context(), retries)
		return append([]sqlstore.Verdict{}, verdicts...), err
	}
}

func (h *history) fail() step {
	drawn, text := h.some(), fmt.Sprint("error ", h.IntN(1000))
	return func(e *env, w *world) (any, error) {
		var failures []sqlstore.Failing
		for _, d := range drawn {
			failures = append(failures, sqlstore.Failing{Handle: w.handle(d), Error: text})
		}
		answers, err := w.store.Fail(e.Context(), failures)
		return append([]bool{}, answers...), err
	}
}

func (h *history) release() step {
	drawn, delay := h.some(), h.Int64N(15)
	return func(e *env, w *world) (any, error) {
		var releases []sqlstore.Releasing
		for _, d := range drawn {
			releases = append(releases, sqlstore.Releasing{Handle: w.handle(d), DelayS: delay})
		}
		answers, err := w.store.Release(e.Context(), releases)
		return append([]bool{}, answers...), err
	}
}

func (h *history) byID() step {
	drawn, which := h.ordinalsOf(), h.IntN(4)
	return func(e *env, w *world) (any, error) {
		var ids []int64
		for _, d := range drawn {
			ids = append(ids, w.id(d))
		}
		do := w.store.Requeue // twice as likely as the others, or there is nothing left to do
		switch which {
		case 0:
			do = w.store.Cancel
		case 1:
			do = w.store.Purge
		}
		answers, err := do(e.Context(), ids)
		return append([]bool{}, answers...), err
	}
}

func (h *history) matching() step {
	f, limit, requeue := sqlstore.DeadFilter{Queue: h.queue(), OlderThanS: h.maybe(30)}, h.Int64N(4), h.IntN(3) > 0
	if h.IntN(3) == 0 {
		f.Queue = ""
	}
	return func(e *env, w *world) (any, error) {
		if requeue {
			return w.store.RequeueMatching(e.Context(), f, limit)
		}
		return w.store.PurgeMatching(e.Context(), f, limit)
	}
}

func (h *history) sweep() step {
	queue := h.queue()
	return func(e *env, w *world) (any, error) { return w.store.SweepExpired(e.Context(), queue, expiredText) }
}

func (h *history) pause() step {
	queue, paused := h.queue(), h.IntN(4) == 0
	return func(e *env, w *world) (any, error) { return nil, w.store.SetPaused(e.Context(), queue, paused) }
}

func (h *history) read() step {
	f := sqlstore.Filter{Limit: 1 + h.Int64N(9), PayloadLimit: h.Int64N(1500)}
	if h.IntN(2) == 0 {
		f.Queue = h.queue()
	}
	if h.IntN(2) == 0 {
		f.State = []sqlstore.State{sqlstore.Pending, sqlstore.Processing, sqlstore.Dead}[h.IntN(3)]
	}
	return func(e *env, w *world) (any, error) {
		page, err1 := w.store.ListJobs(e.Context(), f)
		stats, err2 := w.store.Stats(e.Context())
		queues, err3 := w.store.Queues(e.Context())
		now, next, err4 := w.store.NextReady(e.Context(), []string{"a", "b", "c"})
		at, due, err5 := w.store.Soonest(e.Context())
		schedules, err6 := w.store.ListSchedules(e.Context())
		idle, err7 := w.store.Idle(e.Context(), []string{f.Queue})
		return []any{
			w.rows(page), append([]sqlstore.QueueStats{}, stats...), append([]string{}, queues...), now, next, at, due,
			append([]sqlstore.Schedule{}, schedules...), idle,
		}, errors.Join(err1, err2, err3, err4, err5, err6, err7)
	}
}

func (h *history) reschedule() step {
	name, remove := h.schedule(), h.IntN(6) == 0
	s := sqlstore.Schedule{
		Queue: h.queue(), Spec: "@every 7s", Payload: make([]byte, 1+h.IntN(9)), Anchor: h.maybe(1000),
		CatchUp: h.Int64N(64), Paused: h.IntN(4) == 0, Fire: sqlstore.FireOptions{
			Priority: h.Int64N(3), ExpiresS: h.maybe(90), Stamps: h.stamps(),
		},
	}
	delay := h.Int64N(20)
	return func(e *env, w *world) (any, error) {
		if remove {
			return w.store.Unregister(e.Context(), name)
		}
		return nil, w.store.Register(e.Context(), name, func(now int64, _ *sqlstore.Schedule) (*sqlstore.Schedule, error) {
			c := s
			c.NextFireAt = now + delay
			return &c, nil
		})
	}
}

func (h *history) tick() step {
	return func(e *env, w *world) (any, error) {
		ticked, err := w.store.Tick(e.Context(), grid(7, 5))
		answer := []sqlstore.Ticked{}
		for _, tk := range ticked {
			tk.IDs = append([]int64{}, w.learn(tk.IDs)...)
			answer = append(answer, tk)
		}
		return answer, err
	}
}

func (h *history) fire() step {
	name := h.schedule()
	return func(e *env, w *world) (any, error) {
		id, ok, err := w.store.FireNow(e.Context(), name)
		if !ok {
			return enqueued{}, err
		}
		return enqueued(w.learn([]int64{id})), err
	}
}
