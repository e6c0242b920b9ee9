package queue

import (
	"context"
	"database/sql"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// The operations on a claim. All of them share one condition: the job is processing, its fence is the handle's, and its
// deadline has not passed. Where it does not hold, nothing is changed and the answer is false or Refused. // H1

// Ack ends jobs that are done and deletes them. False means that the claim was over before: another worker may run, or
// have run, the job as well. // H2
func (c *Client) Ack(ctx context.Context, handles ...Handle) ([]bool, error) {
	if len(handles) == 0 {
		return nil, nil
	}
	held, err := c.store.AckBatch(ctx, storeHandles(handles))
	if err != nil {
		return nil, failed("ack", "", onlyID(handles), err)
	}
	return held, nil
}

// AckTx is Ack inside the caller's own transaction on the same database: the jobs end exactly if that commits. Roll back
// if the answer is false, so that what the handler wrote is not kept twice. // H2
func (c *Client) AckTx(ctx context.Context, tx *sql.Tx, handles ...Handle) ([]bool, error) {
	if len(handles) == 0 {
		return nil, nil
	}
	if tx == nil {
		return nil, failed("ack", "", onlyID(handles), invalidf("transaction is nil"))
	}
	held, err := c.store.AckBatchTx(ctx, tx, storeHandles(handles))
	if err != nil {
		return nil, failed("ack", "", onlyID(handles), err)
	}
	return held, nil
}

// AckWithin is AckTx for a transaction that database/sql knows nothing of: see package pgxtx.
func (c *Client) AckWithin(ctx context.Context, tx Tx, handles ...Handle) ([]bool, error) {
	if len(handles) == 0 {
		return nil, nil
	}
	if tx.tx == nil {
		return nil, failed("ack", "", onlyID(handles), invalidf("transaction is nil"))
	}
	held, err := c.store.AckBatchTx(ctx, tx.tx, storeHandles(handles))
	if err != nil {
		return nil, failed("ack", "", onlyID(handles), err)
	}
	return held, nil
}

// Heartbeat keeps jobs ours for another visibility timeout from now. False means that another worker may have the job:
// stop working and report nothing. // H3
func (c *Client) Heartbeat(ctx context.Context, handles ...Handle) ([]bool, error) {
	if len(handles) == 0 {
		return nil, nil
	}
	extensions := make([]sqlstore.Extension, len(handles))
	for i, h := range handles {
		extensions[i].Handle = sqlstore.Handle(h)
	}
	held, err := c.store.Heartbeat(ctx, extensions)
	if err != nil {
		return nil, failed("heartbeat", "", onlyID(handles), err)
	}
	return held, nil
}

// Extend keeps one job ours until d from now, which may be sooner or later than its visibility timeout: more than zero
// and at most one year. The next Heartbeat goes back to the visibility timeout. // H3
func (c *Client) Extend(ctx context.Context, h Handle, d time.Duration) (bool, error) {
	const op = "extend"
	if d <= 0 || d > MaxVisibilityTimeout {
		return false, failed(op, "", h.ID, invalidf("extension %v is not within 0 and one year", d))
	}
	s := Seconds(d)
	held, err := c.store.Heartbeat(ctx, []sqlstore.Extension{{Handle: sqlstore.Handle(h), S: &s}})
	if err != nil {
		return false, failed(op, "", h.ID, err)
	}
	return held[0], nil
}

// Retry is one failed attempt that may be repeated.
type Retry struct {
	Job   *Job   // as it came from Claim
	Err   string // what went wrong; empty means "failed"
	Stack string // of a panic; empty otherwise
	// Delay is how long until the next attempt; less than zero counts as zero. Nil means the curve: see Backoff.
	Delay *time.Duration
}

// Verdict is what became of a job that was to be retried.
type Verdict int

// The verdicts of Retry.
const (
	Refused  Verdict = Verdict(sqlstore.Refused)  // the claim was over before; nothing was changed
	Retrying Verdict = Verdict(sqlstore.Retrying) // pending again
	Buried   Verdict = Verdict(sqlstore.Buried)   // in the dead letters: no attempts were left
)

// String returns the verdict in lower case.
func (v Verdict) String() string {
	switch v {
	case Retrying:
		return "retrying"
	case Buried:
		return "buried"
	default:
		return "refused"
	}
}

// Retry ends attempts that failed. A job with attempts left is pending again and ready after the delay; one without goes
// to the dead letters, with Err as its reason, or "max attempts exceeded" if Err is empty. // H4 H7
//
// Texts of any kind are accepted: what is not valid UTF-8, or is NUL, is replaced, and what exceeds 64 KiB for an error
// or 32 KiB for a stack is cut. // K88
func (c *Client) Retry(ctx context.Context, retries ...Retry) ([]Verdict, error) {
	const op = "retry"
	if len(retries) == 0 {
		return nil, nil
	}
	rows := make([]sqlstore.Retrial, len(retries))
	for i := range retries {
		r := &retries[i]
		if r.Job == nil {
			return nil, failed(op, "", 0, invalidf("retries[%d] has no job", i))
		}
		rows[i] = sqlstore.Retrial{
			Handle:   sqlstore.Handle(r.Job.Handle()),
			DelayS:   c.retryDelay(r),
			Error:    errorText(r.Err, TextFailed),
			Stack:    stackText(r.Stack),
			DeadText: errorText(r.Err, TextMaxAttempts),
		}
	}
	verdicts, err := c.store.Retry(ctx, rows)
	if err != nil {
		queue, id := "", int64(0)
		if len(retries) == 1 {
			queue, id = retries[0].Job.Queue, retries[0].Job.ID
		}
		return nil, failed(op, queue, id, err)
	}
	out := make([]Verdict, len(verdicts))
	for i, v := range verdicts {
		out[i] = Verdict(v)
	}
	return out, nil
}

func (c *Client) retryDelay(r *Retry) int64 {
	if r.Delay != nil {
		return Seconds(max(*r.Delay, 0))
	}
	return nearestSeconds(Backoff(r.Job.BackoffBase, c.cfg.MaxBackoff, r.Job.Attempt))
}

// Failed is one attempt that must not be repeated.
type Failed struct {
	Handle Handle
	Err    string // what went wrong; empty means "failed"
	Stack  string // of a panic; empty otherwise
}

// Fail ends jobs for good: to the dead letters, whatever attempts are left. False means that the claim was over before.
// Texts are treated as by Retry. // H5 H7
func (c *Client) Fail(ctx context.Context, failures ...Failed) ([]bool, error) {
	if len(failures) == 0 {
		return nil, nil
	}
	rows := make([]sqlstore.Failing, len(failures))
	for i := range failures {
		f := &failures[i]
		rows[i] = sqlstore.Failing{
			Handle: sqlstore.Handle(f.Handle),
			Error:  errorText(f.Err, TextFailed),
			Stack:  stackText(f.Stack),
		}
	}
	held, err := c.store.Fail(ctx, rows)
	if err != nil {
		return nil, failed("fail", "", idIfOne(len(failures), failures[0].Handle.ID), err)
	}
	return held, nil
}

// Released is one job to hand back.
type Released struct {
	Handle Handle
	Delay  time.Duration // until it is ready again; zero or less means now
}

// Release hands jobs back without spending the attempt: to snooze, or because the worker stops. False means that the
// claim was over before. // H6
func (c *Client) Release(ctx context.Context, releases ...Released) ([]bool, error) {
	if len(releases) == 0 {
		return nil, nil
	}
	rows := make([]sqlstore.Releasing, len(releases))
	for i, r := range releases {
		rows[i] = sqlstore.Releasing{Handle: sqlstore.Handle(r.Handle), DelayS: Seconds(max(r.Delay, 0))}
	}
	held, err := c.store.Release(ctx, rows)
	if err != nil {
		return nil, failed("release", "", idIfOne(len(releases), releases[0].Handle.ID), err)
	}
	return held, nil
}

// Cancel deletes pending and processing jobs and says which there were. Whoever holds the claim of one finds out by the
// next operation on it. Dead jobs are not touched: see Purge. // H8
func (c *Client) Cancel(ctx context.Context, ids ...int64) ([]bool, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := c.store.Cancel(ctx, ids)
	if err != nil {
		return nil, failed("cancel", "", idIfOne(len(ids), ids[0]), err)
	}
	return found, nil
}

func storeHandles(handles []Handle) []sqlstore.Handle {
	out := make([]sqlstore.Handle, len(handles))
	for i, h := range handles {
		out[i] = sqlstore.Handle(h)
	}
	return out
}

func onlyID(handles []Handle) int64 { return idIfOne(len(handles), handles[0].ID) }

func idIfOne(n int, id int64) int64 {
	if n == 1 {
		return id
	}
	return 0
}
