package runtime

import (
	"context"
	"errors"
	goruntime "runtime"
	"sync"
	"time"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
)

const (
	// suspectInterval is how often to ask for suspects while other jobs keep the slots busy, and to look again while
	// suspects wait for their turn.
	suspectInterval = time.Second

	// longestRefusal bounds how long a job that must not start beside others is handed back for. Its visibility timeout may be
	// a year, or whatever an edited stamp says, and the others may end at any moment.
	longestRefusal = time.Minute

	// longestBreath bounds how long free slots wait for more to become free: a claim that took longer did not cost that much,
	// it had to wait, for a lock or for the network. // K21
	longestBreath = 100 * time.Millisecond

	// claimLimit is the most jobs of one claim: a larger one is hardly cheaper for each. A worker with twice as many slots
	// has room for the next claim while these run, and the database need not wait for them.
	claimLimit = 500
)

// errIdle ends the work of a worker that was to run until there is none.
var errIdle = errors.New("idle")

// claims is what the claim loop knows about the queues.
type claims struct {
	bell chan struct{}

	// breath is until when no claim is made for the few slots that have become free: as long as the last claim took. More
	// may be free by then, and a claim of many costs little more than a claim of one; so a worker whose jobs are shorter
	// than its claims does not claim them one by one. Only the loop knows it.
	breath time.Time

	reading sync.WaitGroup // of what was claimed unread

	// caution is until when nothing is claimed unread, since reading has failed: a claim that reads would not have been made.
	// Only the loop knows it.
	caution time.Time

	mu      sync.Mutex
	woken   map[string]bool
	all     bool  // somebody woke the worker without naming a queue
	trouble error // of reading, since the last take
}

func newClaims() *claims {
	return &claims{bell: make(chan struct{}, 1), woken: make(map[string]bool), all: true}
}

// breathe notes that a claim has ended which began at the given time.
func (c *claims) breathe(began time.Time) {
	now := time.Now()
	c.breath = now.Add(min(now.Sub(began), longestBreath))
}

// wake tells the loop that a queue may have work; empty means any.
func (c *claims) wake(name string) {
	c.mu.Lock()
	if name == "" {
		c.all = true
	} else {
		c.woken[name] = true
	}
	c.mu.Unlock()
	ring(c.bell)
}

// nudge tells the loop that there may be room.
func (c *claims) nudge() { ring(c.bell) }

// fail tells the loop that jobs could not be read.
func (c *claims) fail(err error) {
	c.mu.Lock()
	c.trouble = errors.Join(c.trouble, err)
	c.mu.Unlock()
	ring(c.bell)
}

func (c *claims) take() (woken map[string]bool, all bool, trouble error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	woken, all, trouble = c.woken, c.all, c.trouble
	c.woken, c.all, c.trouble = make(map[string]bool), false, nil
	return woken, all, trouble
}

// claimJobs claims while there is room, and sleeps until there may be work: a job was enqueued here, a slot or a claim
// became free, the time of a delayed job has come, or another process has changed the database.
func (w *Worker) claimJobs(ctx context.Context, lasting context.Context) (failed error) {
	defer func() { // nothing starts after this
		w.claims.reading.Wait()
		_, _, err := w.claims.take()
		failed = errors.Join(failed, err)
	}()
	outlooks := make([]*outlook, len(w.lines))
	for i, l := range w.lines {
		outlooks[i] = &outlook{line: l, quiet: true}
	}
	trouble := newOutage(w.log, "claims")
	timer := time.NewTimer(longestLook)
	defer timer.Stop()
	bell := w.claims.bell
	ring(bell)
	for {
		select {
		case <-ctx.Done():
		case <-bell:
		case <-timer.C:
		}
		goruntime.Gosched() // a slice of its own, see punctual
		if w.stopped(ctx) {
			return ctx.Err()
		}
		woken, all, err := w.claims.take()
		now := time.Now()
		if err != nil {
			w.claims.caution = now.Add(longestLook)
		}
		for _, o := range outlooks {
			if all {
				o.next = time.Time{}
			}
			if woken[o.Name] {
				o.stir(now)
			}
		}
		var asked bool
		var wait time.Duration
		if err == nil {
			asked, wait, err = w.claimRound(ctx, lasting, outlooks)
		}
		bell = w.claims.bell
		switch {
		case err == nil:
			if asked {
				trouble.over()
			}
		case queue.Transient(err) && ctx.Err() == nil:
			wait = trouble.wait(err)
			bell = nil // whatever comes meanwhile keeps ringing
			for _, o := range outlooks {
				o.next = time.Time{}
			}
		default:
			return err
		}
		if wait > 0 {
			timer.Reset(wait)
		} else {
			ring(w.claims.bell)
		}
	}
}

// claimRound makes one claim from each queue that is ready and has room, sharing the slots evenly between them, and says
// when to come back. It is one round only, however much there is: what other queues have is seen in the next.
//
// asked says whether the database was asked for anything at all.
func (w *Worker) claimRound(
	ctx, lasting context.Context, outlooks []*outlook,
) (asked bool, wait time.Duration, err error) {
	if asked, err = w.look(ctx, outlooks); err != nil {
		return asked, 0, err
	}
	ready := 0
	for _, o := range outlooks {
		if o.ready {
			ready++
		}
	}
	served := -1 // the first
	for i, o := range outlooks {
		if !o.ready {
			continue
		}
		if room, few := w.flight.room(o.line); room > 0 && (!few || !time.Now().Before(w.claims.breath)) {
			asked = true
			share := (room + ready - 1) / ready
			began := time.Now()
			claimed, err := w.claimFrom(ctx, lasting, o, min(share, claimLimit))
			if err != nil {
				return asked, 0, err
			}
			w.claims.breathe(began)
			if claimed > 0 && served < 0 {
				served = i
			}
		}
		ready--
	}
	if served >= 0 {
		// Whoever was served first is last the next time, so that no queue lives on what the others leave. // K96
		first := outlooks[served]
		copy(outlooks[served:], outlooks[served+1:])
		outlooks[len(outlooks)-1] = first
	}
	wait, err = w.nextLook(ctx, outlooks)
	return asked, wait, err
}

// claimFrom claims up to n jobs of one queue, at least one, and starts them.
func (w *Worker) claimFrom(ctx, lasting context.Context, o *outlook, n int) (claimed int, err error) {
	now := time.Now()
	if o.suspected || !now.Before(o.suspectAt) {
		if claimed, err = w.claimSuspects(ctx, lasting, o, n); err != nil {
			return claimed, err
		}
	}
	if n > claimed {
		proven, err := w.claimProven(ctx, lasting, o, n-claimed)
		if err != nil {
			return claimed, err
		}
		claimed += proven
	}
	if claimed == n {
		return claimed, nil // there may be more
	}
	o.ready = false
	o.next = now.Add(hesitation)
	if claimed == 0 {
		o.suspected = true
	}
	if o.suspected && !w.flight.roomForSuspect() {
		o.next = now.Add(suspectInterval) // and the bell rings when there is
	}
	return claimed, nil
}

// many is the size from which claims are made while the jobs of the last one are read. Below, what that costs is more than
// what it gives.
const many = 100

// claimProven claims up to n jobs that are no suspects.
func (w *Worker) claimProven(ctx, lasting context.Context, o *outlook, n int) (claimed int, err error) {
	if o.busy && n >= many && !time.Now().Before(w.claims.caution) {
		claimed, err = w.claimUnread(ctx, lasting, o, n)
	} else {
		claimed, _, err = w.claimBy(ctx, lasting, o, n, w.client.ClaimProven)
	}
	o.busy = claimed == n && n >= many
	return claimed, err
}

// claimUnread claims up to n jobs and leaves it to others to read and start them.
func (w *Worker) claimUnread(ctx, lasting context.Context, o *outlook, n int) (claimed int, err error) {
	asked := time.Now()
	unread, err := w.client.ClaimUnread(ctx, o.Name, w.config.Name, n)
	if err != nil || unread.Len() == 0 {
		return 0, err
	}
	w.flight.promise(o.line, unread.Len())
	w.claims.reading.Go(func() {
		jobs, err := unread.Read(ctx)
		switch {
		case err != nil:
			w.claims.fail(err)
		case w.stopped(ctx):
			w.handBack(jobs, 0)
		default:
			w.start(lasting, o.line, jobs, asked) // refuses suspects only
		}
		w.flight.fulfil(o.line, unread.Len())
		w.claims.nudge()
	})
	return unread.Len(), nil
}

// claimSuspects claims up to n suspects, one by one: any may have to be on its own. They come before the proven, since
// they ran before.
func (w *Worker) claimSuspects(ctx, lasting context.Context, o *outlook, n int) (claimed int, err error) {
	for claimed < n && w.flight.roomForSuspect() {
		o.suspectAt = time.Now().Add(suspectInterval)
		one, started, err := w.claimBy(ctx, lasting, o, 1, w.client.ClaimSuspects)
		if err != nil {
			return claimed, err
		}
		claimed += one
		o.suspected = one > 0
		if started == 0 {
			break // none is left, or this one must wait until it is alone
		}
	}
	return claimed, nil
}

type claimer func(ctx context.Context, queue, claimant string, n int) ([]*queue.Job, error)

func (w *Worker) claimBy(
	ctx, lasting context.Context, o *outlook, n int, claim claimer,
) (claimed, started int, err error) {
	asked := time.Now()
	jobs, err := claim(ctx, o.Name, w.config.Name, n)
	if err != nil {
		return 0, 0, err
	}
	if w.stopped(ctx) {
		w.handBack(jobs, 0) // a stop came while we claimed
		return len(jobs), 0, nil
	}
	refused := w.start(lasting, o.line, jobs, asked)
	for _, a := range refused {
		w.handBack([]*queue.Job{a.job}, min(max(a.lease()/heartbeats, time.Second), longestRefusal))
	}
	return len(jobs), len(jobs) - len(refused), nil
}

// handBack releases jobs that were never started, without spending their attempts.
func (w *Worker) handBack(jobs []*queue.Job, delay time.Duration) {
	released := make([]queue.Released, len(jobs))
	for i, j := range jobs {
		released[i] = queue.Released{Handle: j.Handle(), Delay: delay}
	}
	// On a context of its own: that of the claim may be what has ended.
	ctx, cancel := context.WithTimeout(context.Background(), recordGrace)
	defer cancel()
	if _, err := w.client.Release(ctx, released...); err != nil {
		w.log.Warn("claimed jobs were not started and could not be handed back: they are claimable again once their claims "+
			"lapse", "jobs", len(jobs), "error", err)
	}
}

// start has jobs run, all but those that must not start now. asked is when their claim was asked for.
func (w *Worker) start(lasting context.Context, l *line, jobs []*queue.Job, asked time.Time) (refused []*attempt) {
	batch := make([]*attempt, len(jobs))
	now := time.Now()
	for i, job := range jobs {
		ctx, cancel := context.WithCancelCause(lasting)
		batch[i] = &attempt{
			job:      job,
			line:     l,
			delivery: handlers.NewDelivery(w.client, job),
			worker:   w.log,
			started:  now,
			ctx:      ctx,
			cancel:   cancel,
		}
	}
	entered, refused := w.flight.enter(batch, asked)
	for _, a := range refused {
		a.cancel(nil)
	}
	w.crew.start(entered)
	return refused
}
