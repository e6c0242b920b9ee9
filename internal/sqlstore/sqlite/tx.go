package sqlite

import (
	"context"
	"database/sql"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// tx is an open write transaction. now is the clock as read under the write lock, one value for each call at least.
type tx struct {
	*session
	now      int64
	timeless bool     // now is zero: all that the calls do asks for the clock itself
	woke     []string // queues that may have work once this is committed
	wrote    bool     // there is something to commit
	ids      *reserve // nil: of nobody who would know
	reserves bool     // ids for the calls to come, if this is for one only
}

// wake notes that the queue may have new work.
func (t *tx) wake(queue string) { t.woke = append(t.woke, queue) }

// itIs is the time for those who asked for it, unless it has been told already.
func (t *tx) itIs(now int64) {
	if t.timeless {
		t.now, t.timeless = now, false
	}
}

// exec is the session's, and notes whether it has changed anything.
func (t *tx) exec(ctx context.Context, name string, args ...any) (sql.Result, error) {
	res, err := t.session.exec(ctx, name, args...)
	if err == nil && !t.wrote {
		n, err := res.RowsAffected()
		t.wrote = err != nil || n > 0
	}
	return res, err
}

// affected runs a statement and counts the rows it changed.
func (t *tx) affected(ctx context.Context, name string, args ...any) (int64, error) {
	res, err := t.exec(ctx, name, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// run does what calls ask for.
func (t *tx) run(ctx context.Context, batch []*call) error {
	inserts := make([]*call, 0, len(batch))
	for _, c := range batch {
		if c.work == nil {
			inserts = append(inserts, c)
			continue
		}
		t.woke = nil
		if err := c.work(ctx, t); err != nil {
			return err
		}
		c.woke = t.woke
	}
	if len(inserts) == 0 {
		return nil
	}
	t.woke = nil
	ids, err := t.enqueue(ctx, jobsOf(inserts))
	if err != nil {
		return err
	}
	inserts[0].woke = t.woke // it does not matter who wakes
	for _, c := range inserts {
		c.ids, ids = ids[:len(c.jobs):len(c.jobs)], ids[len(c.jobs):]
	}
	return nil
}

// jobsOf are the jobs of calls, one after the other.
func jobsOf(inserts []*call) []sqlstore.NewJob {
	if len(inserts) == 1 {
		return inserts[0].jobs // which may be many
	}
	n := 0
	for _, c := range inserts {
		n += len(c.jobs)
	}
	jobs := make([]sqlstore.NewJob, 0, n)
	for _, c := range inserts {
		jobs = append(jobs, c.jobs...)
	}
	return jobs
}
