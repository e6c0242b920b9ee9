package runtime

import (
	"context"
	"time"
)

const (
	// hesitation is how long a queue is left alone that seemed ready and then handed out nothing: its jobs went to others,
	// or wait for something that only this worker knows of.
	hesitation = 100 * time.Millisecond

	// longestLook bounds the time between two looks at the queues, whatever they promised: waking up is a convenience,
	// looking is the guarantee.
	longestLook = 30 * time.Second
)

// outlook is what is expected of one queue.
type outlook struct {
	*line
	ready bool      // a claim is worth trying
	busy  bool      // the last claim was large and got all it asked for
	next  time.Time // when to look again; zero: now

	// A claim of suspects is a claim more, for jobs that are rare: it is not made unless there may be some.
	quiet     bool      // a look found nothing ready, and so no suspects
	suspected bool      // what was ready was not proven, or the last suspect was not the only one
	suspectAt time.Time // when to ask for suspects all the same
}

// stir notes that there may be work.
func (o *outlook) stir(now time.Time) {
	o.ready = true
	if o.quiet {
		o.quiet = false
		o.suspected = false
		o.suspectAt = now.Add(suspectInterval)
	}
}

// look asks about the queues that are due for it, and says whether there were any.
func (w *Worker) look(ctx context.Context, outlooks []*outlook) (asked bool, err error) {
	var due []string
	now := time.Now()
	for _, o := range outlooks {
		if !o.ready && !o.next.After(now) {
			due = append(due, o.Name)
		}
	}
	if len(due) == 0 {
		return false, nil
	}
	waits, err := w.client.NextReady(ctx, due)
	if err != nil {
		return true, err
	}
	for _, o := range outlooks {
		if o.ready || o.next.After(now) {
			continue
		}
		wait, known := waits[o.Name]
		if known && wait <= 0 {
			o.stir(now)
			continue
		}
		o.quiet = true
		o.next = now.Add(longestLook)
		if known {
			// The database counts whole seconds: what it calls one second away may be a moment away.
			o.next = now.Add(min(max(wait-time.Second, hesitation), longestLook))
		}
	}
	return true, nil
}

// nextLook is how long the loop may sleep unless it is woken.
func (w *Worker) nextLook(ctx context.Context, outlooks []*outlook) (time.Duration, error) {
	now := time.Now()
	wait := longestLook
	busy := false
	for _, o := range outlooks {
		switch {
		case !o.ready:
			wait = min(wait, max(o.next.Sub(now), time.Millisecond))
		default:
			busy = true // the bell rings when there is more room
			room, few := w.flight.room(o.line)
			switch pause := w.claims.breath.Sub(now); {
			case room > 0 && few && pause > 0:
				wait = min(wait, pause)
			case room > 0:
				return 0, nil
			}
		}
	}
	if !w.config.UntilIdle || busy {
		return wait, nil
	}
	if _, held := w.flight.counts(); held > 0 {
		return wait, nil // the bell rings when their answers are recorded
	}
	idle, err := w.client.Idle(ctx, w.names)
	if err != nil {
		return 0, err
	}
	if idle {
		return 0, errIdle
	}
	return min(wait, suspectInterval), nil // jobs of other workers end without a bell
}
