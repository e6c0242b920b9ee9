package runtime

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
)

// flight is everything that is under way in this worker: the handlers that run and the claims that are ours.
//
// The two differ at both ends. A claim stays ours after its handler has returned, until the answer is recorded; and it
// may be lost while the handler still runs.
type flight struct {
	slots   int
	arrived chan struct{} // rung when a claim came in whose heartbeat is due earlier than the alarm

	mu        sync.Mutex
	held      map[queue.Handle]*attempt // claims that are ours
	alarm     time.Time                 // when the next heartbeat was due when last asked; zero: there was none
	active    map[*attempt]struct{}     // handlers that have not returned
	taken     int                       // slots: the active handlers without the stuck ones
	promised  int                       // slots of jobs that are claimed and being read
	perLine   map[*line]int             // of each queue: active handlers, and what is promised
	suspects  int                       // suspects among those that have a slot
	probation *attempt                  // the suspect that has to prove itself before the next may start
	landed    chan struct{}             // closed while no slot is taken
	abandoned error                     // cause for which every handler's context has ended; nil: it has not
}

// attempt is one claim of one job on its way through this worker.
type attempt struct {
	job      *queue.Job
	line     *line
	delivery *handlers.Delivery
	worker   *slog.Logger
	started  time.Time
	ctx      context.Context // of the handler, without its timeout
	cancel   context.CancelCauseFunc

	// Guarded by flight.mu.
	claimed  time.Time // the first lease began then or later
	leaseEnd time.Time // by this process's own clock; the database's idea of it is never earlier
	returned bool      // the handler has: recording its answer tells what became of the claim
	refused  bool      // by the database, to a heartbeat: there will be no more
	stuck    bool      // has lost its slot: the handler does not return
	lost     bool      // the claim is not ours any more: there is nothing to record
}

// log is the log for what happens to the job. Most jobs never need it.
func (a *attempt) log() *slog.Logger {
	return a.worker.With("queue", a.job.Queue, "job", a.job.ID, "attempt",
		fmt.Sprintf("%d/%d", a.job.Attempt, a.job.MaxAttempts))
}

// lease is how long a claim of the job holds. A stamp that was edited by hand must not make the heartbeats spin. // K3
func (a *attempt) lease() time.Duration {
	return min(max(a.job.VisibilityTimeout, time.Second), queue.MaxVisibilityTimeout)
}

func newFlight(slots int) *flight {
	f := &flight{
		slots:   slots,
		arrived: make(chan struct{}, 1),
		held:    make(map[queue.Handle]*attempt),
		active:  make(map[*attempt]struct{}),
		perLine: make(map[*line]int),
		landed:  make(chan struct{}),
	}
	close(f.landed)
	return f
}

// room is how many more jobs of a queue may start now; few says that most of what the queue may have is taken.
//
// While answers cannot be recorded, the claims held beyond the slots leave no room either: a database that refuses acks
// but grants claims would otherwise be drained into this process, and all of it would run again elsewhere. // K19
func (f *flight) room(l *line) (n int, few bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n = max(0, min(f.slots-f.taken-f.promised, l.limit-f.perLine[l], 2*f.slots-len(f.held)-f.promised))
	return n, 2*n < min(f.slots, l.limit)
}

// promise keeps slots free for so many jobs of a queue that are claimed, until fulfil. They are in nobody's hands yet.
func (f *flight) promise(l *line, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.promised += n
	f.perLine[l] += n
}

// fulfil ends a promise. It comes after the jobs have entered: meanwhile they count twice.
func (f *flight) fulfil(l *line, n int) { f.promise(l, -n) }

// roomForSuspect says whether the next suspect may start.
func (f *flight) roomForSuspect() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.probation == nil
}

// enter takes slots for claims that were asked for at the given time: the leases cannot have started earlier.
//
// A suspect may be what killed its worker. Most are not: all that a dead worker held are suspects, and they must not queue
// up behind one another, a heartbeat each, for nothing. So a suspect that can afford it has the benefit of the doubt and
// starts at once. The others start one at a time, the next when the last has returned or has outlived a heartbeat; and one
// on its last attempt runs beside no other suspect, or a job that kills its process would take an innocent one to the dead
// letters. enter refuses that one while there are others. // K25
func (f *flight) enter(batch []*attempt, asked time.Time) (entered, refused []*attempt) {
	f.mu.Lock()
	defer f.mu.Unlock()
	entered = make([]*attempt, 0, len(batch))
	for _, a := range batch {
		if a.job.Suspect && f.suspects > 0 && lastAttempt(a.job) {
			refused = append(refused, a)
			continue
		}
		f.take(a, asked)
		entered = append(entered, a)
	}
	return entered, refused
}

// take takes a slot for one of them. f is locked.
func (f *flight) take(a *attempt, asked time.Time) {
	if a.job.Suspect {
		f.suspects++
		if !trusted(a.job) {
			f.probation = a
		}
	}
	if f.taken == 0 {
		f.landed = make(chan struct{})
	}
	if f.abandoned != nil {
		a.cancel(f.abandoned)
	}
	a.claimed = asked
	a.leaseEnd = asked.Add(a.lease())
	f.active[a] = struct{}{}
	f.held[a.job.Handle()] = a
	f.taken++
	f.perLine[a.line]++
	if f.alarm.IsZero() || a.beatDue().Before(f.alarm) {
		ring(f.arrived)
	}
}

// overstaffed says whether so many goroutines are more than there are slots and stuck handlers: a slot is given to the next
// job a moment before the goroutine of the last one can take it.
func (f *flight) overstaffed(goroutines int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	stuck := len(f.active) - f.taken
	return goroutines-stuck > f.slots
}

// beatDue is when the claim wants a heartbeat. flight is locked.
func (a *attempt) beatDue() time.Time {
	return a.leaseEnd.Add(-a.lease() * (heartbeats - 1) / heartbeats)
}

// trusted says whether it is too early to think that a suspect kills its worker: no more than two of its attempts may
// have done so, and most are left. Whoever runs beside a killer loses no more than these two along with it.
func trusted(j *queue.Job) bool { return j.Attempt <= 3 && 2*j.Attempt <= j.MaxAttempts }

func lastAttempt(j *queue.Job) bool { return j.Attempt >= j.MaxAttempts }

// answered notes that the handler has returned, and says whether its answer is still of interest.
func (f *flight) answered(a *attempt) (record bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a.returned = true
	return !a.lost
}

// leave gives the slot back. It comes after the answer was put in line to be recorded: once every slot is free, no more
// answers come. // K30
func (f *flight) leave(a *attempt) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.active[a]; !ok {
		return // left behind
	}
	delete(f.active, a)
	f.perLine[a.line]--
	f.vacate(a)
}

// vacate frees the slot if there still is one. f is locked.
func (f *flight) vacate(a *attempt) {
	if a.stuck {
		return
	}
	f.taken--
	if a.job.Suspect {
		f.suspects--
	}
	if f.probation == a {
		f.probation = nil
	}
	if f.taken == 0 {
		close(f.landed)
	}
}

// settle ends claims whose answers are recorded, or are known to have come too late.
func (f *flight) settle(batch []answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, ans := range batch {
		delete(f.held, ans.job.Handle())
	}
}

// refuse notes that the database has refused a heartbeat, and says whether that is news: the claim was ours, as far as
// we knew, and no answer is on its way that may have ended it.
func (f *flight) refuse(a *attempt) (news bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a.refused = true
	return f.held[a.job.Handle()] == a && !a.returned
}

// lose ends a claim that is not ours any more and tells the handler. False if it was over already.
func (f *flight) lose(a *attempt, cause error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held[a.job.Handle()] != a {
		return false
	}
	delete(f.held, a.job.Handle())
	a.lost = true
	a.cancel(cause)
	return true
}

// holding sorts answers by whether their claims are ours, as far as we know.
func (f *flight) holding(batches ...[]answer) (ours, others []answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, batch := range batches {
		ours = slices.Grow(ours, len(batch))
		for _, ans := range batch {
			if f.held[ans.job.Handle()] == ans.attempt {
				ours = append(ours, ans)
			} else {
				others = append(others, ans)
			}
		}
	}
	return ours, others
}

// strand takes the slot of a handler that does not return, so that other queues go on, and stops keeping its claim, so
// that the job can run elsewhere. It still counts against its own queue: a handler that always hangs stops only that
// queue. False if the handler has returned. // K4
func (f *flight) strand(a *attempt) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.active[a]; !ok || a.returned || a.stuck {
		return false
	}
	f.vacate(a)
	a.stuck = true
	a.lost = true
	delete(f.held, a.job.Handle())
	return true
}

// renewed notes that the claims were extended by a call that began at the given time. It says whether the next suspect
// may start because of it: one that was extended along with others, before its own time, has proven nothing.
func (f *flight) renewed(kept []*attempt, at time.Time) (proven bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range kept {
		a.leaseEnd = at.Add(a.lease())
		if f.probation == a && !lastAttempt(a.job) && at.Sub(a.claimed) >= a.lease()/heartbeats {
			f.probation = nil
			proven = true
		}
	}
	return proven
}

// claimsHeld is a snapshot of the claims to keep, with the time at which the next heartbeat is due and that at which the
// next of them ends: zero if all have ended already, as one that was acked in a transaction may have and still be kept.
func (f *flight) claimsHeld() (held []*attempt, due, end time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for _, a := range f.held {
		if a.refused {
			continue
		}
		if beat := a.beatDue(); len(held) == 0 || beat.Before(due) {
			due = beat
		}
		if a.leaseEnd.After(now) && (end.IsZero() || a.leaseEnd.Before(end)) {
			end = a.leaseEnd
		}
		held = append(held, a)
	}
	f.alarm = due
	return held, due, end
}

// leaseEndOf is when the claim ends unless it is renewed.
func (f *flight) leaseEndOf(a *attempt) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return a.leaseEnd
}

// counts says how many slots are taken and how many claims are held.
func (f *flight) counts() (taken, held int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.taken, len(f.held)
}

// wait waits until no slot is taken, for at most d. What runs without a slot is stuck and is not waited for.
func (f *flight) wait(d time.Duration) {
	f.mu.Lock()
	landed := f.landed
	f.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-landed:
	case <-timer.C:
	}
}

// abandon ends the contexts of all handlers, and of those that start later. They have no common parent that could do it:
// joining one and leaving it again is a lock and a map for each job, where flight has both already.
func (f *flight) abandon(cause error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.abandoned == nil {
		f.abandoned = cause
	}
	for a := range f.active {
		a.cancel(f.abandoned)
	}
}

// leaveBehind gives up on every active handler: leave will ignore them.
func (f *flight) leaveBehind() (behind []*attempt) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for a := range f.active {
		a.lost = true
		delete(f.held, a.job.Handle())
		delete(f.active, a)
		behind = append(behind, a)
	}
	return behind
}

// ring wakes whoever waits for the bell, once, however often it is rung before they look.
func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}
