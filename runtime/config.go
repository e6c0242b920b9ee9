package runtime

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// NoDrain as Config.Drain cancels running handlers as soon as the worker stops.
const NoDrain time.Duration = -1

// Config says how a worker works. The zero value is a good start.
type Config struct {
	// Name of the worker, in logs and as the claimant of its jobs. Empty means host name and process id. A random suffix is
	// always added, so that a name may be used again and even twice at the same time. At most 256 bytes of valid UTF-8
	// without control characters.
	Name string

	// Concurrency is how many handlers run at the same time, over all queues. Zero means 16, the most is 100,000.
	Concurrency int

	// Drain is how long running handlers may go on once the worker stops, before their contexts are cancelled. Zero means
	// 30 s; NoDrain means not at all. Heartbeats go on for as long as it takes.
	Drain time.Duration

	// PollInterval is how often to look for jobs that other processes have enqueued; a look is one read and touches no
	// disk. Zero means 100 ms, the least is 1 ms. Jobs of this process are noticed at once, and where the system tells of
	// changes to files (Linux, Windows) those of others too: then a look every 3 s, or each PollInterval if that is
	// longer, is only for what it may have missed.
	PollInterval time.Duration

	// SweepInterval is how often to move what has expired to the dead letters, and to drop dead jobs past their retention.
	// Zero means 5 s, the least is 1 ms.
	SweepInterval time.Duration

	// Logger receives what an operator should know. Nil means slog.Default().
	Logger *slog.Logger

	// UntilIdle ends Run, with nil, as soon as no job of the worker's queues is ready, running, or waiting for another
	// attempt. Jobs that are delayed and were never tried do not count.
	UntilIdle bool

	// NoScheduler leaves the schedules to other processes.
	NoScheduler bool
}

// The limits of Config.
const (
	maxConcurrency = 100_000
	maxName        = 256 // bytes
	minInterval    = time.Millisecond
)

// Validate reports all that is wrong with the config together.
func (c Config) Validate() error {
	_, err := c.withDefaults()
	return err
}

func (c Config) withDefaults() (Config, error) {
	var problems []error
	if c.Name == "" {
		c.Name = defaultName()
	}
	problems = append(problems, checkName(c.Name))
	if c.Concurrency < 0 || c.Concurrency > maxConcurrency {
		problems = append(problems, fmt.Errorf("concurrency %d is not within 0 and %d", c.Concurrency, maxConcurrency))
	}
	if c.Drain < 0 && c.Drain != NoDrain {
		problems = append(problems, fmt.Errorf("drain %v is negative", c.Drain))
	}
	if c.PollInterval != 0 && c.PollInterval < minInterval {
		problems = append(problems, fmt.Errorf("poll interval %v is less than %v", c.PollInterval, minInterval))
	}
	if c.SweepInterval != 0 && c.SweepInterval < minInterval {
		problems = append(problems, fmt.Errorf("sweep interval %v is less than %v", c.SweepInterval, minInterval))
	}
	if c.Concurrency == 0 {
		c.Concurrency = 16
	}
	switch c.Drain {
	case 0:
		c.Drain = 30 * time.Second
	case NoDrain:
		c.Drain = 0
	}
	if c.PollInterval == 0 {
		c.PollInterval = 100 * time.Millisecond
	}
	if c.SweepInterval == 0 {
		c.SweepInterval = 5 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Name += "-" + rand.Text()[:6]
	return c, errors.Join(problems...)
}

func defaultName() string {
	host, err := os.Hostname()
	if err != nil || checkName(host) != nil {
		host = "worker"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}

// checkName keeps what the engine takes as the name of a claimant.
func checkName(name string) error {
	switch {
	case len(name) > maxName:
		return fmt.Errorf("name of %d bytes is over %d", len(name), maxName)
	case !utf8.ValidString(name):
		return fmt.Errorf("name %q is not valid UTF-8", name)
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("name %q contains control characters", name)
	}
	return nil
}
