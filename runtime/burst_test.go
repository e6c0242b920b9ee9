//go:build alone && unix

package runtime_test

import (
	"context"
	goruntime "runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/runtime"
)

// TestBurstOnOneProcessor is K6 word for word: on one processor, 64 handlers that burn it, and 20,000 jobs that come in
// twenty calls at once in the middle of it. A second worker on the same file stands by to run whatever lapses.
//
// It says something only where there is a whole processor to burn, hence the tag: `make alone`.
func TestBurstOnOneProcessor(t *testing.T) {
	const (
		tries = 5
		whole = 0.97
	)
	defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(1))
	for range tries {
		var got float64
		ok := t.Run("K6_no_job_runs_twice", func(t *testing.T) {
			l, ids, share := burst(t)
			t.Logf("%.3f of a processor", share)
			if got = share; share >= whole {
				l.wantOnce(t, ids...)
			}
		})
		if !ok || got >= whole {
			return
		}
	}
	t.Skipf("in %d tries others took more than %.2f of the processor: nothing was tested", tries, 1-whole)
}

// burst makes the scene, and says which share of a processor there was for it.
func burst(t *testing.T) (l *ledger, ids []int64, share float64) {
	const (
		lease   = 2 * time.Second
		burners = 64
		callers = 20
		rows    = 1000
	)
	c, path := open(t)
	ids = enqueue(t, c, "burn", burners, queue.EnqueueOptions{VisibilityTimeout: lease})
	l = new(ledger)
	stop := make(chan struct{})
	began, finished := make(chan struct{}, 2*burners), make(chan struct{}, 2*burners)
	burn := l.handler(func(context.Context, *queue.Job) error {
		began <- struct{}{}
		for {
			select {
			case <-stop:
				finished <- struct{}{}
				return nil
			default:
			}
		}
	})
	r := serve("burn", burn, handlers.Options{})
	background(t, c, r, runtime.Config{Concurrency: burners})
	for range burners { // nobody else has claimed yet, and all burn before the burst comes
		receive(t, began)
	}
	used, since := processorTime(t), time.Now()
	background(t, reopen(t, path), r, runtime.Config{Concurrency: 1})
	var bursts sync.WaitGroup
	for range callers {
		bursts.Go(func() {
			jobs := make([]queue.NewJob, rows)
			for i := range jobs {
				jobs[i].Queue = "bulk"
			}
			if _, err := c.Enqueue(t.Context(), jobs...); err != nil {
				t.Error(err)
			}
		})
	}
	bursts.Wait()
	over := time.NewTimer(2 * lease) // whatever has lapsed by now runs again in that time
	receive(t, over.C)
	share = (processorTime(t) - used).Seconds() / time.Since(since).Seconds()
	close(stop)
	for range burners {
		receive(t, finished)
	}
	return l, ids, share
}

// processorTime is how long this process has computed.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
