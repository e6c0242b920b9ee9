package queue

import (
	"context"
	"errors"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// DefaultPoll is how often Watch looks for work of other processes.
const DefaultPoll = time.Second

// Claim hands out up to n ready jobs of a queue, in the order priority descending, ready time ascending, enqueue order
// ascending, and makes them the claimant's for their visibility timeout. No other claim gets a job while this one holds.
// It also hands out jobs whose previous claim ended without a word. Each job returned has spent one attempt; jobs that
// have none left go to the dead letters instead. A paused queue hands out nothing. // C1 C2 C3 C6
//
// The claimant's name is for people who look at the job and need not be unique: 1 to 512 bytes of valid UTF-8 without
// control characters.
func (c *Client) Claim(ctx context.Context, queue, claimant string, n int) ([]*Job, error) {
	return c.claim(ctx, queue, claimant, n, sqlstore.AnyJob)
}

// ClaimProven is Claim without suspects, which stay where they are: see [Job.Suspect].
func (c *Client) ClaimProven(ctx context.Context, queue, claimant string, n int) ([]*Job, error) {
	return c.claim(ctx, queue, claimant, n, sqlstore.OnlyProven)
}

// ClaimSuspects is Claim of suspects only: see [Job.Suspect].
func (c *Client) ClaimSuspects(ctx context.Context, queue, claimant string, n int) ([]*Job, error) {
	return c.claim(ctx, queue, claimant, n, sqlstore.OnlySuspects)
}

func (c *Client) claim(
	ctx context.Context, queue, claimant string, n int, kind sqlstore.ClaimKind,
) ([]*Job, error) {
	claim, err := claimOf(queue, claimant, n, kind)
	var rows []sqlstore.Row
	if err == nil {
		rows, err = c.store.ClaimBatch(ctx, claim)
	}
	if err != nil {
		return nil, failed("claim", queue, 0, err)
	}
	return jobsOf(rows), nil
}

func claimOf(queue, claimant string, n int, kind sqlstore.ClaimKind) (sqlstore.Claim, error) {
	problems := []error{ValidateName(queue), validateClaimant(claimant)}
	if n <= 0 {
		problems = append(problems, invalidf("number of jobs %d is not positive", n))
	}
	return sqlstore.Claim{
		Queue:         queue,
		Claimant:      claimant,
		Limit:         int64(n),
		Kind:          kind,
		ExhaustedText: TextMaxAttempts,
		LapsedText:    TextLeaseLapsed,
	}, errors.Join(problems...)
}

// Unread is jobs that are claimed and may still have to be read.
type Unread struct {
	queue string
	jobs  sqlstore.Unread
}

// ClaimUnread is ClaimProven for those who claim without a break: the next claim can be made while the jobs of this one are
// read. Every Unread has to be read. Its attempts are spent and its visibility timeouts run from now on; there can be no
// heartbeat before it is known whose.
func (c *Client) ClaimUnread(ctx context.Context, queue, claimant string, n int) (*Unread, error) {
	claim, err := claimOf(queue, claimant, n, sqlstore.OnlyProven)
	if err != nil {
		return nil, failed("claim", queue, 0, err)
	}
	u := &Unread{queue: queue}
	if late, ok := c.store.(sqlstore.LateReader); ok {
		u.jobs, err = late.ClaimUnread(ctx, claim)
	} else {
		var rows []sqlstore.Row
		rows, err = c.store.ClaimBatch(ctx, claim)
		u.jobs = sqlstore.AtOnce(rows)
	}
	if err != nil {
		return nil, failed("claim", queue, 0, err)
	}
	return u, nil
}

// Len is how many jobs were claimed.
func (u *Unread) Len() int { return u.jobs.N }

// Read hands the jobs out in the order of [Client.Claim], all but those whose claims have ended since. It is to be called
// once. An error means that nobody has the jobs: they are released, or their claims lapse.
func (u *Unread) Read(ctx context.Context) ([]*Job, error) {
	rows, err := u.jobs.Read(ctx)
	if err != nil {
		return nil, failed("claim", u.queue, 0, err)
	}
	return jobsOf(rows), nil
}

// NextReady says for each queue how long it takes until there is something to claim: zero if there is now. A queue is
// absent if nothing waits in it or it is paused. The answer is as of this moment; a later enqueue changes it.
func (c *Client) NextReady(ctx context.Context, queues []string) (map[string]time.Duration, error) {
	if len(queues) == 0 {
		return map[string]time.Duration{}, nil
	}
	now, next, err := c.store.NextReady(ctx, queues)
	if err != nil {
		return nil, failed("next ready", "", 0, err)
	}
	waits := make(map[string]time.Duration, len(next))
	for queue, at := range next {
		waits[queue] = duration(max(at, now) - now) // a time that was edited may be as far back as a number goes // K3
	}
	return waits, nil
}

// Idle says whether none of the queues has work left for now: a job that is processing, or pending and either ready or
// waiting for a retry. Jobs that were delayed and never tried do not count, nor do those of a paused queue unless they
// are processing.
func (c *Client) Idle(ctx context.Context, queues []string) (bool, error) {
	if len(queues) == 0 {
		return true, nil
	}
	idle, err := c.store.Idle(ctx, queues)
	if err != nil {
		return false, failed("idle", "", 0, err)
	}
	return idle, nil
}

// Locked says which of these jobs somebody's transaction has locked at the moment. What is asked for them waits for its end,
// or fails with [ErrBusy], as does all that is asked for in the same call. A SQLite database locks no single jobs: none.
func (c *Client) Locked(ctx context.Context, ids ...int64) ([]int64, error) {
	rows, ok := c.store.(sqlstore.RowLocker)
	if !ok || len(ids) == 0 {
		return nil, nil
	}
	locked, err := rows.Locked(ctx, ids)
	if err != nil {
		return nil, failed("look for locks", "", 0, err)
	}
	return locked, nil
}

// Watch calls wake whenever new work may have become claimable, until ctx ends, whose error it then returns. The queue
// is named when known and empty otherwise. Changes made through this client are seen at once, those of other processes
// at the latest after poll; a poll of zero means DefaultPoll. Signals may be spurious, and time passing gives none: ask
// NextReady for that. wake is called from one goroutine at a time and must not block.
func (c *Client) Watch(ctx context.Context, poll time.Duration, wake func(queue string)) error {
	const op = "watch"
	if wake == nil {
		return failed(op, "", 0, invalidf("wake is nil"))
	}
	if poll < 0 {
		return failed(op, "", 0, invalidf("poll %v is negative", poll))
	}
	if poll == 0 {
		poll = DefaultPoll
	}
	return failed(op, "", 0, c.store.Watch(ctx, poll, wake))
}

// Announce records for ttl that a worker serves exactly these queues. It is how Stats knows of queues that nobody
// serves; claims do not depend on it.
func (c *Client) Announce(ctx context.Context, worker string, queues []string, ttl time.Duration) error {
	problems := []error{validateText("worker", worker, maxClaimantLength)}
	for _, q := range queues {
		problems = append(problems, ValidateName(q))
	}
	if ttl <= 0 {
		problems = append(problems, invalidf("ttl %v is not positive", ttl))
	}
	err := errors.Join(problems...)
	if err == nil {
		err = c.store.Announce(ctx, worker, queues, Seconds(ttl))
	}
	return failed("announce", "", 0, err)
}

// Withdraw forgets a worker that was announced.
func (c *Client) Withdraw(ctx context.Context, worker string) error {
	return failed("withdraw", "", 0, c.store.Withdraw(ctx, worker))
}
