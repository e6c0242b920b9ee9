package storetest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

func watchRules() []rule {
	rules := []rule{
		{name: "Watch_ends_with_its_context", test: watchEnds},
		{name: "Watch_ends_when_the_store_is_closed", test: watchCloses},
		{name: "Watch_wakes_every_watcher", test: watchersAll},
		{name: "Watch_calls_wake_from_one_goroutine_at_a_time", test: wakeIsSerial},
		{name: "Watch_sees_changes_of_another_handle_after_a_poll", test: watchPolls, needs: hasSecond},
	}
	for _, w := range wakings() {
		rules = append(rules, rule{name: "Watch_wakes_on_" + w.name, test: func(e *env) { wakesOn(e, w) }})
	}
	return rules
}

// waking is a change that can make work of the queue "mail" claimable. prepare is over before the watch begins. The queue
// of a new job is known and has to be named: a nameless signal may be that of a look that was due anyway.
type waking struct {
	name    string
	named   bool
	prepare func(e *env) (change func())
}

func wakings() []waking {
	held := func(change func(e *env, h sqlstore.Handle)) func(e *env) func() {
		return func(e *env) func() {
			_, h := e.hold(newJob("mail"))
			return func() { change(e, h) }
		}
	}
	dead := func(change func(e *env, id int64)) func(e *env) func() {
		return func(e *env) func() {
			id := e.buryOne(newJob("mail"))
			return func() { change(e, id) }
		}
	}
	scheduled := func(change func(e *env)) func(e *env) func() {
		return func(e *env) func() {
			e.register("nightly", "mail")
			return func() { change(e) }
		}
	}
	return []waking{
		{"enqueue", true, func(e *env) func() { return func() { e.enqueue(newJob("mail")) } }},
		{"enqueue_of_a_delayed_job", true, func(e *env) func() {
			j := newJob("mail")
			j.DelayS = 100
			return func() { e.enqueue(j) }
		}},
		{"retry", false, held(func(e *env, h sqlstore.Handle) { e.retry(sqlstore.Retrial{Handle: h, DelayS: 3}) })},
		{"release", false, held(func(e *env, h sqlstore.Handle) { e.release(h) })},
		{"requeue", false, dead(func(e *env, id int64) { e.requeue(id) })},
		{"requeue_by_filter", false, dead(func(e *env, _ int64) {
			e.ok(second(e.store.RequeueMatching(e.Context(), sqlstore.DeadFilter{}, 10)))
		})},
		{"resume", false, func(e *env) func() {
			e.enqueue(newJob("mail"))
			e.ok(e.store.SetPaused(e.Context(), "mail", true))
			return func() { e.ok(e.store.SetPaused(e.Context(), "mail", false)) }
		}},
		{"register", false, func(e *env) func() { return func() { e.register("nightly", "mail") } }},
		{"tick", true, scheduled(func(e *env) {
			e.advance(60)
			same(e, "ticked", len(e.tick()), 1)
		})},
		{"fire", true, scheduled(func(e *env) {
			_, ok, err := e.store.FireNow(e.Context(), "nightly", anySchedule)
			e.ok(err)
			same(e, "fired", ok, true)
		})},
	}
}

// patience is how long a test waits for a signal that should come at once.
const patience = 10 * time.Second

// watch is one Watch in progress.
type watch struct {
	e    *env
	woke chan string
	end  chan error
}

// watching starts a Watch and returns once it is known to be listening.
func (e *env) watching(s sqlstore.Store, poll time.Duration) *watch {
	e.Helper()
	ctx, stop := context.WithCancel(e.Context())
	w := &watch{e: e, woke: make(chan string, 1<<12), end: make(chan error, 1)}
	go func() {
		w.end <- s.Watch(ctx, poll, func(queue string) {
			select {
			case w.woke <- queue:
			default: // the test has stopped reading
			}
		})
	}()
	e.Cleanup(func() {
		stop()
		if err := <-w.end; err != nil && !errors.Is(err, context.Canceled) {
			e.Errorf("Watch ended: %v", err)
		}
	})
	patience := time.After(patience)
	for listening := false; !listening; {
		id := e.enqueueOne(newJob("warm-up"))
		select {
		case q := <-w.woke:
			listening = q == "warm-up"
		case <-time.After(time.Millisecond):
		case err := <-w.end:
			w.end <- nil // for the cleanup
			e.Fatalf("Watch ended: %v", err)
		case <-patience:
			e.Fatal("Watch gives no signal")
		}
		e.cancel(id)
	}
	for len(w.woke) > 0 {
		<-w.woke
	}
	return w
}

// wants waits until the queue is named, or, unless it has to be, no queue in particular.
func (w *watch) wants(queue string, named bool) {
	w.e.Helper()
	patience := time.After(patience)
	for {
		select {
		case q := <-w.woke:
			if q == queue || q == "" && !named {
				return
			}
		case <-patience:
			w.e.Fatalf("no signal for %q", queue)
		}
	}
}

func wakesOn(e *env, w waking) {
	change := w.prepare(e)
	watch := e.watching(e.store, time.Hour)
	change()
	watch.wants("mail", w.named)
}

func watchEnds(e *env) {
	ctx, cancel := context.WithCancel(e.Context())
	end := make(chan error)
	go func() { end <- e.store.Watch(ctx, time.Hour, func(string) {}) }()
	cancel()
	if err := <-end; !errors.Is(err, context.Canceled) {
		e.Errorf("Watch with a cancelled context: got %v, want context.Canceled", err)
	}
	ctx, cancel = context.WithTimeout(e.Context(), time.Millisecond)
	defer cancel()
	if err := e.store.Watch(ctx, time.Hour, func(string) {}); !errors.Is(err, context.DeadlineExceeded) {
		e.Errorf("Watch past its deadline: got %v, want context.DeadlineExceeded", err)
	}
}

func watchCloses(e *env) {
	e.closed = true
	w := e.watching(e.store, time.Hour)
	e.ok(e.store.Close())
	err := <-w.end
	w.end <- nil // for the cleanup
	if !errors.Is(err, sqlstore.ErrClosed) {
		e.Errorf("Watch of a closed store: got %v, want ErrClosed", err)
	}
}

func watchersAll(e *env) {
	a, b := e.watching(e.store, time.Hour), e.watching(e.store, time.Hour)
	for range 3 {
		e.enqueue(newJob("mail"), newJob("other"))
		a.wants("mail", false)
		b.wants("mail", false)
	}
}

func wakeIsSerial(e *env) {
	var inside atomic.Int64
	ctx, stop := context.WithCancel(e.Context())
	woken, end := make(chan struct{}, 1), make(chan error)
	go func() {
		end <- e.store.Watch(ctx, time.Millisecond, func(string) {
			if inside.Add(1) != 1 {
				e.Error("wake is called by two goroutines at once")
			}
			select {
			case woken <- struct{}{}:
			default:
			}
			inside.Add(-1)
		})
	}()
	for i := range 60 {
		e.enqueue(newJob([]string{"a", "b", "c"}[i%3]))
	}
	<-woken
	stop()
	if err := <-end; !errors.Is(err, context.Canceled) {
		e.Errorf("Watch: got %v, want context.Canceled", err)
	}
}

func watchPolls(e *env) {
	w := e.watching(e.store, 10*time.Millisecond)
	other := e.handles(2)[1]
	e.ok(second(other.Enqueue(e.Context(), jobs(1, newJob("mail")))))
	w.wants("mail", false)
}
