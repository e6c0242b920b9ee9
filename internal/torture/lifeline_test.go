package torture

import (
	"fmt"

	"github.com/anishathalye/porcupine"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// lifeline is one job as the contract sees it, and the time. It is comparable, as the checker wants.
//
// A write reads the clock when its transaction begins, and a reader sees what was before until it is committed. So the
// time of a write is any between its call and the moment when it happens, but never before that of the write before it.
type lifeline struct {
	clock      int64 // as it stands
	now        int64 // of the last write
	place      place
	runAt      int64
	deadline   int64
	expiresAt  int64 // never if zero
	diedAt     int64
	attempts   int64
	fence      int64
	lapsed     int64
	visibility int64
	max        int64
	retention  int64 // keep if negative
}

// place is where a job is.
type place string

const (
	absent     place = "absent" // not yet enqueued
	pending    place = "pending"
	processing place = "processing"
	dead       place = "dead"
	gone       place = "gone" // acked, cancelled, purged or past its retention
)

// deed is one operation as far as it is about one job.
type deed struct {
	op     string // that of the store; bury is what a claim may do besides, see contract
	handle sqlstore.Handle
	job    sqlstore.NewJob    // of enqueue
	kind   sqlstore.ClaimKind // of claim
	to     int64              // of advance
	since  int64              // what the clock showed at the call
	delay  int64              // of retry and release
	extend *int64             // of heartbeat
	long   bool               // of heartbeat: it may have given up on a job that was locked all the time
}

// outcome is what was answered.
type outcome struct {
	ok      bool
	row     *sqlstore.Row // of get and claim: this job, if it is in the answer
	full    bool          // of claim: the limit was reached, so that the job may have been left for others
	verdict sqlstore.Verdict
}

func (d deed) String() string {
	text := fmt.Sprintf("%s %d/%d", d.op, d.handle.ID, d.handle.Fence)
	switch d.op {
	case "advance":
		return fmt.Sprintf("advance to %d", d.to)
	case "enqueue":
		return fmt.Sprintf("enqueue %+v", d.job.Stamps)
	case "claim":
		return fmt.Sprintf("claim kind %d", d.kind)
	case "retry", "release":
		return fmt.Sprintf("%s delay %d", text, d.delay)
	case "heartbeat":
		if d.extend != nil {
			return fmt.Sprintf("%s by %d", text, *d.extend)
		}
	}
	return text
}

func (o outcome) String() string {
	if o.row != nil {
		return fmt.Sprintf("%s attempts %d fence %d claimed %v until %v", o.row.State, o.row.Attempts, o.row.Fence,
			value(o.row.ClaimedAt), value(o.row.ClaimExpiresAt))
	}
	return fmt.Sprintf("%v verdict %d full %v", o.ok, o.verdict, o.full)
}

func value(p *int64) int64 {
	if p == nil {
		return 0
	}
	return *p
}

// contract is the state machine of one job.
//
// Where callers work in parallel, some things are looser: a claim passes over a job that somebody else has just locked; a
// heartbeat leaves one as it is that stays locked for long, and says that its claim holds; a call that has waited for one
// may have read the clock before that one did; and a claim may look twice, so that besides what it does to a job it may
// bury it, before that if the job was brought back in between, or after.
func contract(parallel bool) porcupine.Model {
	return (&porcupine.NondeterministicModel{
		Init: func() []any { return []any{lifeline{place: absent}} },
		Step: func(state, input, output any) []any {
			j, d, o := state.(lifeline), input.(deed), output.(outcome)
			switch d.op {
			case "advance":
				j.clock = d.to
				return []any{j}
			case "get":
				if j.shows(o.row) {
					return []any{j}
				}
				return nil
			}
			var after []any
			if parallel && (d.op == "claim" && o.row == nil || d.op == "bury") {
				after = append(after, j)
			}
			earliest := d.since
			if !parallel {
				earliest = max(j.now, d.since)
			}
			for now := earliest; now <= j.clock; now++ {
				next := j
				next.now = now
				if !next.step(d, o) {
					continue
				}
				if d.long && o.ok {
					after = append(after, j)
				}
				if parallel {
					next.now = 0 // nobody asks, and one state is looked into sooner than many
				}
				after = append(after, next)
			}
			return after
		},
	}).ToModel()
}

// step does d and says whether the contract allows the answer o.
func (j *lifeline) step(d deed, o outcome) bool {
	switch d.op {
	case "enqueue":
		return j.enqueue(d.job)
	case "claim":
		return j.claim(d, o)
	case "bury":
		if j.claimable() && j.attempts >= j.max {
			j.die() // C6
		}
		return true
	case "sweep":
		j.sweep()
		return true
	case "cancel":
		return j.leave(o.ok, j.place == pending || j.place == processing) // H8
	case "purge":
		return j.leave(o.ok, j.place == dead) // D4
	case "requeue":
		return j.requeue(o.ok)
	}
	held := j.place == processing && j.fence == d.handle.Fence && j.now <= j.deadline // H1, C7
	if d.op == "retry" {
		return j.retry(held, d, o)
	}
	if held {
		j.end(d)
	}
	return o.ok == held
}

func (j *lifeline) enqueue(n sqlstore.NewJob) bool {
	*j = lifeline{
		clock: j.clock, now: j.now, place: pending, runAt: j.now + n.DelayS, visibility: n.Stamps.VisibilityTimeoutS, max: n.Stamps.MaxAttempts,
		retention: -1,
	}
	if n.ExpiresS != nil {
		j.expiresAt = j.now + *n.ExpiresS
	}
	if n.Stamps.DeadLetterRetentionS != nil {
		j.retention = *n.Stamps.DeadLetterRetentionS
	}
	return true
}

func (j *lifeline) expired() bool { return j.expiresAt != 0 && j.now > j.expiresAt }

func (j *lifeline) lapses() bool { return j.place == processing && j.now > j.deadline }

// claimable is C3 but for the attempts.
func (j *lifeline) claimable() bool {
	return !j.expired() && (j.lapses() || j.place == pending && j.runAt <= j.now)
}

// claim is C3 to C7.
func (j *lifeline) claim(d deed, o outcome) bool {
	lapsed, claimable := j.lapses(), j.claimable()
	if claimable && j.attempts >= j.max {
		j.die() // C6, whatever the limit and the kind
		return o.row == nil
	}
	suspect := lapsed || j.lapsed > 0
	claimable = claimable && (d.kind == sqlstore.AnyJob || suspect == (d.kind == sqlstore.OnlySuspects))
	if o.row == nil {
		return !claimable || o.full
	}
	if !claimable {
		return false
	}
	if lapsed {
		j.lapsed = j.fence
	}
	j.place = processing
	j.attempts++
	j.fence++
	j.deadline = j.now + j.visibility
	return j.shows(o.row) && value(o.row.ClaimedAt) == j.now
}

// shows says whether r is the job as it is. D3
func (j *lifeline) shows(r *sqlstore.Row) bool {
	if r == nil {
		return j.place == gone || j.place == absent
	}
	return string(r.State) == string(j.place) && r.Attempts == j.attempts && r.Fence == j.fence && r.RunAt == j.runAt &&
		value(r.ExpiresAt) == j.expiresAt && value(r.DiedAt) == j.diedAt && r.LapsedFence == j.lapsed &&
		(j.place != processing || value(r.ClaimExpiresAt) == j.deadline)
}

func (j *lifeline) leave(answer, may bool) bool {
	if may {
		j.place = gone
	}
	return answer == may
}

func (j *lifeline) requeue(answer bool) bool {
	if j.place != dead {
		return !answer
	}
	j.place, j.runAt, j.attempts, j.expiresAt, j.diedAt = pending, j.now, 0, 0, 0
	return answer
}

func (j *lifeline) retry(held bool, d deed, o outcome) bool {
	switch {
	case !held:
		return o.verdict == sqlstore.Refused
	case j.attempts >= j.max:
		j.die()
		return o.verdict == sqlstore.Buried
	}
	j.back(d.delay)
	j.lapsed = 0
	return o.verdict == sqlstore.Retrying
}

// end is an operation on a claim that holds.
func (j *lifeline) end(d deed) {
	switch d.op {
	case "ack":
		j.place = gone
	case "fail":
		j.die()
	case "release":
		j.back(d.delay)
		j.attempts-- // H6
	case "heartbeat":
		j.deadline = j.now + j.visibility // H3
		if d.extend != nil {
			j.deadline = j.now + *d.extend
		}
	}
}

func (j *lifeline) back(delay int64) { j.place, j.runAt, j.deadline = pending, j.now+delay, 0 }

func (j *lifeline) die() { j.place, j.diedAt, j.deadline, j.lapsed = dead, j.now, 0, 0 }

// sweep is D2.
func (j *lifeline) sweep() {
	switch {
	case (j.place == pending || j.place == processing) && j.expired():
		j.die()
		// What has just died is not past its retention within the same second.
	case j.place == dead && j.retention >= 0 && j.diedAt+j.retention < j.now:
		j.place = gone
	}
}
