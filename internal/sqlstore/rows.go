package sqlstore

// State says where a job is. Pending and processing rows are live; dead ones are in the dead-letter table.
type State string

// The three states of a job.
const (
	Pending    State = "pending"
	Processing State = "processing"
	Dead       State = "dead"
)

// Stamps are the options copied onto a job when it is enqueued and never changed afterwards.
type Stamps struct {
	VisibilityTimeoutS   int64
	MaxAttempts          int64
	BackoffBaseS         int64
	DeadLetterRetentionS *int64 // nil keeps dead jobs for ever
}

// NewJob is one job to store.
type NewJob struct {
	Queue    string
	Payload  []byte
	Priority int64
	RunAt    *int64 // nil means now + DelayS
	DelayS   int64
	ExpiresS *int64 // from now; nil means never
	Stamps   Stamps
}

// Handle names one claim of one job.
type Handle struct {
	ID    int64
	Fence int64
}

// Claim asks for jobs of one queue. ExhaustedText is the error of those that go to the dead letters for want of
// attempts; LapsedText is kept in the history of a job whose previous claim ended without a word.
type Claim struct {
	Queue         string
	Claimant      string
	Limit         int64
	Kind          ClaimKind
	ExhaustedText string
	LapsedText    string
}

// ClaimKind narrows a claim. A job is a suspect while its last claim, or the one before this, lapsed without a word:
// it may be what killed its worker. An answer other than a release clears it.
type ClaimKind int

// The kinds of jobs to claim. Exhausted jobs are buried by each of them.
const (
	AnyJob ClaimKind = iota
	OnlyProven
	OnlySuspects
)

// Extension moves the deadline of one claim to now + S seconds; nil S means the row's visibility timeout.
type Extension struct {
	Handle
	S *int64
}

// Failure is one failed attempt.
type Failure struct {
	Attempt int64
	At      int64
	Error   string
	Stack   string // empty unless the attempt panicked
}

// Retrial ends an attempt that may be repeated after DelayS seconds. Error and Stack go into the history and onto the
// row; DeadText is the row's error instead if no attempts are left.
type Retrial struct {
	Handle
	DelayS   int64
	Error    string
	Stack    string
	DeadText string
}

// Failing ends a job for good.
type Failing struct {
	Handle
	Error string
	Stack string
}

// Releasing hands a job back, ready after DelayS seconds.
type Releasing struct {
	Handle
	DelayS int64
}

// Verdict is what became of a retried job.
type Verdict int

// The verdicts of Retry.
const (
	Refused  Verdict = iota // the claim did not hold; nothing was changed
	Retrying                // pending again
	Buried                  // in the dead letters: no attempts were left
)

// Row is one job as stored. Times are Unix seconds; nil is unset.
type Row struct {
	ID             int64
	Queue          string
	State          State
	Payload        []byte // never nil; shortened by ListJobs
	PayloadSize    int64  // of the whole payload, in bytes
	Priority       int64
	Stamps         Stamps
	Attempts       int64
	Fence          int64
	LapsedFence    int64 // of the last claim that lapsed without a word; zero when the job is no suspect
	Claimant       string
	CreatedAt      int64
	RunAt          int64
	ClaimedAt      *int64
	ClaimExpiresAt *int64
	ExpiresAt      *int64
	LastError      *string
	DiedAt         *int64
	Schedule       string // empty unless fired by a schedule
	ScheduledFor   *int64
	Failures       []Failure // oldest first; only from GetJob
}

// Filter selects jobs for ListJobs. Zero fields do not restrict.
type Filter struct {
	Queue        string
	State        State
	Before       int64 // only ids below this one: the last id of the previous page
	Limit        int64
	PayloadLimit int64 // bytes of payload to return for each job
}

// DeadFilter selects dead jobs. Zero fields do not restrict.
type DeadFilter struct {
	Queue      string
	OlderThanS *int64 // only those that died at or before now minus this
}

// QueueStats counts one queue.
type QueueStats struct {
	Queue        string
	Ready        int64
	Delayed      int64
	Processing   int64
	Dead         int64
	OldestReadyS *int64 // age of the longest-ready job in seconds; nil if none is ready
	Workers      int64  // announced and not lapsed
	Paused       bool
}

// Swept counts what one sweep of one queue did.
type Swept struct {
	Expired  int64 // moved to the dead letters
	Dropped  int64 // dead and past their retention
	Repaired int64 // processing rows that had no deadline
}

// FireOptions are what the jobs of a schedule are enqueued with.
type FireOptions struct {
	Priority int64
	ExpiresS *int64
	Stamps   Stamps
}

// Schedule is one schedule as stored. The store does not read Spec.
type Schedule struct {
	Name       string
	Queue      string
	Spec       string
	Payload    []byte
	Fire       FireOptions
	Anchor     *int64 // nil: CreatedAt is the anchor
	CatchUp    int64
	NextFireAt int64
	Paused     bool
	CreatedAt  int64 // set by the store on first registration
}

// Plan is what one due schedule does: one job for each boundary, in order, then NextFireAt.
type Plan struct {
	Boundaries []int64
	NextFireAt int64
}

// Ticked reports one due schedule.
type Ticked struct {
	Name  string
	Queue string
	IDs   []int64
	Err   error // from plan; nothing was fired
}

// Problem is one inconsistency found by Check.
type Problem struct {
	Kind   string // short and stable, such as "stuck" or "integrity"
	JobID  int64  // zero if it is about no single job
	Queue  string // empty if it is about no single queue
	Detail string // what is wrong and what to do about it
}
