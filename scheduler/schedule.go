package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/queue"
)

// MaxCatchUp is the most jobs that one tick fires for one schedule, however many boundaries were missed.
const MaxCatchUp = sqlstore.MaxCatchUpFires

// Schedule fires a job of one queue at every boundary of its grid.
type Schedule struct {
	// Name is unique in the database. Its rules are those of queue names.
	Name string
	// Queue is the queue of the jobs. Nobody needs to serve it yet.
	Queue string
	// Spec is the interval, as [Parse] reads it.
	Spec string
	// Payload is every job's payload, any bytes, kept exactly; at most 16 MiB. Nil is an empty one.
	Payload []byte
	// Priority is every job's priority; the highest is claimed first.
	Priority int
	// Expires is how long after it was fired a job dies unless it is done; zero means never. It is rounded up to seconds.
	Expires time.Duration
	// Stamps are the options that every job is stamped with. Zero fields have the defaults of package queue.
	Stamps queue.Options
	// Anchor fixes the grid: the boundaries are all the moments a whole number of intervals before or after it. It need
	// not lie in the past, and its fraction of a second is dropped. Zero means the time of the first registration.
	Anchor time.Time
	// CatchUp is how many missed boundaries are made up for at once, the oldest first; the others are skipped.
	// Zero means 64, which is also the most.
	CatchUp int

	// NextFireAt is the next boundary. It, CreatedAt and Paused are set by List and ignored by Set.
	NextFireAt time.Time
	// CreatedAt is when the schedule was first registered.
	CreatedAt time.Time
	// Paused schedules do not fire.
	Paused bool
}

// Set adds a schedule or changes the one of that name. It is meant to be called at every start of a program: unless
// spec or anchor change the grid, the next boundary stays what it is, and so does a pause, while everything else is
// updated. A new grid starts with its first boundary strictly after now.
//
// The error reports everything that is wrong with s together and matches queue.ErrInvalid, or queue.ErrPayloadTooLarge if
// that is all; nothing was stored then. Any process that runs a [Scheduler] on the database follows the change within a second.
func Set(ctx context.Context, c *queue.Client, s Schedule) error {
	row, err := s.toRow()
	if err == nil {
		err = c.Store().Register(ctx, s.Name, func(now int64, have *sqlstore.Schedule) (*sqlstore.Schedule, error) {
			return merge(now, have, row)
		})
	}
	return wrap("set", s.Name, s.Queue, err)
}

// List returns all schedules ordered by name, also those whose spec was edited into something that cannot fire.
func List(ctx context.Context, c *queue.Client) ([]Schedule, error) {
	rows, err := c.Store().ListSchedules(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]Schedule, len(rows))
	for i, row := range rows {
		all[i] = fromRow(row)
	}
	return all, nil
}

// Remove removes a schedule and says whether there was one. Jobs that it has fired stay.
func Remove(ctx context.Context, c *queue.Client, name string) (bool, error) {
	ok, err := c.Store().Unregister(ctx, name)
	return ok, wrap("remove", name, "", err)
}

// Pause stops a schedule from firing and says whether there is one. Jobs that it has fired stay.
func Pause(ctx context.Context, c *queue.Client, name string) (bool, error) {
	ok, err := change(ctx, c, name, func(_ int64, row *sqlstore.Schedule) error {
		row.Paused = true
		return nil
	})
	return ok, wrap("pause", name, "", err)
}

// Resume lets a paused schedule fire again, from the first boundary strictly after now: what was missed during the
// pause is not made up for. It says whether there is such a schedule, and does nothing to one that is not paused. A
// spec that was edited into something that cannot fire is a [*SpecError], and the schedule stays paused.
func Resume(ctx context.Context, c *queue.Client, name string) (bool, error) {
	ok, err := change(ctx, c, name, func(now int64, row *sqlstore.Schedule) (err error) {
		if row.Paused {
			row.Paused = false
			row.NextFireAt, err = nextBoundary(now, row)
		}
		return err
	})
	return ok, wrap("resume", name, "", err)
}

// Fire enqueues one job of a schedule at once, paused or not, and returns its id; false if there is no such schedule.
// The boundaries are not affected. The job says that it was scheduled for the moment of the call. A schedule that was
// edited into something that makes no job is an error that says why.
func Fire(ctx context.Context, c *queue.Client, name string) (id int64, ok bool, err error) {
	id, ok, err = c.Store().FireNow(ctx, name, func(s sqlstore.Schedule) error { return fireable(&s) })
	return id, ok, wrap("fire", name, "", err)
}

// change changes the schedule of that name, if there is one, under its row's lock, and says whether there was.
func change(
	ctx context.Context, c *queue.Client, name string, edit func(now int64, row *sqlstore.Schedule) error,
) (bool, error) {
	found := false
	err := c.Store().Register(ctx, name, func(now int64, have *sqlstore.Schedule) (*sqlstore.Schedule, error) {
		if found = have != nil; !found {
			return nil, nil
		}
		row := *have
		if err := edit(now, &row); err != nil {
			return nil, err
		}
		return &row, nil
	})
	return found && err == nil, err
}

// merge is what becomes of the stored schedule, nil if there is none, when want is set at now.
func merge(now int64, have *sqlstore.Schedule, want sqlstore.Schedule) (*sqlstore.Schedule, error) {
	want.CreatedAt = now
	if have != nil {
		want.Paused = have.Paused
		if plausible(have.CreatedAt) {
			want.CreatedAt = have.CreatedAt
		}
	}
	next, err := nextBoundary(now, &want)
	if err != nil {
		return nil, err
	}
	want.NextFireAt = next
	if have != nil && sameGrid(have, &want) && plausible(have.NextFireAt) {
		want.NextFireAt = have.NextFireAt // S4: also one that is due and not fired yet
	}
	return &want, nil
}

// plausible says whether a stored time can have been ours. What was edited into no number at all reads as zero.
func plausible(t int64) bool { return t > 0 && inRange(t) }

// sameGrid compares the boundaries themselves: "60s" and "1m" are the same, and so are the anchors "three o'clock
// today" and "three o'clock yesterday" of a daily schedule, which a program that works its anchor out anew at every
// start relies on.
func sameGrid(a, b *sqlstore.Schedule) bool {
	g, err := gridOf(a)
	if err != nil {
		return false
	}
	h, err := gridOf(b)
	return err == nil && g.every == h.every && (g.base-h.base)%g.every == 0
}

// toRow checks everything and returns what to store, without what only the store knows.
func (s Schedule) toRow() (sqlstore.Schedule, error) {
	var problems []error
	if err := queue.ValidateName(s.Name); err != nil {
		problems = append(problems, fmt.Errorf("schedule name, which follows the rules of queue names: %w", err))
	}
	problems = append(problems, queue.ValidateName(s.Queue))
	if _, err := Parse(s.Spec); err != nil {
		problems = append(problems, err)
	}
	if len(s.Payload) > queue.DefaultMaxPayload {
		problems = append(problems,
			fmt.Errorf("%w: %d bytes, limit %d", queue.ErrPayloadTooLarge, len(s.Payload), queue.DefaultMaxPayload))
	}
	if s.Expires < 0 {
		problems = append(problems, invalidf("expiry %v is negative", s.Expires))
	}
	problems = append(problems, s.Stamps.Validate())
	if !s.Anchor.IsZero() && !inRange(s.Anchor.Unix()) {
		problems = append(problems, invalidf("anchor %d is outside the years 1 to 9999", s.Anchor.Unix()))
	}
	if s.CatchUp < 0 || s.CatchUp > MaxCatchUp {
		problems = append(problems, invalidf("catch-up %d is not between 1 and %d", s.CatchUp, MaxCatchUp))
	}
	if err := errors.Join(problems...); err != nil {
		return sqlstore.Schedule{}, err
	}
	row := sqlstore.Schedule{
		Name:    s.Name,
		Queue:   s.Queue,
		Spec:    s.Spec,
		Payload: append([]byte{}, s.Payload...), // nil would be stored as NULL
		Fire:    sqlstore.FireOptions{Priority: int64(s.Priority), Stamps: s.Stamps.Stamps()},
		CatchUp: catchUp(int64(s.CatchUp)),
	}
	if s.Expires > 0 {
		row.Fire.ExpiresS = new(queue.Seconds(s.Expires))
	}
	if !s.Anchor.IsZero() {
		row.Anchor = new(s.Anchor.Unix())
	}
	return row, nil
}

func fromRow(row sqlstore.Schedule) Schedule {
	s := Schedule{
		Name:       row.Name,
		Queue:      row.Queue,
		Spec:       row.Spec,
		Payload:    row.Payload,
		Priority:   int(row.Fire.Priority),
		Stamps:     queue.OptionsOf(row.Fire.Stamps),
		CatchUp:    int(catchUp(row.CatchUp)),
		NextFireAt: time.Unix(row.NextFireAt, 0).UTC(),
		CreatedAt:  time.Unix(row.CreatedAt, 0).UTC(),
		Paused:     row.Paused,
	}
	if row.Fire.ExpiresS != nil {
		s.Expires = time.Duration(min(max(*row.Fire.ExpiresS, 0), maxEveryS)) * time.Second
	}
	if row.Anchor != nil {
		s.Anchor = time.Unix(*row.Anchor, 0).UTC()
	}
	return s
}

// wrap gives an error its path, without repeating the store's own. Valid names are never cut. T5
func wrap(op, name, queueName string, err error) error {
	if err == nil {
		return nil
	}
	out := &queue.Error{Op: fmt.Sprintf("%s schedule %.128q", op, name), Queue: queueName, Err: err}
	//nolint:errorlint // only the outermost error is about the same call
	if e, ok := err.(*queue.Error); ok {
		out.Err = e.Err
		if queueName == "" {
			out.Queue = e.Queue
		}
	}
	return out
}

// invalid is one wrong value. It matches queue.ErrInvalid without that word in front of every problem.
type invalid string

func (e invalid) Error() string        { return string(e) }
func (e invalid) Is(target error) bool { return target == queue.ErrInvalid }

func invalidf(format string, args ...any) error { return invalid(fmt.Sprintf(format, args...)) }
