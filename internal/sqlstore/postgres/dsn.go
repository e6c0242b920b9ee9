package postgres

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Options are how a database is opened. The zero value is the safe default.
type Options struct {
	// Schema holds the tables, and is created if it is not there. Empty means the parameter "schema" of the DSN, and
	// without one the schema in which the server would create a table without being told where: usually "public".
	Schema string
	// BusyTimeout is how long a call waits for a row that a transaction of somebody else has locked before it answers
	// ErrBusy; zero is 5 s.
	BusyTimeout time.Duration
	// Exact makes every look for jobs begin at the front of the indexes. Otherwise a job that came to lie behind what was
	// claimed already, such as one that another process has just handed back or one from before the clock was set back,
	// may lose its place in the order for a moment, while there are others to run. It costs time wherever vacuum is late.
	Exact bool
	// Clock replaces the server's clock, in Unix seconds, for tests. It must be safe for concurrent use. Nil is the server's
	// own.
	Clock func() int64
}

func (o Options) busyTimeout() time.Duration {
	if o.BusyTimeout == 0 {
		return 5 * time.Second
	}
	return o.BusyTimeout
}

// maxSchema bounds the name of a schema in bytes, as the server does.
const maxSchema = 63

func checkSchema(name string) error {
	switch {
	case name == "", len(name) > maxSchema, !utf8.ValidString(name), strings.ContainsAny(name, "\"'\\"),
		strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Errorf("schema %q: want 1 to %d bytes without quotes, backslashes and control characters", name, maxSchema)
	}
	return nil
}

// The times after which a connection counts as dead. Those that fail over have to notice within ten seconds.
const (
	connectTimeout = 5 * time.Second
	pingTimeout    = 2 * time.Second
)

// When the context of a call ends, its statement has a moment to finish before the server is asked to cancel it, and
// the server a moment to do so before the connection is given up. Most statements need less than the first, so that a
// call that is cut short seldom costs a connection, and its outcome is seldom unknown.
const (
	cancelDelay = 25 * time.Millisecond
	cancelLimit = 250 * time.Millisecond
)

// address is where to connect, and how as far as that does not depend on what is found there.
type address struct {
	pool   *pgxpool.Config
	schema string // empty: ask the server
}

// parse reads a DSN: what pgx understands, and the parameter "schema".
func parse(dsn string, o Options) (address, error) {
	pool, err := pgxpool.ParseConfig(dsn) // its error holds no password
	if err != nil {
		return address{}, err
	}
	to, err := complete(pool, o)
	if err == nil {
		pool.ConnConfig.DialFunc = dialer(pool.ConnConfig.ConnectTimeout).DialContext
	}
	return to, err
}

// addressOf is where a connection of the caller's leads, and by what way.
func addressOf(theirs *pgx.ConnConfig, o Options) (address, error) {
	pool, err := pgxpool.ParseConfig("")
	if err != nil {
		return address{}, err
	}
	pool.ConnConfig = theirs
	theirs.OnNotification = nil // that of their connection: ours would hear nothing
	return complete(pool, o)
}

func complete(pool *pgxpool.Config, o Options) (address, error) {
	parameters := pool.ConnConfig.RuntimeParams
	schema := parameters["schema"]
	delete(parameters, "schema")
	if o.Schema != "" {
		schema = o.Schema
	}
	var errs []error
	if schema != "" {
		errs = append(errs, checkSchema(schema))
	}
	if o.BusyTimeout < 0 {
		errs = append(errs, fmt.Errorf("busy timeout is %v, want zero or more", o.BusyTimeout))
	}
	if err := errors.Join(errs...); err != nil {
		return address{}, err
	}
	if parameters["application_name"] == "" {
		parameters["application_name"] = "alkworker"
	}
	parameters["client_encoding"] = "UTF8"
	c := pool.ConnConfig
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTimeout
	}
	pool.PingTimeout = pingTimeout
	pool.BeforeClose = func(conn *pgx.Conn) {
		// To say goodbye and be heard takes a moment, or nobody is there. A deadline would not do: the driver, which may be
		// cancelling a statement at this moment, sets one of its own, and the place in the pool is taken until it is over.
		netConn := conn.PgConn().Conn()
		time.AfterFunc(cancelLimit, func() { _ = netConn.Close() }) // of no effect on one that is closed
	}
	return address{pool: pool, schema: schema}, nil
}

// direct is the configuration for connections to the server itself: each statement is planned once a connection.
//
// A plan must not depend on what a table looked like when it was made. A queue that was empty then holds a million jobs
// a minute later, long before the server's statistics know. Every statement of this store is written for one way through
// one index, so the other ways are closed.
func (a address) direct(o Options) *pgxpool.Config {
	c := a.pool.Copy()
	c.ConnConfig.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{
			Conn: conn, CancelRequestDelay: cancelDelay, DeadlineDelay: cancelLimit,
		}
	}
	if c.ConnConfig.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement {
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe // as near to what was asked for as arrays allow
	}
	for name, value := range map[string]string{
		"default_transaction_isolation": "read committed",
		"plan_cache_mode":               "force_generic_plan",
		"enable_seqscan":                "off",
		"enable_hashjoin":               "off",
		"enable_mergejoin":              "off",
		"jit":                           "off", // what is "off" costs so much on paper that compiling it would seem to pay
		lockTimeout:                     a.lockTimeout(o),
	} {
		if _, given := c.ConnConfig.RuntimeParams[name]; !given {
			c.ConnConfig.RuntimeParams[name] = value
		}
	}
	return c
}

// pooled is the configuration for connections through a pooler, such as PgBouncer in transaction mode (K86): each
// transaction may meet another server process, so that nothing a session has can be relied on. Statements are planned
// anew for each call. None is cancelled by a request, which takes a way of its own through a pooler and crashes some
// (PgBouncer 1.18): a connection whose answer is not awaited is closed. Its server process goes on waiting for a lock as
// long as it was told to, which is why each transaction that may have to wait begins with the opening.
func (a address) pooled(o Options) (c *pgxpool.Config, opening []step) {
	c = a.pool.Copy()
	c.ConnConfig.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: conn.Conn(), DeadlineDelay: cancelDelay}
	}
	c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	return c, []step{waitFor(a.lockTimeout(o))}
}

const lockTimeout = "lock_timeout"

// lockTimeout is how long a call waits for a lock, as a setting of the server.
func (a address) lockTimeout(o Options) string {
	if given, ok := a.pool.ConnConfig.RuntimeParams[lockTimeout]; ok {
		return given
	}
	return milliseconds(o.busyTimeout())
}

// waitFor is the step after which a transaction waits no longer than that for each lock.
func waitFor(timeout string) step { return step{"lock_timeout", args{"timeout": timeout}, nil} }

// milliseconds is a time as the server's settings have it: rounded down, but never zero, which is without end.
func milliseconds(d time.Duration) string { return fmt.Sprint(max(1, d.Milliseconds())) }
