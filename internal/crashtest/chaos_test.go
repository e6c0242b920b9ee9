//go:build unix

package crashtest

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/scheduler"
)

// chaosLease is the visibility timeout of all jobs.
const chaosLease = 2 * slowness * time.Second

// chaos is a fleet of workers and what is done to it. One goroutine does it all.
type chaos struct {
	*scene
	random *rand.Rand
	fleet  []*process // one for each place; whoever dies is replaced
	frozen map[*process]bool
	ended  chan *process
	thaw   chan *process
	orders map[*process]syscall.Signal // what will have ended it

	kills, suicides, stops, terms int
	leaders                       int // among those: schedulers that led
}

// TestChaos runs a fleet of workers that are killed, stopped past their leases, and restarted, while a process beside
// them enqueues, cancels and requeues jobs of all kinds, each with a script of how it is to end.
func TestChaos(t *testing.T) {
	t.Run("D5_C1_H8_S5_K25_K73_every_job_ends_as_its_script_says", func(t *testing.T) {
		seed, length := tortured(t, 18*time.Second)
		s := newScene(t)
		s.keep()
		c := &chaos{
			scene: s, random: rand.New(rand.NewPCG(seed, 0)), fleet: make([]*process, 5), frozen: make(map[*process]bool),
			ended: make(chan *process, 16), thaw: make(chan *process, 16), orders: make(map[*process]syscall.Signal),
		}
		beat, err := json.Marshal(task{Do: work})
		if err != nil {
			t.Fatal(err)
		}
		if err := scheduler.Set(t.Context(), s.client, scheduler.Schedule{
			Name: "beat", Queue: "q", Spec: "@every 1s", Payload: beat, Stamps: queue.Options{VisibilityTimeout: chaosLease},
		}); err != nil {
			t.Fatal(err)
		}
		for i := range c.fleet {
			c.place(i)
		}
		producer := s.start(part{Role: "producer", Queue: "q", Seed: seed, Lease: chaosLease})
		c.rage(producer, time.Now().Add(length))
		producer.tell("enough")
		c.until("the end of the producer", func() (bool, error) { return !producer.runs(), nil })
		producer.finish()
		c.resumeAll()
		over, err := s.client.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c.until("the boundaries of that time", func() (bool, error) {
			all, err := scheduler.List(t.Context(), s.client)
			return err == nil && all[0].NextFireAt.After(over), err
		})
		if _, err := scheduler.Remove(t.Context(), s.client, "beat"); err != nil {
			t.Fatal(err)
		}
		c.until("the end of all jobs", c.nothingLives)
		for _, p := range c.fleet {
			if _, doomed := c.orders[p]; doomed {
				<-p.ended
			} else {
				p.term()
			}
		}
		s.healthy() // PRAGMA integrity_check included
		t.Logf("%d workers killed, %d killed by their jobs, %d stopped past the lease, %d stopped in good order; %d of them led",
			c.kills, c.suicides, c.stops, c.terms, c.leaders)
		trial(t, readLedger(t, s.path), c.dead())
		if c.kills == 0 || c.suicides == 0 || c.stops == 0 || c.terms == 0 || c.leaders == 0 {
			t.Error("not everything has happened: the test shows nothing")
		}
	})
}

// The variables of make torture.
const (
	durationVariable = "TORTURE"      // how long to go on, such as 10m
	seedVariable     = "TORTURE_SEED" // repeats the choices of a run, though not the moments of its events
)

// tortured is the seed of a run, and how long it takes.
func tortured(t *testing.T, length time.Duration) (uint64, time.Duration) {
	t.Helper()
	seed := rand.Uint64N(1 << 53)
	var err error
	if s := os.Getenv(seedVariable); s != "" {
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	if s := os.Getenv(durationVariable); s != "" {
		if length, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%v, to repeat: %s=%d", length, seedVariable, seed)
	return seed, length
}

// place puts a new worker into a place.
func (c *chaos) place(i int) {
	p := c.start(part{
		Role: "worker", Queue: "q", Concurrency: 8, Drain: time.Second, Sweep: time.Second, Schedules: true,
	})
	c.fleet[i] = p
	go func() {
		<-p.ended
		c.ended <- p
	}()
}

// strikes are what is done to a process, in the order of the first few and shuffled from then on.
var strikes = []syscall.Signal{
	syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGTERM, syscall.SIGKILL, syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGKILL,
	syscall.SIGTERM, syscall.SIGKILL, syscall.SIGSTOP,
}

// rage does things to the fleet until the end.
func (c *chaos) rage(producer *process, end time.Time) {
	c.Helper()
	next := slices.Clone(strikes)
	for time.Now().Before(end) {
		select {
		case <-producer.ended:
			c.Fatalf("the producer has ended: %s", producer.complaints())
		case p := <-c.ended:
			c.replace(p)
		case p := <-c.thaw:
			c.goOn(p)
		case <-time.After(300*time.Millisecond + upTo(c.random, 2*time.Second)):
			victim, leader := c.fleet[c.random.IntN(len(c.fleet))], c.leader()
			if leader != nil && (c.leaders == 0 || c.random.IntN(2) == 0) {
				victim = leader
			}
			if !c.strike(victim, next[0]) {
				continue
			}
			if victim == leader {
				c.leaders++
			}
			if next = next[1:]; len(next) == 0 {
				next = slices.Clone(strikes)
				c.random.Shuffle(len(next), func(i, j int) { next[i], next[j] = next[j], next[i] })
			}
		}
	}
}

// leader is the worker that fires the schedules, if it is known.
func (c *chaos) leader() *process {
	c.Helper()
	db, err := sql.Open("sqlite", queue.SQLiteDSN(c.db))
	if err != nil {
		c.Fatal(err)
	}
	defer db.Close()
	var owner string
	err = db.QueryRowContext(c.Context(), "SELECT owner FROM __alkstore_locks WHERE expires_at > unixepoch()").Scan(&owner)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		c.Fatal(err)
	}
	for _, p := range c.fleet {
		if strings.HasPrefix(owner, p.part.Name+"-") {
			return p
		}
	}
	return nil
}

// strike does something to one process. False if that is not possible now.
func (c *chaos) strike(p *process, s syscall.Signal) bool {
	c.Helper()
	if _, doomed := c.orders[p]; doomed {
		return false
	}
	if s == syscall.SIGKILL {
		return c.order(p, s) // be it frozen or not
	}
	if up, _ := p.heard("up"); c.frozen[p] || len(up) == 0 { // before that SIGTERM would kill it
		return false
	}
	if s == syscall.SIGTERM {
		return c.order(p, s)
	}
	if len(c.frozen) > 0 || !p.stop() {
		return false
	}
	c.frozen[p] = true
	c.stops++
	time.AfterFunc(chaosLease+time.Second+upTo(c.random, chaosLease), func() { c.thaw <- p })
	return true
}

func (c *chaos) order(p *process, s syscall.Signal) (done bool) {
	if p.cmd.Process.Signal(s) != nil {
		return false // it is dead
	}
	c.orders[p] = s
	return true
}

func (c *chaos) goOn(p *process) {
	if c.frozen[p] {
		delete(c.frozen, p)
		p.resume()
	}
}

// replace takes note of how a process has ended and puts another one into its place.
func (c *chaos) replace(p *process) {
	c.Helper()
	order := c.orders[p]
	delete(c.orders, p)
	delete(c.frozen, p)
	state := p.cmd.ProcessState
	status, known := syscall.WaitStatus(0), state != nil
	if known {
		status, known = state.Sys().(syscall.WaitStatus)
	}
	switch {
	case !known || status.Signaled() && status.Signal() == syscall.SIGKILL:
		p.note(killed)
		if order == syscall.SIGKILL {
			c.kills++
		} else {
			c.suicides++
		}
	case order == syscall.SIGTERM && state.Success():
		c.terms++
	default:
		c.Errorf("%s ended: %v\n%s", p.part.Name, state, p.complaints())
	}
	for i := range c.fleet {
		if c.fleet[i] == p {
			c.place(i)
		}
	}
}

func (c *chaos) resumeAll() {
	for p := range c.frozen {
		c.goOn(p)
	}
}

// until looks after the fleet until the database is as wanted.
func (c *chaos) until(what string, as func() (bool, error)) {
	c.Helper()
	done := make(chan error, 1)
	go func() { done <- c.reaches(as) }()
	for {
		select {
		case p := <-c.ended:
			c.replace(p)
		case p := <-c.thaw:
			c.goOn(p)
		case err := <-done:
			if err == nil {
				return
			}
			for _, state := range []queue.State{queue.Pending, queue.Processing} {
				left, lerr := c.client.List(c.Context(), queue.Filter{State: state, Limit: 20})
				err = errors.Join(err, lerr)
				for _, j := range left {
					c.Logf("job %d in %q: %s, attempt %d of %d, until %v", j.ID, j.Queue, j.State, j.Attempt, j.MaxAttempts,
						j.ClaimExpiresAt)
				}
			}
			c.Fatalf("waiting for %s: %v", what, err)
		}
	}
}

func (c *chaos) nothingLives() (bool, error) {
	all, err := c.client.Stats(c.Context())
	for _, q := range all {
		if q.Ready+q.Delayed+q.Processing > 0 {
			return false, err
		}
	}
	return true, err
}

// dead are all dead jobs.
func (c *chaos) dead() map[int64]*queue.Job {
	c.Helper()
	dead := make(map[int64]*queue.Job)
	f := queue.Filter{Limit: 1000}
	for {
		page, err := c.client.List(c.Context(), f)
		if err != nil {
			c.Fatal(err)
		}
		for _, j := range page {
			if j.State != queue.Dead {
				c.Errorf("D5: job %d is %s", j.ID, j.State)
			}
			dead[j.ID] = j
			f.Before = j.ID
		}
		if len(page) < f.Limit {
			return dead
		}
	}
}

// keep keeps the files of the scene, and what its processes said, if the test fails.
func (s *scene) keep() {
	s.kept = true
	s.Cleanup(func() {
		if !s.Failed() {
			return
		}
		to, err := os.MkdirTemp("", "alkworker-chaos-") // which stays
		if err == nil {
			err = os.CopyFS(to, os.DirFS(s.dir))
		}
		s.Log(fmt.Sprint("the evidence is in ", to), err)
	})
}
