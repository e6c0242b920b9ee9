package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/runtime"
)

func TestRecord(t *testing.T) {
	t.Parallel()
	const lease = 9 * time.Second

	bubble(t, "K19_acks_are_slow_and_fail_now_and_then_for_a_minute", func(w *world) {
		var acks atomic.Int64
		ids := w.enqueue("q", 400, queue.EnqueueOptions{VisibilityTimeout: lease})
		r := serve("q", w.ledger.taking(300*time.Millisecond), handlers.Options{})
		bad, good := w.prepare(runtime.Config{Concurrency: 4}, r), w.prepare(runtime.Config{Concurrency: 1}, r)
		bad.store.inject(func(ctx context.Context, op string) error {
			if op != "ack" {
				return nil
			}
			if err := slow(500*time.Millisecond)(ctx, op); err != nil || acks.Add(1)%10 != 0 {
				return err
			}
			return queue.ErrBusy
		})
		w.run(bad)
		w.run(good)
		w.pass(time.Minute)
		bad.store.inject(nil)
		w.pass(time.Minute)
		if n := bad.store.failed("ack"); n == 0 {
			w.Error("no fault reached the worker: nothing was tested")
		}
		w.ledger.wantOnce(w.T, ids...)
		w.wantState(gone, ids...)
		w.stop(bad, good)
	})

	bubble(t, "K19_claims_stop_while_no_ack_gets_through", func(w *world) {
		const slots = 4
		ids := w.enqueue("q", 100, queue.EnqueueOptions{VisibilityTimeout: lease})
		p := w.prepare(runtime.Config{Concurrency: slots}, serve("q", w.ledger.taking(100*time.Millisecond), handlers.Options{}))
		p.store.inject(failing(queue.ErrFull, "ack"))
		w.run(p)
		w.pass(time.Minute)
		if n := len(w.ledger.all()); n != 2*slots {
			w.Errorf("%d jobs ran with none acked, want twice the slots", n)
		}
		p.store.inject(nil)
		w.pass(10 * time.Second)
		w.ledger.wantOnce(w.T, ids...)
		w.wantState(gone, ids...)
		w.log.want(w.T, 1, "does not take answers")
		w.log.want(w.T, 1, "takes answers of handlers again")
		w.stop(p)
	})

	bubble(t, "K19_answers_that_come_do_not_make_an_outage_a_hot_loop", func(w *world) {
		w.enqueue("q", 1000, queue.EnqueueOptions{VisibilityTimeout: time.Minute})
		p := w.start(runtime.Config{Concurrency: 1000}, serve("q", func(ctx context.Context, j *queue.Job) error {
			return within(ctx, time.Duration(j.ID)*10*time.Millisecond)
		}, handlers.Options{}))
		p.store.inject(failing(queue.ErrBusy, "ack"))
		w.pass(11 * time.Second)
		if n := p.store.failed("ack"); n < 10 || n > 50 {
			w.Errorf("%d tries for a thousand answers in ten seconds, want two or three a second", n)
		}
		p.store.inject(nil)
		w.pass(time.Second)
		if stats := w.stats("q"); stats.Processing != 0 {
			w.Errorf("got %+v, want all acked", stats)
		}
		w.stop(p)
	})

	bubble(t, "K19_an_answer_is_tried_until_its_lease_ends", func(w *world) {
		ids := w.enqueue("q", 1, queue.EnqueueOptions{VisibilityTimeout: lease})
		r := serve("q", w.ledger.taking(time.Second), handlers.Options{})
		p, other := w.start(runtime.Config{}, r), w.prepare(runtime.Config{}, r)
		synctest.Wait()
		p.store.inject(failing(queue.ErrBusy))
		w.pass(lease - time.Millisecond)
		w.log.want(w.T, 0, "answer was recorded: it is dropped")
		w.run(other)
		w.pass(time.Minute)
		w.log.want(w.T, 1, "claim ended before the answer was recorded: it is dropped")
		if runs := w.ledger.of(ids[0]); len(runs) != 2 || runs[1].attempt != 2 {
			w.Errorf("got %+v, want a second run because the lease had truly lapsed", runs)
		}
		w.wantState(gone, ids...)
		w.stop(p, other)
		w.log.want(w.T, 0, "level=ERROR") // K107
	})

	bubble(t, "K107_an_answer_that_is_refused_is_no_error", func(w *world) {
		ids := w.enqueue("q", 4, queue.EnqueueOptions{VisibilityTimeout: time.Hour})
		p := w.start(runtime.Config{}, serve("q", func(_ context.Context, j *queue.Job) error {
			if _, err := w.client.Cancel(w.Context(), j.ID); err != nil {
				return err
			}
			switch j.ID {
			case ids[0]:
				return nil
			case ids[1]:
				return errors.New("boom")
			case ids[2]:
				return handlers.Fail(nil)
			}
			return handlers.Snooze(0)
		}, handlers.Options{}))
		w.pass(time.Second)
		w.wantState(gone, ids...)
		w.log.want(w.T, 4, "came after the claim was over and is dropped")
		w.log.want(w.T, 0, "level=ERROR")
		w.stop(p)
	})

	bubble(t, "an_ack_whose_answer_was_lost_is_repeated_and_harmless", func(w *world) {
		ids := w.enqueue("q", 3, queue.EnqueueOptions{})
		p := w.prepare(runtime.Config{}, serve("q", w.ledger.taking(time.Second), handlers.Options{}))
		p.store.injectAfter(first(1, failing(queue.ErrUnavailable), "ack"))
		w.run(p)
		w.pass(time.Minute)
		w.ledger.wantOnce(w.T, ids...)
		w.wantState(gone, ids...)
		w.log.want(w.T, 0, "level=ERROR")
		w.stop(p)
	})

	bubble(t, "answers_of_all_kinds_survive_an_outage", func(w *world) {
		ids := w.enqueue("q", 5, queue.EnqueueOptions{BackoffBase: time.Hour})
		p := w.prepare(runtime.Config{}, serve("q", func(_ context.Context, j *queue.Job) error {
			switch j.ID {
			case ids[0]:
				return errors.New("boom")
			case ids[1]:
				return handlers.Fail(nil)
			case ids[2]:
				return handlers.Snooze(time.Hour)
			case ids[3]:
				return handlers.Cancel(nil)
			}
			return nil
		}, handlers.Options{}))
		p.store.inject(failing(queue.ErrBusy, "ack", "retry", "fail", "release"))
		w.run(p)
		w.pass(time.Minute)
		w.wantState(queue.Processing, ids...)
		p.store.inject(nil)
		w.pass(time.Second)
		for i, want := range []queue.State{queue.Pending, queue.Dead, queue.Pending, gone, gone} {
			w.wantState(want, ids[i])
		}
		w.stop(p)
	})

	bubble(t, "answers_that_came_meanwhile_go_in_one_statement", func(w *world) {
		w.enqueue("q", 12, queue.EnqueueOptions{})
		p := w.start(runtime.Config{Concurrency: 12}, serve("q", func(ctx context.Context, j *queue.Job) error {
			return within(ctx, time.Duration(j.ID)*10*time.Millisecond)
		}, handlers.Options{}))
		p.store.inject(first(1, slow(time.Second), "ack"))
		w.pass(time.Minute)
		acks := p.store.made("ack")
		if len(acks) != 2 || acks[0].n != 1 || acks[1].n != 11 {
			w.Errorf("got acks %+v, want one of 1 and one of 11", acks)
		}
		w.stop(p)
	})
}

// The last call may go well and take longer than there is time. What came meanwhile was never tried, and Run says so.
func TestAnswersWithoutATry(t *testing.T) {
	for n := range 10 { // what is found first, the answers or the end, is left to chance
		bubble(t, fmt.Sprint(n), func(w *world) {
			ids := w.enqueue("q", 3, queue.EnqueueOptions{VisibilityTimeout: time.Hour})
			p := w.start(runtime.Config{}, serve("q", func(ctx context.Context, j *queue.Job) error {
				return within(ctx, time.Duration(j.ID)*time.Second)
			}, handlers.Options{}))
			p.store.injectAfter(func(_ context.Context, op string) error {
				if op == "ack" {
					sleep(15 * time.Second)
				}
				return nil
			})
			w.pass(500 * time.Millisecond)
			p.Stop()
			err := p.wait()
			lost := 0
			for _, id := range ids {
				if w.state(id) != gone {
					lost++
				}
			}
			if lost > 0 && (err == nil || !strings.Contains(err.Error(), "answers of handlers")) {
				w.Errorf("%d answers are not recorded, and Run returned %v", lost, err)
			}
		})
	}
}

func TestOutageLog(t *testing.T) {
	t.Parallel()

	bubble(t, "each_outage_is_told_at_its_two_ends", func(w *world) {
		p := w.start(runtime.Config{}, serve("q", w.ledger.taking(10*time.Millisecond), handlers.Options{}))
		for range 2 {
			p.store.inject(failing(queue.ErrBusy, "ack"))
			w.enqueue("q", 1, queue.EnqueueOptions{})
			w.pass(10 * time.Minute)
			p.store.inject(nil)
			w.pass(time.Second)
			w.enqueue("q", 20, queue.EnqueueOptions{})
			w.pass(10 * time.Minute)
		}
		w.log.want(w.T, 2, "level=WARN", "does not take answers", queue.ErrBusy.Error())
		w.log.want(w.T, 2, "level=INFO", "takes answers of handlers again", "after=9m59.")
		if n := p.store.failed("ack"); n < 2000 || n > 10000 {
			w.Errorf("%d tries in twenty minutes, want two or three a second", n)
		}
		w.stop(p)
	})
}
