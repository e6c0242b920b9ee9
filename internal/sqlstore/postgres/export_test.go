package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// OpenAsPooled opens a store as it is opened through a pooler, wherever it leads.
func OpenAsPooled(ctx context.Context, dsn string, o Options) (*Store, error) {
	s, err := Open(ctx, dsn, o)
	if err != nil {
		return nil, err
	}
	to, err := parse(dsn, o)
	if err != nil {
		return nil, err
	}
	s.lanes.close()
	config, opening := to.pooled(o)
	s.opening = opening
	if s.lanes, err = openLanes(ctx, config); err != nil {
		return nil, err
	}
	s.listener.pooler = true
	return s, nil
}

// Pools are the connections for ordinary and for urgent calls.
func (s *Store) Pools() (shared, reserved *pgxpool.Stat) {
	return s.lanes.shared.Stat(), s.lanes.reserved.Stat()
}

// Hears says whether the listener has a connection that seems well.
func (s *Store) Hears() bool { return s.listener.hears() }

// Quicken makes the listener find out sooner that its connection is dead.
func (s *Store) Quicken(quiet time.Duration) { s.listener.quiet = quiet }

// Statements are the names of all statements.
func (s *Store) Statements() (names []string) {
	for name := range s.all {
		names = append(names, name)
	}
	return names
}

// Text is a statement as it is sent, with its parameters.
func (s *Store) Text(name string) (text string, params []string) {
	return s.all[name].text, s.all[name].params
}

// Versions is how many steps the schema has.
func Versions() int { return len(migrationSteps()) }

// Kind is the kind of an error.
func Kind(err error) error { return kind(err) }

// MaxSenders is how many statements with gathered enqueues are on their way at once.
const MaxSenders = maxSenders

// Line counts the enqueues that nobody has begun to send, and who sends.
func (s *Store) Line() (waiting, senders int) {
	s.enqueues.mu.Lock()
	defer s.enqueues.mu.Unlock()
	return len(s.enqueues.waiting), s.enqueues.senders
}

// LookAgain makes claims from a queue enter where they remember that nothing is left, and look from the beginning if they
// find too little, whatever the hour and the cost.
func (s *Store) LookAgain(queue string) {
	s.frontiers.mu.Lock()
	defer s.frontiers.mu.Unlock()
	f := s.frontiers.of(queue)
	f.settled, f.looked, f.short = f.doubts, pace{last: time.Now().Add(time.Hour)}, false
}
