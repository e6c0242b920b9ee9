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

// attempt runs the handler of one claimed job and passes its answer on.
func (w *Worker) attempt(ctx context.Context, a *attempt) {
	defer a.cancel(nil)
	if d := a.line.Options.Timeout; d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, d, handlers.ErrTimeout)
		defer cancel()
	}
	watched := context.AfterFunc(ctx, func() { w.watchStuck(ctx, a) })
	err := handlers.Invoke(a.delivery.Context(ctx), a.line.Handler, a.job)
	watched()
	ans := answerOf(a, err, context.Cause(ctx))
	if w.flight.answered(a) {
		w.answers.put(ans)
	} else {
		a.log.Info("handler returned after its claim was over: its answer is dropped", "cause", context.Cause(ctx),
			"answer", ans.Kind.String(), "error", brief(ans.Text))
	}
	w.flight.leave(a)
	if a.job.Suspect {
		w.claims.wake("") // the next suspect may start
	} else {
		w.claims.nudge()
	}
}

// watchStuck strands a handler that ignores the end of its context.
func (w *Worker) watchStuck(ctx context.Context, a *attempt) {
	cause := context.Cause(ctx)
	if errors.Is(cause, handlers.ErrShutdown) {
		return // the stop waits for it and reports it
	}
	time.AfterFunc(stuckAfter, func() {
		if w.flight.strand(a) {
			a.log.Error("handler ignores the end of its context: its slot goes to others and its job can run again elsewhere",
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
	ans := answer{attempt: a, Answer: handlers.Resolve(err)}
	switch {
	case a.delivery.AckedInTx():
		ans.inTx = true
		if ans.Kind == handlers.KindAck {
			// If the transaction was committed there is no job left to retry, and the retry is refused. If it was not,
			// neither the handler's work nor the job's end has happened.
			ans.Answer = handlers.Answer{Kind: handlers.KindRetry, Text: "the transaction of AckTx was not committed"}
		}
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
