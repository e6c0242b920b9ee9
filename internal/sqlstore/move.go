package sqlstore

import "context"

// Origin is a store whose jobs another one can take over.
type Origin interface {
	Store

	// LastID is the highest id that was ever given to a job, and 0 if none was.
	LastID(ctx context.Context) (int64, error)
}

// Target is a store that can take over the jobs of another one.
type Target interface {
	Origin

	// Import stores jobs and schedules as they are, with their ids, claims, failures and times. All or nothing: an id or a
	// name that is taken is an error. From then on LastID is at least m.LastID.
	Import(ctx context.Context, m Moved) error
}

// Moved is a part of what moves from one store to another.
type Moved struct {
	Jobs      []Row // whole
	Schedules []Schedule
	LastID    int64
}
