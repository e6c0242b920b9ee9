package queue

import (
	"context"
	"sync"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// Stats counts one queue.
type Stats struct {
	Queue       string
	Ready       int           // pending and due
	Delayed     int           // pending and not yet due
	Processing  int           // claimed, also when the claim has lapsed
	Dead        int           // in the dead letters
	OldestReady time.Duration // how long the longest-ready job has waited; zero if none is ready
	Workers     int           // announced and not lapsed
	Paused      bool
}

// Stats has one element for each queue that has jobs, a worker or a pause, ordered by name.
//
// The database counts its jobs for it, a million in about a fifth of a second. An answer that took longer than a tenth
// is given to all callers of this client for the next ten times as long: however many ask, and however often, counting
// never takes more than a tenth of one connection's time. // K94
func (c *Client) Stats(ctx context.Context) ([]Stats, error) {
	rows, err := c.tally.get(ctx, c.store.Stats)
	if err != nil {
		return nil, failed("stats", "", 0, err)
	}
	stats := make([]Stats, len(rows))
	for i, r := range rows {
		stats[i] = Stats{
			Queue:      r.Queue,
			Ready:      clampInt(r.Ready),
			Delayed:    clampInt(r.Delayed),
			Processing: clampInt(r.Processing),
			Dead:       clampInt(r.Dead),
			Workers:    clampInt(r.Workers),
			Paused:     r.Paused,
		}
		if r.OldestReadyS != nil {
			stats[i].OldestReady = duration(*r.OldestReadyS)
		}
	}
	return stats, nil
}

const (
	// laborious is how long a count takes that is not repeated for each caller.
	laborious = 100 * time.Millisecond

	// respite is for how many times as long as it took such a count is good.
	respite = 10
)

// tally is the last count, if it was laborious. The zero value is ready; it is safe for concurrent use.
type tally struct {
	mu       sync.Mutex
	rows     []sqlstore.QueueStats // never changed
	until    time.Time             // zero: there is none
	counting chan struct{}         // closed when the count that replaces it has ended; nil: none is under way
}

// get counts, unless the last count is still good. As long as there was a laborious one, callers count one at a time and
// the others wait for its answer; whoever counts quickly meets nobody.
func (t *tally) get(
	ctx context.Context, count func(context.Context) ([]sqlstore.QueueStats, error),
) ([]sqlstore.QueueStats, error) {
	for {
		rows, good, others, ours := t.look()
		switch {
		case good:
			return rows, nil
		case others == nil:
			began := time.Now()
			rows, err := count(ctx)
			t.keep(rows, err, began, ours)
			return rows, err
		}
		select {
		case <-others:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// look returns the last count if it is good; else what to wait for, if others count; else what to close after counting, if
// others are to wait for it.
func (t *tally) look() (rows []sqlstore.QueueStats, good bool, others <-chan struct{}, ours chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Now().Before(t.until) {
		return t.rows, true, nil, nil
	}
	if t.counting != nil {
		return nil, false, t.counting, nil
	}
	if !t.until.IsZero() {
		t.counting = make(chan struct{})
	}
	return nil, false, nil, t.counting
}

// keep notes what a count has come to. A failure is not kept.
func (t *tally) keep(rows []sqlstore.QueueStats, err error, began time.Time, ours chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ours != nil {
		close(ours)
		t.counting = nil
	}
	if err != nil {
		return
	}
	t.rows, t.until = nil, time.Time{}
	now := time.Now()
	if took := now.Sub(began); took > laborious {
		t.rows, t.until = rows, now.Add(respite*took)
	}
}
