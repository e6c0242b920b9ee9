//go:build unix

package crashtest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/alkstore/alkworker/queue"
)

// script is a job and how it is to end.
type script struct {
	task
	Queue    string
	Attempts int // zero: the default, which is more than chaos ever takes
	Delay    time.Duration
	Expires  time.Duration
}

// What a producer writes down once it is done.
const (
	enqueued  = "enqueue" // at is when it was asked for, the note is the script
	cancelled = "cancel"  // at is when it was answered
	requeued  = "requeue" // at is when it was asked for
)

// unserved is a queue that no worker serves.
const unserved = "unserved"

const total = 1000 // of the numbers in the repertoire

// repertoire are the scripts by how often a producer takes them.
var repertoire = []struct {
	often int
	make  func(random *rand.Rand, lease time.Duration) script
}{
	{423, func(r *rand.Rand, _ time.Duration) script {
		return script{task: task{Do: work, For: upTo(r, 200*time.Millisecond)}}
	}},
	{140, func(r *rand.Rand, _ time.Duration) script {
		return script{task: task{Do: work}, Delay: upTo(r, 5*time.Second)}
	}},
	{120, func(r *rand.Rand, _ time.Duration) script { return script{task: task{Do: fails, Times: 1 + r.IntN(4)}} }},
	{100, func(r *rand.Rand, _ time.Duration) script {
		return script{task: task{Do: panics, Times: 1 + r.IntN(4)}}
	}},
	{80, func(r *rand.Rand, lease time.Duration) script {
		return script{task: task{Do: work, For: lease + upTo(r, lease/2)}} // lives on heartbeats
	}},
	{60, func(*rand.Rand, time.Duration) script { return script{task: task{Do: refuse}} }},
	{40, func(r *rand.Rand, _ time.Duration) script {
		times := 1 + r.IntN(3)
		return script{task: task{Do: fails, Times: times}, Attempts: times}
	}},
	{20, func(r *rand.Rand, _ time.Duration) script {
		return script{task: task{Do: outlive}, Expires: time.Second + upTo(r, 2*time.Second)}
	}},
	{15, func(r *rand.Rand, _ time.Duration) script {
		return script{task: task{Do: work}, Queue: unserved, Expires: time.Second + upTo(r, 2*time.Second)}
	}},
	{2, func(r *rand.Rand, _ time.Duration) script {
		return script{task: task{Do: die, For: upTo(r, 100*time.Millisecond)}, Attempts: 1 + r.IntN(2)}
	}},
}

func upTo(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }

// draw takes a script, first one of each kind.
func draw(r *rand.Rand, lease time.Duration, drawn int) script {
	i := drawn
	if i >= len(repertoire) {
		n := r.IntN(total)
		for i = 0; n >= repertoire[i].often; i++ {
			n -= repertoire[i].often
		}
	}
	s := repertoire[i].make(r, lease)
	if s.Queue == "" {
		s.Queue = "q"
	}
	return s
}

// produce enqueues, cancels and requeues until it is told that there is enough. It holds back while much is left to do.
func (s *stage) produce(ctx context.Context) error {
	const backlog = 300
	go s.watchStalls(ctx)
	random := rand.New(rand.NewPCG(s.Seed, 1))
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var latest []int64
	drawn := 0
	brought := make(map[int64]bool)
	for {
		select {
		case <-s.told:
			return nil
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		live := 0
		all, err := s.client.Stats(ctx)
		for _, q := range all {
			live += q.Ready + q.Delayed + q.Processing
		}
		if err == nil && live < backlog {
			latest, err = s.enqueueSome(ctx, random, latest, &drawn)
		}
		if err == nil && random.IntN(10) == 0 && len(latest) > 0 {
			err = s.cancelOne(ctx, latest[random.IntN(len(latest))])
		}
		if err == nil && random.IntN(10) == 0 {
			err = s.requeueOne(ctx, random, brought)
		}
		if err != nil {
			return err
		}
	}
}

func (s *stage) enqueueSome(ctx context.Context, random *rand.Rand, latest []int64, drawn *int) ([]int64, error) {
	var jobs []queue.NewJob
	var notes []string
	for range 1 + random.IntN(3) {
		script := draw(random, s.Lease, *drawn)
		*drawn++
		payload, err := json.Marshal(script.task)
		if err != nil {
			return latest, err
		}
		note, err := json.Marshal(script)
		if err != nil {
			return latest, err
		}
		notes = append(notes, string(note))
		jobs = append(jobs, queue.NewJob{Queue: script.Queue, Payload: payload, EnqueueOptions: queue.EnqueueOptions{
			Delay: script.Delay, Expires: script.Expires, MaxAttempts: script.Attempts, VisibilityTimeout: s.Lease,
			BackoffBase: queue.NoBackoff, Priority: random.IntN(3),
		}})
	}
	asked := time.Now()
	ids, err := retrying(ctx, func() ([]int64, error) { return s.client.Enqueue(ctx, jobs...) })
	for i, id := range ids {
		s.ledger.add(entry{what: enqueued, job: id, worker: s.Name, at: asked, note: notes[i]})
	}
	latest = append(latest, ids...)
	return latest[max(0, len(latest)-30):], err
}

func (s *stage) cancelOne(ctx context.Context, id int64) error {
	found, err := retrying(ctx, func() ([]bool, error) { return s.client.Cancel(ctx, id) })
	if err != nil || !found[0] {
		return err
	}
	s.ledger.add(entry{what: cancelled, job: id, worker: s.Name, at: time.Now()})
	return nil
}

// requeueOne requeues one of the latest deaths, each once.
func (s *stage) requeueOne(ctx context.Context, random *rand.Rand, brought map[int64]bool) error {
	dead, err := s.client.List(ctx, queue.Filter{Queue: "q", State: queue.Dead, Limit: 20})
	if err != nil || len(dead) == 0 {
		return err
	}
	id := dead[random.IntN(len(dead))].ID
	if brought[id] {
		return nil
	}
	brought[id] = true
	asked := time.Now()
	found, err := retrying(ctx, func() ([]bool, error) { return s.client.Requeue(ctx, id) })
	if err != nil {
		return err
	}
	if !found[0] {
		return fmt.Errorf("dead job %d was not there to be requeued", id)
	}
	s.ledger.add(entry{what: requeued, job: id, worker: s.Name, at: asked})
	return nil
}

// watchStalls writes down when this process did not get the processor for so long that leases may have lapsed for it.
func (s *stage) watchStalls(ctx context.Context) {
	const period, worth = 50 * time.Millisecond, 300 * time.Millisecond
	tick := time.NewTicker(period)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		// By the wall clock: Go's own stands still with a process that is stopped on some systems.
		if gap := now.Round(0).Sub(last.Round(0)); gap > worth {
			s.ledger.add(entry{what: stalled, worker: s.Name, at: now, note: gap.String()})
		}
		last = now
	}
}
