package runtime

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/alkstore/alkworker/handlers"
)

const (
	// cancelGrace is how long handlers have to return after their contexts were cancelled. A child process that has to be
	// killed takes five seconds of it.
	cancelGrace = 10 * time.Second

	// recordGrace is how long answers may take to be recorded after the last handler has returned, if the database is away.
	recordGrace = 10 * time.Second
)

// windDown waits for the work to end and then takes the worker apart: claims have stopped; handlers finish or are
// cancelled; answers are recorded, with heartbeats going on until the last; then everything else ends.
func (w *Worker) windDown(
	claiming context.Context, work, support *errgroup.Group, release func(),
) error {
	<-claiming.Done()
	// From now on, not from when the last claim has come back: a database that hangs must not prolong the drain.
	deadline := time.Now().Add(w.config.Drain)
	if n, _ := w.flight.counts(); n > 0 {
		w.log.Info("stopping: no new jobs, waiting for running ones", "running", n, "drain", w.config.Drain)
	}
	drain := time.AfterFunc(w.config.Drain, func() {
		if n, _ := w.flight.counts(); n > 0 {
			w.log.Warn("drain is over: cancelling running handlers", "running", n)
		}
		w.flight.abandon(handlers.ErrShutdown)
	})
	workErr := work.Wait()
	if errors.Is(workErr, errIdle) {
		workErr = nil
	}
	w.flight.wait(time.Until(deadline.Add(cancelGrace)))
	drain.Stop()
	stuck := w.leaveStuck()

	w.answers.close()
	timer := time.AfterFunc(recordGrace, release)
	supportErr := support.Wait()
	timer.Stop()
	return errors.Join(workErr, supportErr, stuck)
}

// leaveStuck gives up on the handlers that have not returned.
func (w *Worker) leaveStuck() error {
	left := w.flight.leaveBehind()
	if len(left) == 0 {
		return nil
	}
	for _, a := range left {
		a.log().Error("handler did not return after its context was cancelled: left behind, its job runs again once its claim "+
			"lapses", "since", time.Since(a.started).Round(time.Millisecond))
	}
	return fmt.Errorf("%w: %d left behind", ErrHandlersStuck, len(left))
}
