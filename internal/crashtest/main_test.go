//go:build unix

package crashtest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
	"github.com/alkstore/alkworker/queue"
)

// partVariable holds the part that a process of this binary plays; without it the binary is the test.
const partVariable = "ALKWORKER_CRASHTEST_PART"

// part is what one process does. It ends when its work is done, on SIGTERM, or when the test does.
type part struct {
	Role   string // worker, claimer, holder, locker, plant, producer or feeder
	Name   string // as it appears in the ledger
	DB     string
	Ledger string
	Queue  string

	BusyTimeout time.Duration
	Durable     bool // a commit waits for the disk

	// For a worker or a plant.
	Concurrency int           // slots
	Limit       int           // of the queue
	Drain       time.Duration // zero: 30 s
	Poll        time.Duration // zero: 100 ms
	Sweep       time.Duration // zero: 5 s
	Schedules   bool          // fire them

	// For a claimer.
	Goroutines int
	Batch      int

	// For a producer.
	Seed  uint64
	Lease time.Duration // of its jobs

	// For a feeder, besides Lease.
	Pause time.Duration // between two calls
}

func TestMain(m *testing.M) {
	if text := os.Getenv(partVariable); text != "" {
		if err := play(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(pgtest.Main(m))
}

// stage is what every part stands on.
type stage struct {
	part
	client *queue.Client
	ledger *ledger
	told   chan string // lines from the test
}

func play(text string) (err error) {
	s := &stage{told: make(chan string, 16)}
	if err := json.Unmarshal([]byte(text), &s.part); err != nil {
		return err
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			s.told <- lines.Text()
		}
		os.Exit(3) // the test is gone, and nobody else would end this process
	}()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	say("up") // from here on SIGTERM means stop
	if s.Role == "locker" {
		return s.lock(ctx)
	}
	if s.client, err = queue.Open(ctx, s.DB, s.config()); err != nil {
		if ctx.Err() != nil {
			return nil // told to stop before it had begun
		}
		return err
	}
	say("connected")
	if s.ledger, err = openLedger(s.Ledger, s.Name); err != nil {
		return err
	}
	switch s.Role {
	case "worker":
		err = s.work(ctx)
	case "claimer":
		err = s.claim(ctx)
	case "feeder":
		err = s.feed(ctx)
	case "holder":
		err = s.hold(ctx)
	case "plant":
		err = s.plant(ctx)
	case "producer":
		err = s.produce(ctx)
	default:
		err = fmt.Errorf("role %q does not exist", s.Role)
	}
	if cerr := s.client.Close(); err == nil {
		err = cerr
	}
	return err
}

// config waits for the disk no more than a crash of a process demands, unless the part is durable.
func (p part) config() *queue.Config {
	c := &queue.Config{Synchronous: queue.Normal, BusyTimeout: p.BusyTimeout}
	if p.Durable {
		c.Synchronous = queue.Full
	}
	return c
}

// say tells the test something.
func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }
