package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
)

// answers gathers what handlers have answered until it is recorded. While one batch is being written the next one
// gathers, so that a busy worker writes large batches and an idle one does not wait.
type answers struct {
	bell chan struct{}

	mu      sync.Mutex
	waiting []answer
	spare   []answer // empty, with the room of a batch that is recorded
	closed  bool
}

func newAnswers() *answers { return &answers{bell: make(chan struct{}, 1)} }

func (s *answers) put(ans answer) {
	s.mu.Lock()
	s.waiting = append(s.waiting, ans)
	s.mu.Unlock()
	ring(s.bell)
}

// close says that no more answers come.
func (s *answers) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	ring(s.bell)
}

func (s *answers) take() (batch []answer, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	batch, s.waiting, s.spare = s.waiting, s.spare, nil
	return batch, s.closed
}

// giveBack is for a batch of take that nobody looks at any more.
func (s *answers) giveBack(batch []answer) {
	clear(batch)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spare = batch[:0]
}

// recordAnswers writes answers until they are closed and all are written. What the database refuses for now is tried
// again until the claim has ended: then the job is somebody else's. ctx ends only when there is no time left to wait.
//
// A failure that will not pass stops the worker and is returned at the end; the answers after it are tried all the same.
func (w *Worker) recordAnswers(ctx context.Context, stop func()) (failed error) {
	var left []answer
	var why error       // they are left
	var locked []answer // they wait beside the others
	var look time.Time  // when to see whether they still are
	trouble := newOutage(w.log, "answers of handlers")
	pause := time.NewTimer(longestLook)
	defer pause.Stop()
	bell := w.answers.bell
	for {
		select {
		case <-bell:
		case <-pause.C:
		case <-ctx.Done():
			batch, _ := w.answers.take()
			if left = append(left, batch...); len(locked) > 0 {
				left, why = append(left, locked...), cmp.Or(why, queue.ErrBusy)
			}
			w.giveUp(left)
			if len(left) > 0 {
				why = cmp.Or(why, context.Cause(ctx)) // which leaves no time to try
				why = fmt.Errorf("%d answers of handlers could not be recorded: %w", len(left), why)
				failed = errors.Join(failed, why)
			}
			return failed
		}
		batch, closed := w.answers.take()
		if len(locked) > 0 && !time.Now().Before(look) {
			var free []answer
			locked, free = w.lockedOf(ctx, w.stillOurs(locked))
			left = append(left, free...)
			look = time.Now().Add(lockedInterval)
		}
		done := w.record(ctx, left, batch)
		w.answers.giveBack(batch)
		left, why = done.left, done.why
		locked = append(locked, done.locked...)
		if done.broken != nil && failed == nil {
			failed = done.broken
			stop()
		}
		bell = w.answers.bell
		switch {
		case why != nil && ctx.Err() == nil:
			pause.Reset(trouble.wait(why))
			bell = nil // whatever comes meanwhile keeps ringing
		case why != nil:
			continue // the next turn is the last
		case done.wrote:
			trouble.over()
		}
		if len(locked) > 0 && why == nil {
			pause.Reset(lockedInterval)
		}
		if closed && why == nil && len(locked) == 0 {
			return failed
		}
	}
}

// recorded is what became of a batch.
type recorded struct {
	wrote  bool     // at least one statement went well
	left   []answer // to be tried again
	why    error    // they are left; nil if none are
	locked []answer // to be tried again when their jobs are not locked any more
	broken error    // a failure that will not pass; its answers are given up
}

// record writes a batch and what was left of those before, one statement for each kind of answer.
func (w *Worker) record(ctx context.Context, left, batch []answer) (done recorded) {
	var retries, fails, releases []answer
	ours := w.stillOurs(left, batch)
	acks := make([]answer, 0, len(ours)) // most are
	for _, ans := range ours {
		switch ans.Kind {
		case handlers.KindAck, handlers.KindCancel:
			acks = append(acks, ans)
		case handlers.KindRetry, handlers.KindRetryAfter:
			retries = append(retries, ans)
		case handlers.KindFail:
			fails = append(fails, ans)
		case handlers.KindSnooze:
			releases = append(releases, ans)
		}
	}
	for _, kind := range []struct {
		batch []answer
		write func(context.Context, []answer) error
	}{{acks, w.recordAcks}, {retries, w.recordRetries}, {fails, w.recordFails}, {releases, w.recordReleases}} {
		batch := kind.batch
		if w.mayLapse(batch) {
			batch = w.setAside(ctx, batch, &done.locked)
		}
		if len(batch) == 0 {
			continue
		}
		err := kind.write(ctx, batch)
		if errors.Is(err, queue.ErrBusy) {
			if free := w.setAside(ctx, batch, &done.locked); len(free) < len(batch) {
				if batch, err = free, nil; len(free) > 0 {
					err = kind.write(ctx, free)
				}
			}
		}
		switch {
		case err == nil:
			done.wrote = true
		case queue.Transient(err), ctx.Err() != nil:
			done.left = append(done.left, batch...)
			done.why = err
		default:
			w.giveUp(batch)
			done.broken = err
		}
	}
	if len(done.left)+len(done.locked) < len(left)+len(batch) {
		w.claims.nudge() // held claims leave no room
	}
	return done
}

// stillOurs are the answers whose claims hold, as far as is known.
func (w *Worker) stillOurs(batches ...[]answer) []answer {
	ours, others := w.flight.holding(batches...)
	for _, ans := range others {
		ans.log().Info("claim ended before the answer was recorded: it is dropped", "answer", ans.Kind.String())
	}
	return ours
}

func (w *Worker) recordAcks(ctx context.Context, batch []answer) error {
	held, err := w.client.Ack(ctx, handlesOf(batch)...)
	if err != nil {
		return err
	}
	chatty := w.log.Enabled(ctx, slog.LevelDebug)
	for i, ans := range batch {
		switch {
		case !held[i]:
			w.refused(ans)
		case ans.Kind == handlers.KindCancel:
			ans.log().Info("job cancelled by its handler", "reason", brief(ans.Text))
		case chatty:
			ans.log().Debug("job done", "took", time.Since(ans.started).Round(time.Millisecond))
		}
	}
	w.flight.settle(batch)
	return nil
}

func (w *Worker) recordRetries(ctx context.Context, batch []answer) error {
	retries := make([]queue.Retry, len(batch))
	for i := range batch {
		retries[i] = batch[i].retry()
	}
	verdicts, err := w.client.Retry(ctx, retries...)
	if err != nil {
		return err
	}
	for i, ans := range batch {
		switch verdicts[i] {
		case queue.Retrying:
			ans.log().Warn("attempt failed, will be retried", "error", brief(ans.Text))
		case queue.Buried:
			ans.log().Error("last attempt failed: job is in the dead letters", "error", brief(ans.Text))
		default:
			w.refused(ans)
		}
	}
	w.flight.settle(batch)
	return nil
}

func (w *Worker) recordFails(ctx context.Context, batch []answer) error {
	failures := make([]queue.Failed, len(batch))
	for i, ans := range batch {
		failures[i] = queue.Failed{Handle: ans.job.Handle(), Err: ans.Text, Stack: ans.Stack}
	}
	held, err := w.client.Fail(ctx, failures...)
	if err != nil {
		return err
	}
	for i, ans := range batch {
		if held[i] {
			ans.log().Error("handler failed the job for good: it is in the dead letters", "error", brief(ans.Text))
		} else {
			w.refused(ans)
		}
	}
	w.flight.settle(batch)
	return nil
}

func (w *Worker) recordReleases(ctx context.Context, batch []answer) error {
	released := make([]queue.Released, len(batch))
	for i, ans := range batch {
		released[i] = queue.Released{Handle: ans.job.Handle(), Delay: ans.Delay}
	}
	held, err := w.client.Release(ctx, released...)
	if err != nil {
		return err
	}
	for i, ans := range batch {
		if held[i] {
			ans.log().Debug("job handed back without spending the attempt", "delay", ans.Delay)
		} else {
			w.refused(ans)
		}
	}
	w.flight.settle(batch)
	return nil
}

// refused reports an answer that came too late. For a handler that acked in its own transaction it is the proof that the
// transaction was committed.
func (w *Worker) refused(ans answer) {
	if ans.inTx {
		ans.log().Debug("job done in the handler's transaction", "took", time.Since(ans.started).Round(time.Millisecond))
		return
	}
	ans.log().Warn("answer came after the claim was over and is dropped: the job was cancelled, or runs elsewhere",
		"answer", ans.Kind.String())
}

func (w *Worker) giveUp(unwritten []answer) {
	for _, ans := range unwritten {
		ans.log().Error("answer could not be recorded: the job runs again once its claim lapses", "answer", ans.Kind.String())
	}
	w.flight.settle(unwritten)
}

// briefLength bounds in bytes what a handler can write into one line of the log. The whole text is kept with the job.
const briefLength = 1 << 10

// brief shortens a text for the log.
func brief(text string) string {
	if len(text) <= briefLength {
		return text
	}
	return strings.ToValidUTF8(text[:briefLength], "") + "…"
}

func handlesOf(batch []answer) []queue.Handle {
	handles := make([]queue.Handle, len(batch))
	for i, ans := range batch {
		handles[i] = ans.job.Handle()
	}
	return handles
}
