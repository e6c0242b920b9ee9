//go:build unix

package crashtest

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/runtime"
)

// The plant enqueues jobs of this size, one after the other.
const (
	plantPayload = 64 << 10 // bytes
	plantPause   = 5 * time.Millisecond
	plantJob     = 200 * time.Millisecond // for each of its handlers
	plantLease   = slowness * time.Minute // outlives every fault
)

// plant is a worker and a producer in one process, which tells the test of each enqueue: "stored <id> <when it was asked
// for>" or "refused <kind> <error>". It ends with what the worker returns. Told to, it stops enqueueing ("enough"), and limits
// the size that files of this process may have ("limit <bytes>", 0 for none), which fails writes as a broken disk does.
func (s *stage) plant(ctx context.Context) error {
	signal.Ignore(syscall.SIGXFSZ) // else the limit would end the process
	var unlimited syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &unlimited); err != nil {
		return err
	}
	enough := make(chan struct{})
	var once sync.Once
	go func() {
		for line := range s.told {
			if line == "enough" {
				once.Do(func() { close(enough) })
				continue
			}
			bytes, err := strconv.ParseUint(strings.TrimPrefix(line, "limit "), 10, 64)
			limit := unlimited
			if bytes > 0 {
				limit.Cur = bytes
			}
			if err = errors.Join(err, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit)); err != nil {
				panic(err)
			}
			say("limited %d", bytes)
		}
	}()
	registry := handlers.NewRegistry()
	registry.Register("q", handlers.HandlerFunc(func(ctx context.Context, j *queue.Job) error {
		s.ledger.write(started, j, "")
		select {
		case <-time.After(plantJob):
			s.ledger.write(ended, j, "")
		case <-ctx.Done():
			s.ledger.write(cut, j, context.Cause(ctx).Error())
		}
		return nil
	}), handlers.Options{})
	w, err := runtime.New(s.client, registry, runtime.Config{Name: s.Name, Concurrency: s.Concurrency, SweepInterval: time.Second})
	if err != nil {
		return err
	}
	var both errgroup.Group
	ended := make(chan struct{})
	both.Go(func() error {
		defer close(ended)
		return w.Run(ctx)
	})
	both.Go(func() error {
		// When the worker has given up on the database, so has this, but not without having tried once more.
		for last := false; !last; {
			select {
			case <-enough:
				say("enough")
				return nil
			case <-ended:
				last = true
			case <-time.After(plantPause):
			}
			asked := time.Now().UnixNano()
			ids, err := s.client.Enqueue(ctx, queue.NewJob{
				Queue: "q", Payload: make([]byte, plantPayload), EnqueueOptions: queue.EnqueueOptions{VisibilityTimeout: plantLease},
			})
			switch {
			case err == nil:
				say("stored %d %d", ids[0], asked)
			case ctx.Err() != nil:
			default:
				say("refused %s %v", kindOf(err), err)
			}
		}
		return nil
	})
	return both.Wait()
}

// kindOf is what a caller can tell about a failure.
func kindOf(err error) string {
	for _, kind := range []struct {
		name string
		err  error
	}{
		{"gone", queue.ErrGone}, {"full", queue.ErrFull}, {"unavailable", queue.ErrUnavailable}, {"read-only", queue.ErrReadOnly},
		{"busy", queue.ErrBusy}, {"corrupt", queue.ErrCorrupt},
	} {
		if errors.Is(err, kind.err) {
			return kind.name
		}
	}
	return "unknown"
}

// stored are the jobs that the plant was told are there, with the time of the question.
func (p *process) stored() map[int64]time.Time {
	p.scene.Helper()
	lines, _ := p.heard("stored")
	ids := make(map[int64]time.Time, len(lines))
	for _, line := range lines {
		var id, asked int64
		if _, err := fmt.Sscanf(line, "stored %d %d", &id, &asked); err != nil {
			p.scene.Fatalf("%q: %v", line, err)
		}
		ids[id] = time.Unix(0, asked)
	}
	return ids
}
