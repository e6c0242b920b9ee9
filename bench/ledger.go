package main

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ledger counts which jobs were handled, and how often. It is safe for concurrent use.
type ledger struct {
	limit      int64           // of the numbers
	seen       []atomic.Uint32 // one bit a job
	total      atomic.Int64    // jobs to come
	handled    atomic.Int64    // different jobs
	duplicates atomic.Int64    // handled again
	strangers  atomic.Int64    // numbers that nobody enqueued
	done       chan struct{}   // closed when all are handled
	close      func()
}

// newLedger is for jobs whose numbers are below total.
func newLedger(total int) *ledger {
	l := newOpenLedger(total)
	l.expect(int64(total))
	return l
}

// newOpenLedger is for jobs whose numbers are below limit, and whose number becomes known later.
func newOpenLedger(limit int) *ledger {
	l := &ledger{limit: int64(limit), seen: make([]atomic.Uint32, (limit+31)/32), done: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.done) })
	l.total.Store(math.MaxInt64)
	return l
}

// expect says how many jobs there are in all.
func (l *ledger) expect(total int64) {
	l.total.Store(total)
	if l.handled.Load() >= total {
		l.close()
	}
}

// mark notes that a job was handled.
func (l *ledger) mark(n int64) {
	if n < 0 || n >= l.limit {
		l.strangers.Add(1)
		return
	}
	bit := uint32(1) << (n % 32)
	if l.seen[n/32].Or(bit)&bit != 0 {
		l.duplicates.Add(1)
		return
	}
	if l.handled.Add(1) >= l.total.Load() {
		l.close()
	}
}

func (l *ledger) report(m Metrics) {
	m["handled"] = float64(l.handled.Load())
	m["duplicates"] = float64(l.duplicates.Load())
	m["strangers"] = float64(l.strangers.Load())
}

// percentile is the smallest value that at least p percent of the values do not exceed. It sorts them. Zero for none.
func percentile[T cmp.Ordered](values []T, p float64) (v T) {
	if len(values) == 0 {
		return v
	}
	slices.Sort(values)
	return values[min(max(int(math.Ceil(p/100*float64(len(values))))-1, 0), len(values)-1)]
}

// median is the middle value, or the mean of the two middle ones.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
