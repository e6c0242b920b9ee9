package runtime

import (
	"context"
	"errors"
	"time"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
)

// stuckAfter is how long a handler has to return once its context has ended, before its slot is given to others. A child
// process that has to be killed takes five seconds of it.
const stuckAfter = 10 * time.Second

// attempt runs the handler of one claimed job and passes its answer on. It does not return if the handler calls
// [runtime.Goexit], but does all of its work.
func (w *Worker) attempt(a *attempt) {
	ctx := a.ctx
	over := func() {}
	if d := a.line.Options.Timeout; d > 0 {
		timed, cancel := context.WithTimeoutCause(ctx, d, handlers.ErrTimeout)
		stop := context.AfterFunc(timed, func() {
			if a.ctx.Err() == nil { // else whoever has ended it watches
				w.watchStuck(a, handlers.ErrTimeout)
			}
		})
		ctx, over = timed, func() { stop(); cancel() }
	}
	handlers.Attempt(a.delivery.Context(ctx), a.line.Handler, a.job, func(err error) {
		cause := context.Cause(ctx)
		over()
		w.answered(a, err, cause)
		a.cancel(nil)
	})
}

// answered passes on what a handler returned, given why its context had ended, if it had, and frees the slot.
func (w *Worker) answered(a *attempt, err, cause error) {
	ans := answerOf(a, err, cause)
	if w.flight.answered(a) {
		w.answers.put(ans)
	} else {
		a.log().Info("handler returned after its claim was over: its answer is dropped", "cause", cause,
			"answer", ans.Kind.String(), "error", brief(ans.Text))
	}
	w.flight.leave(a)
	if a.job.Suspect {
		w.claims.wake("") // the next suspect may start
	} else {
		w.claims.nudge()
	}
}

// lose ends a claim that is not ours any more, and sees to it that its handler returns. False if it was over already.
func (w *Worker) lose(a *attempt, cause error) bool {
	if !w.flight.lose(a, cause) {
		return false
	}
	w.watchStuck(a, cause)
	return true
}

// watchStuck strands a handler that ignores the end of its context. The end of the worker needs no such watch: it waits
// for its handlers and reports them.
func (w *Worker) watchStuck(a *attempt, cause error) {
	time.AfterFunc(stuckAfter, func() {
		if w.flight.strand(a) {
			a.log().Error("handler ignores the end of its context: its slot goes to others and its job can run again elsewhere",
				"cause", cause, "running", time.Since(a.started).Round(time.Millisecond))
			w.claims.nudge()
		}
	})
}

// answer is what is to be recorded for an attempt.
type answer struct {
	*attempt
	handlers.Answer
	inTx bool // the handler has acked in a transaction of its own
}

// answerOf weighs what the handler returned against why its context ended, if it did.
func answerOf(a *attempt, err, cause error) answer {
	ans := answer{attempt: a, Answer: handlers.Resolve(err), inTx: a.delivery.AckedInTx()}
	switch {
	case ans.inTx && ans.Kind == handlers.KindAck:
		// If the transaction was committed there is no job left to retry, and the retry is refused. If it was not, neither the
		// handler's work nor the job's end has happened.
		ans.Answer = handlers.Answer{Kind: handlers.KindRetry, Text: "the transaction of AckTx was not committed"}
	case ans.Kind != handlers.KindRetry || ans.Stack != "":
		// A definite answer counts, whatever happened to the context.
	case errors.Is(cause, handlers.ErrShutdown):
		// It failed because we stopped it: the attempt is not the job's to pay for.
		ans.Answer = handlers.Answer{Kind: handlers.KindSnooze}
	case errors.Is(cause, handlers.ErrTimeout):
		text := cause.Error() + " after " + a.line.Options.Timeout.String()
		if ans.Text != cause.Error() {
			text += ": " + ans.Text
		}
		ans.Text = text
	}
	return ans
}

// retry is the answer as the engine takes it.
func (ans *answer) retry() queue.Retry {
	r := queue.Retry{Job: ans.job, Err: ans.Text, Stack: ans.Stack}
	if ans.Kind == handlers.KindRetryAfter {
		r.Delay = &ans.Delay
	}
	return r
}
