package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// The values of Config where it is zero.
const (
	DefaultMaxPayload  = 16 << 20 // bytes
	DefaultMaxBackoff  = time.Hour
	DefaultBusyTimeout = 5 * time.Second
)

// Synchronous says when a commit on SQLite counts as done.
type Synchronous int

const (
	// Full waits until the commit is on the disk: nothing that was reported as done is lost when the power fails.
	Full Synchronous = iota
	// Normal does not wait: the last commits may be lost when the power fails, none when only the process dies, and the
	// database stays consistent either way.
	Normal
)

// String returns SQLite's word for it.
func (s Synchronous) String() string {
	switch s {
	case Full:
		return "FULL"
	case Normal:
		return "NORMAL"
	default:
		return fmt.Sprintf("Synchronous(%d)", int(s))
	}
}

// Config says how a client works. The zero value is useful, and so is a nil *Config, which means the same.
type Config struct {
	// MaxPayload is the largest payload in bytes that may be enqueued. Zero means 16 MiB. // E7
	MaxPayload int
	// MaxBackoff caps the delays of the retry curve before jitter. Zero means one hour; at most one year.
	MaxBackoff time.Duration
	// BusyTimeout is how long a call waits before it fails with ErrBusy: on SQLite for the lock of another process, on
	// PostgreSQL for a job that another transaction has locked. Zero means 5 seconds; at most one day.
	BusyTimeout time.Duration
	// Synchronous is for SQLite. Zero is Full.
	Synchronous Synchronous
}

// Validate reports everything that is wrong with the configuration together. Each problem is an ErrInvalid.
func (c Config) Validate() error {
	var problems []error
	if c.MaxPayload < 0 {
		problems = append(problems, invalidf("max payload %d is negative", c.MaxPayload))
	}
	if c.MaxBackoff < 0 || c.MaxBackoff > MaxBackoffBase {
		problems = append(problems, invalidf("max backoff %v is not within 0 and one year", c.MaxBackoff))
	}
	if c.BusyTimeout < 0 || c.BusyTimeout > 24*time.Hour {
		problems = append(problems, invalidf("busy timeout %v is not within 0 and one day", c.BusyTimeout))
	}
	if c.Synchronous != Full && c.Synchronous != Normal {
		problems = append(problems, invalidf("synchronous %v is neither Full nor Normal", c.Synchronous))
	}
	return errors.Join(problems...)
}

// resolve validates the configuration and fills in the defaults.
func (c *Config) resolve() (Config, error) {
	if c == nil {
		c = &Config{}
	}
	r := *c
	if err := r.Validate(); err != nil {
		return Config{}, err
	}
	if r.MaxPayload == 0 {
		r.MaxPayload = DefaultMaxPayload
	}
	if r.MaxBackoff == 0 {
		r.MaxBackoff = DefaultMaxBackoff
	}
	if r.BusyTimeout == 0 {
		r.BusyTimeout = DefaultBusyTimeout
	}
	return r, nil
}

// Client is an open database. All methods may be called from any number of goroutines.
//
// A method that takes several jobs is one call to the database and answers for each in the same order; without any it
// does nothing. An error means that nothing was changed, with one exception: a commit whose outcome was lost may have
// happened. Operations on a claim are fenced, so repeating one is always safe; repeating an enqueue may store the jobs
// twice.
type Client struct {
	store sqlstore.Store
	cfg   Config
	tally tally

	closeOnce sync.Once
	closeErr  error
}

// BusyTimeout is how long a call waits before it fails with ErrBusy: see [Config]. Safe for concurrent use.
func (c *Client) BusyTimeout() time.Duration { return c.cfg.BusyTimeout }

// NewClient makes a client over a store. It is for the tests of this module; use Open or OpenDB. It panics if cfg is
// invalid.
func NewClient(store sqlstore.Store, cfg *Config) *Client {
	r, err := cfg.resolve()
	if err != nil {
		panic("queue: NewClient: " + err.Error())
	}
	return &Client{store: store, cfg: r}
}

// Store returns the store below. It is for the packages of this module.
func (c *Client) Store() sqlstore.Store { return c.store }

// Close waits for calls in progress and releases what the client opened. A pool given to OpenDB stays open. Every later
// call answers ErrClosed, except Close, which answers as it did before.
func (c *Client) Close() error {
	c.closeOnce.Do(func() { c.closeErr = failed("close", "", 0, c.store.Close()) })
	return c.closeErr
}

// Now reads the database's clock, in whole seconds.
func (c *Client) Now(ctx context.Context) (time.Time, error) {
	now, err := c.store.Now(ctx)
	if err != nil {
		return time.Time{}, failed("read clock", "", 0, err)
	}
	return timeOf(&now), nil
}

// Problem is one inconsistency found by Check.
type Problem struct {
	Kind   string // short and stable, such as "stuck" or "integrity"
	JobID  int64  // zero if it is about no single job
	Queue  string // empty if it is about no single queue
	Detail string // what is wrong and what to do about it
}

// Check reads the whole database and names every inconsistency it finds. None is an empty slice.
func (c *Client) Check(ctx context.Context) ([]Problem, error) {
	found, err := c.store.Check(ctx)
	if err != nil {
		return nil, failed("check", "", 0, err)
	}
	problems := make([]Problem, len(found))
	for i, p := range found {
		problems[i] = Problem(p)
	}
	return problems, nil
}

// Repair mends what Check finds, as far as that can be done without losing a job, and returns what it has mended. A job
// may lose a claim, get options and times by default, or run once more. What Check still finds needs a person.
func (c *Client) Repair(ctx context.Context) ([]Problem, error) {
	mended, err := c.store.Repair(ctx)
	if err != nil {
		return nil, failed("repair", "", 0, err)
	}
	problems := make([]Problem, len(mended))
	for i, p := range mended {
		problems[i] = Problem(p)
	}
	return problems, nil
}

// Backup writes a consistent copy of the live database to a file that must not exist yet. ErrUnsupported where the
// database is not a file.
func (c *Client) Backup(ctx context.Context, path string) error {
	if path == "" {
		return failed("backup", "", 0, invalidf("path is empty"))
	}
	return failed("backup", "", 0, c.store.Backup(ctx, path))
}
