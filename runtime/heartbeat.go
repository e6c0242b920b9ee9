package runtime

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
)

// heartbeats is how many fit into a visibility timeout, so that two may fail.
const heartbeats = 3

// whyTimeout bounds how long one round of heartbeats asks why claims were lost: the others need the next round.
const whyTimeout = time.Second

// anotherRound is how much of a lease has to be left for another round of heartbeats: more than the pause before it.
const anotherRound = time.Second

// keepClaims extends all claims of the worker, in one statement, until ctx ends. Nothing else of the worker runs in this
// loop, and the store lets heartbeats overtake every other write. // K6
//
// A failure that will not pass stops the worker and is returned at the end. Until then the loop goes on: whoever still
// runs learns when its claim is over.
func (w *Worker) keepClaims(ctx context.Context, stop func()) (failed error) {
	trouble := newOutage(w.log, "heartbeats")
	timer := time.NewTimer(longestLook)
	defer timer.Stop()
	var notBefore time.Time
	for {
		wait := longestLook
		held, due, end := w.flight.claimsHeld()
		if len(held) > 0 {
			pause := time.Until(notBefore)
			if !end.IsZero() { // however long: no claim ends without a last try, or unnoticed
				pause = min(pause, time.Until(end))
			}
			wait = max(time.Until(due), pause, 0)
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return failed
		case <-w.flight.arrived:
			continue
		case <-timer.C:
		}
		if held, due, end = w.flight.claimsHeld(); len(held) == 0 || time.Now().Before(due) {
			continue // the claim that was due is over
		}
		err := w.beat(ctx, held, end)
		switch {
		case err == nil:
			trouble.over()
		case ctx.Err() != nil:
			return failed
		case queue.Transient(err), errors.Is(err, context.DeadlineExceeded):
			notBefore = time.Now().Add(trouble.wait(err))
		default:
			notBefore = time.Now().Add(trouble.pause())
			if failed == nil {
				failed = err
				stop()
			}
		}
	}
}

// beat extends the claims, the next of which ends at the given time. Those that turn out to be over, or whose time is
// up without an answer from the database, are lost.
func (w *Worker) beat(ctx context.Context, held []*attempt, end time.Time) error {
	handles := make([]queue.Handle, len(held))
	for i, a := range held {
		handles[i] = a.job.Handle()
	}
	// A claim must not end unnoticed while the database keeps us waiting. One whose end is past, because this process
	// was stopped for a while, still gets a chance: only the database knows.
	began := time.Now()
	if !end.After(began) {
		end = began.Add(time.Second)
	}
	// Nor must a round that gets no answer at all be the only one: it has half of the time, as long as that leaves enough.
	if half := end.Sub(began) / 2; half >= anotherRound {
		end = began.Add(half)
	}
	within, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	kept, err := w.client.Heartbeat(within, handles...)
	if err != nil {
		w.loseExpired(held)
		return err
	}
	asking, cancel := context.WithTimeout(ctx, whyTimeout)
	defer cancel()
	var ours []*attempt
	for i, a := range held {
		if kept[i] {
			ours = append(ours, a)
		} else {
			w.lost(asking, a)
		}
	}
	if w.flight.renewed(ours, began) {
		w.claims.wake("") // the next suspect may start
	}
	return nil
}

func (w *Worker) loseExpired(held []*attempt) {
	now := time.Now()
	for _, a := range held {
		if a.delivery.AckedInTx() || now.Before(w.flight.leaseEndOf(a)) {
			continue
		}
		if w.lose(a, handlers.ErrLeaseLost) {
			a.log().Warn("claim ended while heartbeats could not get through: the job may run elsewhere")
		}
	}
}

// lost finds out why the heartbeat of a claim was refused and tells the handler.
func (w *Worker) lost(ctx context.Context, a *attempt) {
	if !w.flight.refuse(a) {
		return
	}
	ours := time.Now().Before(w.flight.leaseEndOf(a))
	job, err := w.client.Get(ctx, a.job.ID)
	if a.delivery.AckedInTx() && (err != nil || job == nil) {
		return // the transaction was committed while the heartbeat was on its way
	}
	log, cause, level := a.log(), handlers.ErrLeaseLost, slog.LevelWarn
	text := "claim was lost: another worker has the job, or had it"
	switch {
	case err != nil:
		log, text = log.With("error", err), "claim was lost, and the database does not tell why"
	case job == nil && ours:
		// While a claim holds, nobody but its holder can end the job in another way.
		cause, level, text = handlers.ErrCancelled, slog.LevelInfo, "job was cancelled while it ran"
	case job == nil:
		// Another worker has finished it, or it was cancelled: nothing tells which.
	case job.State == queue.Dead:
		text = "claim is over: the job is in the dead letters as " + job.LastError
	case job.Fence == a.job.Fence && job.State == queue.Processing:
		text = "claim lapsed before a heartbeat got through: the job will run again"
	}
	if w.lose(a, cause) {
		log.Log(ctx, level, text)
	}
}
