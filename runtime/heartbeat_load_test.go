//go:build !race

package runtime_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/runtime"
)

// K6 on a real file, in real time: what has to be quick competes for the processors and for one write lock. Were the
// heartbeats to stand in line with the enqueues, they would wait for longer than the lease.
//
// Not parallel, and not under the race detector, where a statement takes twenty times as long: what is measured here is
// time, and the load is to come from this test alone.
func TestHeartbeatUnderLoad(t *testing.T) {
	t.Run("K6_burning_handlers_and_bursts_of_enqueues_delay_no_heartbeat", func(t *testing.T) {
		const (
			lease     = 2 * time.Second
			burners   = 8
			enqueuers = 64
		)
		c, path := open(t)
		ids := enqueue(t, c, "burn", burners, queue.EnqueueOptions{VisibilityTimeout: lease})
		l := new(ledger)
		finished := make(chan struct{}, burners)
		until := time.Now().Add(2 * lease)
		burn := l.handler(func(context.Context, *queue.Job) error {
			for time.Now().Before(until) {
			}
			finished <- struct{}{}
			return nil
		})
		r := serve("burn", burn, handlers.Options{})
		background(t, c, r, runtime.Config{Concurrency: burners})
		background(t, reopen(t, path), r, runtime.Config{Concurrency: 1, PollInterval: 50 * time.Millisecond})
		var bursts sync.WaitGroup
		for range enqueuers {
			bursts.Go(func() {
				jobs := make([]queue.NewJob, 10)
				for i := range jobs {
					jobs[i].Queue = "bulk"
				}
				for time.Now().Before(until) {
					if _, err := c.Enqueue(t.Context(), jobs...); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		for range burners {
			receive(t, finished)
		}
		bursts.Wait()
		l.wantOnce(t, ids...)
		stats, err := c.Stats(t.Context())
		must(t, err)
		i := slices.IndexFunc(stats, func(s queue.Stats) bool { return s.Queue == "bulk" })
		if i < 0 || stats[i].Ready < 10*enqueuers {
			t.Errorf("got %+v, want a crowd in bulk: nothing was tested", stats)
		}
	})
}
