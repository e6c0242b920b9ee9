package storetest

import (
	"errors"
	"sync"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

func closeRules() []rule {
	return []rule{
		{name: "T5_every_call_on_a_closed_store_answers_ErrClosed", test: everyCallAfterClose},
		{name: "T6_calls_during_close_finish_or_are_refused", test: closeAmongCalls},
		{name: "E1_jobs_outlive_the_handle", test: jobsOutliveTheHandle, needs: hasSecond},
	}
}

func everyCallAfterClose(e *env) {
	e.closed = true
	var tx sqlstore.Tx
	if e.h.Begin != nil {
		tx = e.begin().Tx
	}
	e.ok(e.store.Close())
	for _, c := range e.calls(tx) {
		err := c.do(e.Context(), e.store)
		if !errors.Is(err, sqlstore.ErrClosed) {
			e.Errorf("%s on a closed store: got %v, want ErrClosed", c.method, err)
		}
		if typed, ok := errors.AsType[*sqlstore.Error](err); !ok || typed.Op == "" {
			e.Errorf("%s on a closed store: got %#v, want a *sqlstore.Error with its operation", c.method, err)
		}
	}
	if err := e.store.Close(); err != nil && !errors.Is(err, sqlstore.ErrClosed) {
		e.Errorf("second Close: got %v, want nil or ErrClosed", err)
	}
}

func closeAmongCalls(e *env) {
	e.closed = true
	var callers sync.WaitGroup
	started := make(chan struct{}, 4)
	for range cap(started) {
		callers.Go(func() {
			for i := 0; ; i++ {
				if i == 2 {
					started <- struct{}{}
				}
				if _, err := e.store.Enqueue(e.Context(), jobs(2, newJob("mail"))); err != nil {
					if !errors.Is(err, sqlstore.ErrClosed) {
						e.Errorf("Enqueue during Close: got %v, want ErrClosed", err)
					}
					return
				}
			}
		})
	}
	for range cap(started) {
		<-started
	}
	if err := e.store.Close(); err != nil {
		e.Errorf("Close: %v", err)
	}
	callers.Wait()
}

func jobsOutliveTheHandle(e *env) {
	pending := e.enqueueOne(newJob("mail"))
	_, h := e.hold(newJob("held"))
	dead := e.buryOne(newJob("grave"))
	e.unchanged("reopening", e.reopen)
	e.states(sqlstore.Pending, pending)
	e.states(sqlstore.Dead, dead)
	same(e, "ack of a claim made through the closed handle", e.ack(h), []bool{true})
}
