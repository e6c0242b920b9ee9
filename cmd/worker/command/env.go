package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"strings"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
)

const (
	defaultDB = "alkworker.db"
	dbVar     = "WORKER_DB"
)

// env is what a command works with.
type env struct {
	global
	registry *handlers.Registry
	stdin    io.Reader
	out      *output
	stdout   io.Writer // what out writes to, for the programs that a worker runs
	stderr   io.Writer

	config *config // read once
}

// file returns the configuration file, and an empty one if none is given. All that is wrong with it is one error.
func (e *env) file() (*config, error) {
	c, err := e.readFile()
	if err == nil && len(c.found) > 0 {
		err = usagef("%w", c.found.errors())
	}
	return c, err
}

// readFile is file for those who report the findings themselves, together with more of their own.
func (e *env) readFile() (*config, error) {
	if e.config == nil {
		c, err := loadConfig(e.Config)
		if err != nil {
			return nil, err
		}
		e.config = c
	}
	return e.config, nil
}

// dsn says which database: the flag, the environment, the configuration file, the default, in this order.
func (e *env) dsn() (string, error) {
	c, err := e.file()
	if err != nil {
		return "", err
	}
	switch fromEnv := os.Getenv(dbVar); {
	case e.DB != nil:
		return *e.DB, nil
	case fromEnv != "":
		return fromEnv, nil
	case c.db != "":
		return c.db, nil
	default:
		return defaultDB, nil
	}
}

// create opens the database, and creates a file that is not there.
func (e *env) create(ctx context.Context) (*queue.Client, error) {
	dsn, err := e.dsn()
	if err != nil {
		return nil, err
	}
	return queue.Open(ctx, dsn, nil)
}

// open opens a database that must be there already: a question about a mistyped name must not leave an empty file.
func (e *env) open(ctx context.Context) (*queue.Client, error) {
	dsn, err := e.dsn()
	if err != nil {
		return nil, err
	}
	if path, ok := filePath(dsn); ok {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, failedf("there is no database %q: name another with --db or $%s, or make one with "+
				"enqueue, schedule set or run", path, dbVar)
		}
	}
	return queue.Open(ctx, dsn, nil)
}

// filePath is the file that a DSN names, and false if it names none.
func filePath(dsn string) (string, bool) {
	if isPostgres(dsn) {
		return "", false
	}
	path := strings.TrimPrefix(dsn, "sqlite:")
	return path, path != "" && path != ":memory:"
}

func isPostgres(dsn string) bool {
	return strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://")
}

// shown is a DSN as it may be printed: without a password, which can stand in more than one place of an address.
func shown(dsn string) string {
	if !isPostgres(dsn) {
		return clean(dsn)
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return "a PostgreSQL database"
	}
	return clean("postgres://" + u.Host + u.Path)
}

// with runs work on an open database and closes it.
func (e *env) with(
	ctx context.Context, open func(context.Context) (*queue.Client, error), work func(c *queue.Client) error,
) error {
	c, err := open(ctx)
	if err != nil {
		return err
	}
	err = work(c)
	if cerr := c.Close(); err == nil {
		err = cerr
	}
	return err
}

// stamps are the options of a queue as this program knows them: those of the registry, with those of the configuration
// file on top.
func (e *env) stamps(name string) (queue.Options, error) {
	c, err := e.file()
	if err != nil {
		return queue.Options{}, err
	}
	var o queue.Options
	if registered, ok := e.registry.Options(name); ok {
		o = registered.Stamps
	}
	for _, q := range c.queues {
		if q.name == name {
			o = overridden(o, q.stamps)
		}
	}
	return o, nil
}

// overridden are the options o with those fields of by that are set.
func overridden(o, by queue.Options) queue.Options {
	if by.VisibilityTimeout != 0 {
		o.VisibilityTimeout = by.VisibilityTimeout
	}
	if by.MaxAttempts != 0 {
		o.MaxAttempts = by.MaxAttempts
	}
	if by.BackoffBase != 0 {
		o.BackoffBase = by.BackoffBase
	}
	if by.DeadLetterRetention != 0 {
		o.DeadLetterRetention = by.DeadLetterRetention
	}
	return o
}

// payload is the argument itself, or all of standard input if it is a dash.
func (e *env) payload(argument *string) ([]byte, error) {
	switch {
	case argument == nil:
		return nil, nil
	case *argument != "-":
		return []byte(*argument), nil
	}
	p, err := io.ReadAll(io.LimitReader(e.stdin, queue.DefaultMaxPayload+1))
	if err != nil {
		return nil, fmt.Errorf("read payload from standard input: %w", err)
	}
	if len(p) > queue.DefaultMaxPayload {
		return nil, failedf("payload from standard input is over the limit of %d bytes", queue.DefaultMaxPayload)
	}
	return p, nil
}

// interruptible ends reads of r when ctx ends. A terminal or a pipe cannot be asked to stop a read, so the one in
// progress is left to a goroutine that ends with it.
func interruptible(ctx context.Context, r io.Reader) io.Reader {
	return &interruptibleReader{done: ctx.Done(), cause: func() error { return ctx.Err() }, r: r}
}

type interruptibleReader struct {
	done  <-chan struct{}
	cause func() error
	r     io.Reader
}

func (i *interruptibleReader) Read(p []byte) (int, error) {
	type result struct {
		data []byte
		err  error
	}
	read := make(chan result, 1)
	own := make([]byte, len(p)) // the caller may use p for something else by the time an abandoned read ends
	go func() {
		n, err := i.r.Read(own)
		read <- result{own[:n], err}
	}()
	select {
	case got := <-read:
		return copy(p, got.data), got.err
	case <-i.done:
		return 0, i.cause()
	}
}
