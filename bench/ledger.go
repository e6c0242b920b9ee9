package main

import (
	"cmp"
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// ledger counts which jobs of a known number were handled, and how often. It is safe for concurrent use.
type ledger struct {
	total      int64
	seen       []atomic.Uint32 // one bit a job
	handled    atomic.Int64    // different jobs
	duplicates atomic.Int64    // handled again
	strangers  atomic.Int64    // numbers that nobody enqueued
	done       chan struct{}   // closed when all are handled
}

func newLedger(total int) *ledger {
	l := &ledger{total: int64(total), seen: make([]atomic.Uint32, (total+31)/32), done: make(chan struct{})}
	if total == 0 {
		close(l.done)
	}
	return l
}

// mark notes that a job was handled.
func (l *ledger) mark(n int64) {
	if n < 0 || n >= l.total {
		l.strangers.Add(1)
		return
	}
	bit := uint32(1) << (n % 32)
	if l.seen[n/32].Or(bit)&bit != 0 {
		l.duplicates.Add(1)
		return
	}
	if l.handled.Add(1) == l.total {
		close(l.done)
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
