package queue

import (
	"context"
	"slices"
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
	rows     []sqlstore.QueueStats
	until    time.Time     // zero: there is none
	counting chan struct{} // closed when the count that replaces it has ended; nil: none is under way
}

// get counts, unless the last count is still good. As long as there was a laborious one, callers count one at a time and
// the others wait for its answer; whoever counts quickly meets nobody.
func (t *tally) get(
	ctx context.Context, count func(context.Context) ([]sqlstore.QueueStats, error),
) ([]sqlstore.QueueStats, error) {
	t.mu.Lock()
	for {
		if time.Now().Before(t.until) {
			defer t.mu.Unlock()
			return slices.Clone(t.rows), nil
		}
		if t.counting == nil {
			break
		}
		ended := t.counting
		t.mu.Unlock()
		select {
		case <-ended:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		t.mu.Lock()
	}
	var ours chan struct{}
	if !t.until.IsZero() {
		ours = make(chan struct{})
		t.counting = ours
	}
	t.mu.Unlock()

	began := time.Now()
	rows, err := count(ctx)
	now := time.Now()

	t.mu.Lock()
	defer t.mu.Unlock()
	if ours != nil {
		close(ours)
		t.counting = nil
	}
	if err != nil {
		return nil, err
	}
	took := now.Sub(began)
	if t.rows, t.until = nil, (time.Time{}); took > laborious {
		t.rows, t.until = rows, now.Add(respite*took)
	}
	return slices.Clone(rows), nil
}
