//go:build unix

package crashtest

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/runtime"
)

// task is the payload of a job: what its handler does.
type task struct {
	Do     string
	For    time.Duration // how long that takes
	Others int           // handlers of the same process that must have started before
	Times  int           // attempts that go wrong before one goes well
}

// The things that a handler can do.
const (
	work    = "work"    // work for a while
	hold    = "hold"    // wait for the test to say "go"
	die     = "die"     // kill the process after a while
	fatal   = "fatal"   // call log.Fatal on the first attempt, as soon as the others have started; work later
	fails   = "fail"    // return an error from the first attempts; work later
	panics  = "panic"   // panic in the first attempts; work later
	refuse  = "refuse"  // fail for good
	outlive = "outlive" // work for longer than the job lives, but not if it lives for ever
)

// The texts of errors.
const (
	again        = "again"
	refused      = "refused"
	shuttingDown = "worker is shutting down" // of handlers.ErrShutdown
)

// work runs a worker.
func (s *stage) work(ctx context.Context) error {
	var begun atomic.Int64
	beginning := make(chan struct{}, 1000)
	told := make(chan struct{})
	go func() {
		for line := range s.told {
			if line == "go" {
				close(told)
				return
			}
		}
	}()
	go s.watchStalls(ctx)
	handle := func(ctx context.Context, j *queue.Job) error {
		var do task
		if err := json.Unmarshal(j.Payload, &do); err != nil {
			return err
		}
		s.ledger.write(started, j, "")
		begun.Add(1)
		select {
		case beginning <- struct{}{}:
		default: // nobody waits
		}
		var done <-chan time.Time
		var free <-chan struct{}
		switch {
		case do.Do == hold:
			free = told
		case do.Do == fatal && j.Attempt == 1:
			for begun.Load() < int64(do.Others)+1 {
				<-beginning
			}
			log.Fatal("a handler has given up on everything")
		case do.Do == outlive && !j.ExpiresAt.IsZero():
		default:
			done = time.After(do.For)
		}
		select {
		case <-done:
		case <-free:
		case <-ctx.Done():
			cause := context.Cause(ctx)
			s.ledger.write(cut, j, cause.Error())
			if errors.Is(cause, handlers.ErrShutdown) {
				return cause // nil would count
			}
			return nil // which must not count
		}
		return s.conclude(ctx, j, do)
	}
	registry := handlers.NewRegistry()
	registry.Register(s.Queue, handlers.HandlerFunc(handle), handlers.Options{Concurrency: s.Limit})
	w, err := runtime.New(s.client, registry, runtime.Config{
		Name: s.Name, Concurrency: s.Concurrency, Drain: s.Drain, PollInterval: s.Poll, SweepInterval: s.Sweep,
		NoScheduler: !s.Schedules,
	})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// conclude ends a handler that was not cut off.
func (s *stage) conclude(ctx context.Context, j *queue.Job, do task) error {
	switch {
	case do.Do == die:
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Kill()
		}
		<-ctx.Done() // until it is dead
		return err
	case do.Do == refuse:
		s.ledger.write(failed, j, refused)
		return handlers.Fail(errors.New(refused))
	case do.Do == fails && j.Attempt <= do.Times:
		s.ledger.write(failed, j, again)
		return errors.New(again)
	case do.Do == panics && j.Attempt <= do.Times:
		s.ledger.write(failed, j, again)
		panic(again)
	}
	s.ledger.write(ended, j, "")
	return nil
}

// claim claims and acks from many goroutines until the queue is empty, and writes down each job that it was handed.
func (s *stage) claim(ctx context.Context) error {
	say("ready")
	<-s.told
	all, ctx := errgroup.WithContext(ctx)
	for i := range s.Goroutines {
		all.Go(func() error {
			claimant := fmt.Sprintf("%s-%d", s.Name, i)
			for {
				jobs, err := retrying(ctx, func() ([]*queue.Job, error) { return s.client.Claim(ctx, s.Queue, claimant, s.Batch) })
				if err != nil || len(jobs) == 0 {
					return err
				}
				handles := make([]queue.Handle, len(jobs))
				for k, j := range jobs {
					handles[k] = j.Handle()
					s.ledger.write(started, j, "")
				}
				acked, err := retrying(ctx, func() ([]bool, error) { return s.client.Ack(ctx, handles...) })
				if err != nil {
					return err
				}
				for k, ok := range acked {
					if !ok {
						return fmt.Errorf("ack of job %d was refused", jobs[k].ID)
					}
					s.ledger.write(ended, jobs[k], "")
				}
			}
		})
	}
	return all.Wait()
}

// retrying is what every program does when the database is busy for longer than it waits by itself.
func retrying[T any](ctx context.Context, call func() (T, error)) (v T, err error) {
	began := time.Now()
	for {
		if v, err = call(); !errors.Is(err, queue.ErrBusy) || ctx.Err() != nil {
			say("took %d", time.Since(began).Milliseconds())
			return v, err
		}
		say("busy")
	}
}

// hold claims one job, tells the test so, and tries everything with that claim when it is told to.
func (s *stage) hold(ctx context.Context) error {
	jobs, err := s.client.Claim(ctx, s.Queue, s.Name, 1)
	if err != nil || len(jobs) != 1 {
		return fmt.Errorf("claimed %d jobs: %w", len(jobs), err)
	}
	j := jobs[0]
	s.ledger.write(started, j, "")
	<-s.told
	var errs []error
	answer := func(operation string, answers []bool, err error) {
		errs = append(errs, err)
		say("%s %v", operation, answers)
	}
	beat, err := s.client.Heartbeat(ctx, j.Handle())
	answer("heartbeat", beat, err)
	released, err := s.client.Release(ctx, queue.Released{Handle: j.Handle()})
	answer("release", released, err)
	verdicts, err := s.client.Retry(ctx, queue.Retry{Job: j, Err: "late"})
	answer("retry", []bool{len(verdicts) != 1 || verdicts[0] != queue.Refused}, err)
	failed, err := s.client.Fail(ctx, queue.Failed{Handle: j.Handle(), Err: "late"})
	answer("fail", failed, err)
	acked, err := s.client.Ack(ctx, j.Handle())
	answer("ack", acked, err)
	return errors.Join(errs...)
}

// lock holds the write lock, as any other program on the same file may, until it is told to let go.
func (s *stage) lock(ctx context.Context) error {
	db, err := sql.Open("sqlite", queue.SQLiteDSN(s.DB))
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	var once sync.Once
	release := func() { once.Do(func() { err = tx.Rollback() }) }
	defer release()
	say("locked")
	<-s.told
	release()
	say("free %d", time.Now().UnixNano())
	return errors.Join(err, db.Close())
}

// feed enqueues jobs until it is told to stop, and writes down each that it was told to be stored. What it was not told
// may be there as well.
func (s *stage) feed(ctx context.Context) error {
	random := rand.New(rand.NewPCG(uint64(os.Getpid()), 0))
	for ctx.Err() == nil {
		jobs := make([]queue.NewJob, 1+random.IntN(8))
		for i := range jobs {
			payload, err := json.Marshal(task{Do: work, For: time.Duration(random.IntN(60)) * time.Millisecond})
			if err != nil {
				return err
			}
			jobs[i] = queue.NewJob{Queue: s.Queue, Payload: payload, EnqueueOptions: queue.EnqueueOptions{
				VisibilityTimeout: s.Lease, MaxAttempts: 1000, BackoffBase: queue.NoBackoff,
			}}
		}
		ids, err := s.client.Enqueue(ctx, jobs...)
		if err != nil && ctx.Err() == nil && !queue.Transient(err) {
			return err
		}
		for _, id := range ids {
			s.ledger.write(stored, &queue.Job{ID: id}, "")
		}
		select {
		case <-ctx.Done():
		case <-time.After(s.Pause):
		}
	}
	return nil
}
