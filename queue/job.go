package queue

import (
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// State says where a job is.
type State string

// The states of a job.
const (
	Pending    State = "pending"    // waits to be ready or to be claimed
	Processing State = "processing" // claimed
	Dead       State = "dead"       // in the dead letters
)

// Job is one job as it was when it was read. It is a copy: changing it changes nothing stored.
// A zero time means unset; times are in UTC and whole seconds of the database's clock.
type Job struct {
	ID    int64 // never used again, not even after the job is gone
	Queue string
	State State

	Payload     []byte // exact bytes, never nil; shortened by List
	PayloadSize int    // of the whole payload, in bytes

	Priority    int   // higher is claimed first
	Attempt     int   // attempts spent, including the one that is running
	MaxAttempts int   // claims the job may have in all
	Fence       int64 // claims over the job's whole life; with ID it names one claim

	// Suspect: an earlier claim of the job ended without a word and it has not answered since, so it may be what killed
	// its worker. A worker does well not to start such jobs side by side for long: the more attempts one has lost, the more
	// likely it is the one.
	Suspect bool

	VisibilityTimeout   time.Duration
	BackoffBase         time.Duration // zero: a failed attempt may be repeated at once
	DeadLetterRetention time.Duration // KeepForever: no end

	Claimant       string    // who holds the claim; empty otherwise
	CreatedAt      time.Time // when it was enqueued
	RunAt          time.Time // when it is, or was, ready
	ClaimedAt      time.Time
	ClaimExpiresAt time.Time // the claim holds up to and including this second
	ExpiresAt      time.Time
	DiedAt         time.Time

	LastError    string    // of the latest failed attempt, or the reason of death; empty if none
	Schedule     string    // name of the schedule that fired the job; empty if none did
	ScheduledFor time.Time // the boundary it was fired for

	Failures []AttemptError // failed attempts, oldest first, the newest 10; only from Get
}

// AttemptError is one failed attempt.
type AttemptError struct {
	Attempt int
	At      time.Time
	Error   string
	Stack   string // empty unless the attempt panicked
}

// Handle names one claim of one job. Every operation on a claim carries it and is refused once the claim is over, even
// if the same job has been claimed again since.
type Handle struct {
	ID    int64
	Fence int64
}

// Handle returns the handle of the claim that handed out the job. It is of use only for a job that came from Claim.
func (j *Job) Handle() Handle { return Handle{ID: j.ID, Fence: j.Fence} }

func jobOf(r *sqlstore.Row) *Job {
	stamps := OptionsOf(r.Stamps)
	j := &Job{
		ID:    r.ID,
		Queue: r.Queue,
		State: State(r.State),

		Payload:     r.Payload,
		PayloadSize: clampInt(r.PayloadSize),

		Priority:    clampInt(r.Priority),
		Attempt:     clampInt(r.Attempts),
		MaxAttempts: stamps.MaxAttempts,
		Fence:       r.Fence,
		Suspect:     r.LapsedFence > 0,

		VisibilityTimeout:   stamps.VisibilityTimeout,
		BackoffBase:         max(stamps.BackoffBase, 0),
		DeadLetterRetention: stamps.DeadLetterRetention,

		Claimant:       r.Claimant,
		CreatedAt:      timeOf(&r.CreatedAt),
		RunAt:          timeOf(&r.RunAt),
		ClaimedAt:      timeOf(r.ClaimedAt),
		ClaimExpiresAt: timeOf(r.ClaimExpiresAt),
		ExpiresAt:      timeOf(r.ExpiresAt),
		DiedAt:         timeOf(r.DiedAt),

		Schedule:     r.Schedule,
		ScheduledFor: timeOf(r.ScheduledFor),
	}
	if j.Payload == nil {
		j.Payload = []byte{}
	}
	if r.LastError != nil {
		j.LastError = *r.LastError
	}
	for _, f := range r.Failures {
		j.Failures = append(j.Failures, AttemptError{
			Attempt: clampInt(f.Attempt),
			At:      timeOf(&f.At),
			Error:   f.Error,
			Stack:   f.Stack,
		})
	}
	return j
}

func jobsOf(rows []sqlstore.Row) []*Job {
	jobs := make([]*Job, len(rows))
	for i := range rows {
		jobs[i] = jobOf(&rows[i])
	}
	return jobs
}
