package postgres

import (
	"context"
	goruntime "runtime"
	"slices"
	"sync"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// enqueues gathers the small enqueues of concurrent callers. While one statement is on its way the next ones gather, so
// that many callers cost few commits and one caller does not wait: a commit is a write to the server's disk, and the
// dearest part of storing a job.
//
// Each call is still one transaction to its caller: it has its own answer, its own context, and its own failure.
type enqueues struct {
	mu      sync.Mutex
	waiting []*enqueue
	senders int            // goroutines that send
	running sync.WaitGroup // the same
}

const (
	// maxSenders is how many statements are on their way at once: while the server writes one to its disk, it can read
	// the next.
	maxSenders = 2

	gathering = 100 * time.Microsecond // see gather

	// What is larger goes by itself: it gains nothing from company, and the company would wait for it.
	smallJobs  = 100
	smallBytes = 1 << 20
	// The most that is sent together.
	batchJobs  = 1_000
	batchBytes = 4 << 20
)

// enqueue is one call.
type enqueue struct {
	ctx  context.Context
	jobs []sqlstore.NewJob
	size int
	done chan struct{} // closed when ids and err are set

	ids []int64
	err error
}

// small says whether jobs may be sent together with those of others: also that none of them can be refused for its
// expiry, which is refused for all of a statement.
func small(jobs []sqlstore.NewJob) bool {
	return len(jobs) <= smallJobs && sizeOf(jobs) <= smallBytes && !slices.ContainsFunc(jobs, unsure)
}

func sizeOf(jobs []sqlstore.NewJob) (bytes int) {
	for i := range jobs {
		bytes += len(jobs[i].Payload)
	}
	return bytes
}

// do stores jobs, in company if there is any.
func (w *enqueues) do(ctx context.Context, s *Store, jobs []sqlstore.NewJob) ([]int64, error) {
	done, err := s.call()
	if err != nil {
		return nil, err
	}
	defer done()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e := &enqueue{ctx: ctx, jobs: jobs, size: sizeOf(jobs), done: make(chan struct{})}
	w.mu.Lock()
	w.waiting = append(w.waiting, e)
	if w.senders < maxSenders {
		w.senders++
		w.running.Go(func() { w.send(s) })
	}
	w.mu.Unlock()

	select {
	case <-e.done:
		return e.ids, e.err
	case <-ctx.Done():
	}
	if w.withdraw(e) {
		return nil, ctx.Err() // never sent
	}
	select { // it is on its way, and the answer is most likely too
	case <-e.done:
		return e.ids, e.err
	case <-time.After(cancelDelay + cancelLimit):
		return nil, ctx.Err()
	}
}

// withdraw takes back a call that nobody has begun to send.
func (w *enqueues) withdraw(e *enqueue) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.waiting, e)
	if i < 0 {
		return false
	}
	w.waiting = slices.Delete(w.waiting, i, i+1)
	return true
}

// send sends what waits until nothing does.
func (w *enqueues) send(s *Store) {
	for company := 0; ; {
		w.gather(company)
		batch := w.take()
		if len(batch) == 0 {
			return
		}
		s.enqueueTogether(batch)
		company = len(batch)
	}
}

// gather waits until as many calls wait as the last batch had, but hardly longer than it takes those callers to come
// again: without it, two halves of them would take turns. Who came alone is not kept waiting.
func (w *enqueues) gather(company int) {
	if company < 2 {
		return
	}
	for end := time.Now().Add(gathering); time.Now().Before(end); goruntime.Gosched() {
		w.mu.Lock()
		n := len(w.waiting)
		w.mu.Unlock()
		if n >= company {
			return
		}
	}
}

// take is the next batch; without one, the goroutine that asks is done.
func (w *enqueues) take() []*enqueue {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, jobs, bytes := 0, 0, 0
	for _, e := range w.waiting {
		jobs, bytes = jobs+len(e.jobs), bytes+e.size
		if n > 0 && (jobs > batchJobs || bytes > batchBytes) {
			break
		}
		n++
	}
	batch := slices.Clone(w.waiting[:n])
	w.waiting = slices.Delete(w.waiting, 0, n)
	if n == 0 {
		w.senders--
	}
	return batch
}

// wait returns once nothing is being sent. No call may come any more.
func (w *enqueues) wait() { w.running.Wait() }

// enqueueTogether stores the jobs of all calls in one statement and answers each. If the values of one are what the
// server refuses, each is tried by itself.
func (s *Store) enqueueTogether(batch []*enqueue) {
	ids, err := s.enqueueBatch(batch)
	if refused(err) && len(batch) > 1 {
		for _, e := range batch {
			s.enqueueTogether([]*enqueue{e})
		}
		return
	}
	for _, e := range batch {
		if err == nil {
			e.ids, ids = ids[:len(e.jobs):len(e.jobs)], ids[len(e.jobs):]
		}
		e.err = err
		if err != nil && e.ctx.Err() != nil {
			e.err = ended(e.ctx, err)
		}
		close(e.done)
	}
}

// enqueueBatch goes on until the contexts of all calls have ended.
func (s *Store) enqueueBatch(batch []*enqueue) (ids []int64, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var mu sync.Mutex
	left := len(batch)
	stops := make([]func() bool, 0, len(batch))
	defer func() {
		for _, stop := range stops {
			stop()
		}
	}()
	var jobs []sqlstore.NewJob
	for _, e := range batch {
		jobs = append(jobs, e.jobs...)
		stops = append(stops, context.AfterFunc(e.ctx, func() {
			mu.Lock()
			defer mu.Unlock()
			if left--; left == 0 {
				cancel()
			}
		}))
	}
	t := &tx{store: s}
	err = s.framed(ctx, ordinary, func(ctx context.Context) error {
		t.on, t.clock = s.on(ordinary), s.moved()
		return again(func() (err error) {
			t.woke, t.doubts = nil, nil
			ids, err = t.enqueue(ctx, [][]sqlstore.NewJob{jobs}, s.listener.token)
			return err
		})
	})
	if err == nil {
		s.tell(t)
	}
	return ids, err
}
