package storetest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// books keeps the accounts of rule D5 for one database: what went in, and what was answered to have gone out.
type books struct {
	mu      sync.Mutex
	in      map[int64]int // ids that a call returned, and how often: more than once breaks E1
	out     map[int64]int // ids that a call said it has deleted, and how often: more than once breaks C1
	dropped int64         // deleted by calls that only count
	claims  map[sqlstore.Handle]int
	pending map[sqlstore.Tx]*books // what happened inside transactions that have not ended
}

func newBooks() *books {
	return &books{
		in:      make(map[int64]int),
		out:     make(map[int64]int),
		claims:  make(map[sqlstore.Handle]int),
		pending: make(map[sqlstore.Tx]*books),
	}
}

func (b *books) added(ids ...int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range ids {
		b.in[id]++
	}
}

func (b *books) removed(ids []int64, answers []bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, ok := range answers {
		if ok {
			b.out[ids[i]]++
		}
	}
}

func (b *books) lost(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropped += n
}

func (b *books) claimed(rows []sqlstore.Row) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range rows {
		b.claims[sqlstore.Handle{ID: r.ID, Fence: r.Fence}]++
	}
}

// inside returns the accounts of one transaction, which count only once it is settled.
func (b *books) inside(tx sqlstore.Tx) *books {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pending[tx] == nil {
		b.pending[tx] = newBooks()
	}
	return b.pending[tx]
}

// settle ends the accounts of a transaction.
func (b *books) settle(tx sqlstore.Tx, committed bool) {
	within := b.inside(tx)
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.pending, tx)
	if !committed {
		return
	}
	for id, n := range within.in {
		b.in[id] += n
	}
	for id, n := range within.out {
		b.out[id] += n
	}
}

// audit compares the accounts with the jobs that are there.
func (b *books) audit(t testing.TB, present map[int64]bool) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, n := range b.in {
		if n > 1 {
			t.Errorf("E1: id %d was given to %d jobs", id, n)
		}
	}
	for h, n := range b.claims {
		if n > 1 {
			t.Errorf("C1: claim %d of job %d was handed out %d times", h.Fence, h.ID, n)
		}
	}
	for id, n := range b.out {
		if n > 1 || present[id] {
			t.Errorf("D5: job %d was deleted %d times by the answers; still there: %v", id, n, present[id])
		}
	}
	for id := range present {
		if b.in[id] == 0 {
			t.Errorf("D5: job %d is there and nobody enqueued it", id)
		}
	}
	var missing []int64
	for id := range b.in {
		if !present[id] && b.out[id] == 0 {
			missing = append(missing, id)
		}
	}
	if int64(len(missing)) != b.dropped {
		t.Errorf("D5: jobs that are nowhere: got %d (%v), want %d, as many as retention and purge have counted",
			len(missing), head(missing), b.dropped)
	}
}

// head shortens a list for a message.
func head(ids []int64) string {
	if len(ids) > 10 {
		return fmt.Sprint(ids[:10], " and more")
	}
	return fmt.Sprint(ids)
}

// booked is a store whose calls go into the books.
type booked struct {
	sqlstore.Store
	books *books
}

func (s booked) Enqueue(ctx context.Context, jobs []sqlstore.NewJob) ([]int64, error) {
	ids, err := s.Store.Enqueue(ctx, jobs)
	s.books.added(ids...)
	return ids, err
}

func (s booked) EnqueueTx(ctx context.Context, tx sqlstore.Tx, jobs []sqlstore.NewJob) ([]int64, error) {
	ids, err := s.Store.EnqueueTx(ctx, tx, jobs)
	s.books.inside(tx).added(ids...)
	return ids, err
}

func (s booked) ClaimBatch(ctx context.Context, c sqlstore.Claim) ([]sqlstore.Row, error) {
	rows, err := s.Store.ClaimBatch(ctx, c)
	s.books.claimed(rows)
	return rows, err
}

func (s booked) AckBatch(ctx context.Context, handles []sqlstore.Handle) ([]bool, error) {
	answers, err := s.Store.AckBatch(ctx, handles)
	s.books.removed(idsOf(handles), answers)
	return answers, err
}

func (s booked) AckBatchTx(ctx context.Context, tx sqlstore.Tx, handles []sqlstore.Handle) ([]bool, error) {
	answers, err := s.Store.AckBatchTx(ctx, tx, handles)
	s.books.inside(tx).removed(idsOf(handles), answers)
	return answers, err
}

func (s booked) Cancel(ctx context.Context, ids []int64) ([]bool, error) {
	answers, err := s.Store.Cancel(ctx, ids)
	s.books.removed(ids, answers)
	return answers, err
}

func (s booked) Purge(ctx context.Context, ids []int64) ([]bool, error) {
	answers, err := s.Store.Purge(ctx, ids)
	s.books.removed(ids, answers)
	return answers, err
}

func (s booked) PurgeMatching(ctx context.Context, f sqlstore.DeadFilter, limit int64) (int64, error) {
	n, err := s.Store.PurgeMatching(ctx, f, limit)
	s.books.lost(n)
	return n, err
}

func (s booked) SweepExpired(ctx context.Context, queue, text string) (sqlstore.Swept, error) {
	swept, err := s.Store.SweepExpired(ctx, queue, text)
	s.books.lost(swept.Dropped)
	return swept, err
}

func (s booked) Tick(
	ctx context.Context, plan func(now int64, due sqlstore.Schedule) (sqlstore.Plan, error),
) ([]sqlstore.Ticked, error) {
	ticked, err := s.Store.Tick(ctx, plan)
	for _, tk := range ticked {
		s.books.added(tk.IDs...)
	}
	return ticked, err
}

func (s booked) FireNow(ctx context.Context, name string, check func(sqlstore.Schedule) error) (int64, bool, error) {
	id, ok, err := s.Store.FireNow(ctx, name, check)
	if ok {
		s.books.added(id)
	}
	return id, ok, err
}

func idsOf(handles []sqlstore.Handle) []int64 {
	ids := make([]int64, len(handles))
	for i, h := range handles {
		ids[i] = h.ID
	}
	return ids
}
