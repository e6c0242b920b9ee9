package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
)

// The times of a listener. A connection that has died quietly is replaced within the sum of them, and well within thirty
// seconds (K85).
const (
	longestQuiet = 8 * time.Second        // without a word from the server, ask it for one
	firstRetry   = 100 * time.Millisecond // after a connection is lost
	slowestRetry = 5 * time.Second
)

// listener is the one connection of a store on which the server tells of the changes of others. It is there while
// somebody watches, unless a pooler stands in between, through which nobody can be told anything.
type listener struct {
	config  *pgx.ConnConfig
	schema  string
	listen  string // the statement
	token   string // names this store among the senders of notifications
	pooler  bool
	quiet   time.Duration
	rivalry rivalry

	hearing atomic.Bool

	mu    sync.Mutex
	users int
	stop  context.CancelFunc
	ended chan struct{}
}

// init prepares a listener for its first user.
func (l *listener) init(config *pgx.ConnConfig, found server) {
	l.config = config.Copy()
	// Its only call is a wait, whose end must not ask the server to cancel anything.
	l.config.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: conn.Conn()}
	}
	l.schema, l.pooler, l.quiet = found.schema, found.pooler, longestQuiet
	l.listen, _ = found.all.prepare(step{name: "listen"}, nil)
	l.token = fmt.Sprintf("%016x", rand.Uint64())
}

// use keeps the listener going until leave.
func (l *listener) use(s *Store) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users++
	if l.users > 1 || l.pooler {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	l.stop, l.ended = stop, ended
	go func() {
		defer close(ended)
		l.run(ctx, s)
	}()
}

func (l *listener) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users--
	if l.users > 0 || l.pooler {
		return
	}
	l.stop()
	<-l.ended
}

// hears says whether, as far as is known, notifications arrive.
func (l *listener) hears() bool { return l.hearing.Load() }

// run connects again and again, with growing pauses while that fails.
func (l *listener) run(ctx context.Context, s *Store) {
	pause := firstRetry
	for ctx.Err() == nil {
		began := time.Now()
		l.session(ctx, s)
		l.hearing.Store(false)
		if time.Since(began) > slowestRetry {
			pause = firstRetry
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause)): // a fleet does not come back as one
		}
		pause = min(2*pause, slowestRetry)
	}
}

// session listens on one connection until that fails. Why it failed is of no interest: claims meet the same trouble and
// report it.
func (l *listener) session(ctx context.Context, s *Store) {
	conn, err := pgx.ConnectConfig(ctx, l.config)
	if err != nil {
		return
	}
	defer func() {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelLimit)
		defer cancel()
		_ = conn.Close(within)
	}()
	if _, err := conn.Exec(ctx, l.listen); err != nil {
		return
	}
	l.hearing.Store(true)
	s.frontiers.doubt("") // what was said until now was not heard
	s.signals.Send("")
	for {
		within, cancel := context.WithTimeout(ctx, l.quiet)
		n, err := conn.WaitForNotification(within)
		cancel()
		switch {
		case err == nil:
			if queue, at, ok := l.understand(n.Payload); ok {
				if at == behind {
					s.frontiers.doubt(queue)
				}
				s.signals.Hear(queue, l.rivalry.wait())
			}
		case ctx.Err() != nil:
			return
		case !pgconn.Timeout(err) || !alive(ctx, conn):
			return
		}
	}
}

// alive asks the server for an answer. The network may have swallowed the connection, which reading alone never shows.
func alive(ctx context.Context, conn *pgx.Conn) bool {
	within, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	return conn.Ping(within) == nil
}

// place says where new work may be in the order of its queue, as far as a claim cares: see frontier.go.
type place string

const (
	ahead  place = "+" // of everything that was claimed until now
	behind place = "-" // anywhere
)

// separator stands between the parts of a notification. The queue comes last, so it may have one in its name.
const separator = "\n"

// longestName is that of a queue, in bytes (E8).
const longestName = 128

// notification is the step that tells all processes of queues that may have work, at most once each. Without a sender it is
// for this process too.
func (s *Store) notification(sender string, at place, queues ...string) step {
	notes := make([]string, len(queues))
	for i, queue := range queues {
		if len(queue) > longestName { // of a row that was edited: a notification has 8000 bytes at most
			queue = ""
		}
		notes[i] = strings.Join([]string{sender, s.schema, string(at), queue}, separator)
	}
	return step{"notify", args{"notes": notes}, nil}
}

// understand reads a notification, unless it is our own or about another schema.
func (l *listener) understand(note string) (queue string, at place, ok bool) {
	parts := strings.SplitN(note, separator, 4)
	if len(parts) != 4 || parts[0] == l.token || parts[1] != l.schema {
		return "", "", false
	}
	return parts[3], place(parts[2]), true
}
