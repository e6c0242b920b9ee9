package command

import (
	"context"
	"time"

	"github.com/alkstore/alkworker/queue"
)

// deadFlags select dead jobs: by id, or all of a queue.
type deadFlags struct {
	IDs   []int64 `arg:"" optional:"" name:"id" sep:"none" help:"Ids of the jobs."`
	Queue *string `placeholder:"Q" help:"With --all: the queue."`
	All   bool    `help:"All dead jobs of the queue."`
}

func (f *deadFlags) validate() error {
	switch {
	case len(f.IDs) > 0 && (f.All || f.Queue != nil):
		return usagef("give either ids or --queue Q --all, not both")
	case len(f.IDs) == 0 && !f.All:
		return usagef("nothing is selected: give ids, or --queue Q --all")
	case f.All && f.Queue == nil:
		return usagef("--all needs --queue Q")
	case f.All:
		return queue.ValidateName(*f.Queue)
	}
	return nil
}

// deadWork is what is done to dead jobs.
type deadWork struct {
	verb string // what was done: "requeued"
	ids  func(*queue.Client, context.Context, ...int64) ([]bool, error)
	all  func(*queue.Client, context.Context, queue.DeadFilter) (int, error)
}

// bulkAllJSON is what a command did to all dead jobs of a queue.
type bulkAllJSON struct {
	Queue string `json:"queue"`
	Count int    `json:"count"`
}

func (f *deadFlags) run(ctx context.Context, e *env, work deadWork, olderThan time.Duration) error {
	if err := f.validate(); err != nil {
		return err
	}
	ids, err := distinct(f.IDs)
	if err != nil {
		return err
	}
	return e.with(ctx, e.open, func(client *queue.Client) error {
		if !f.All {
			there, err := work.ids(client, ctx, ids...)
			if err != nil {
				return err
			}
			return printBulk(e.out, work.verb, "dead", ids, there)
		}
		n, err := work.all(client, ctx, queue.DeadFilter{Queue: *f.Queue, OlderThan: olderThan})
		if err != nil {
			return failedf("%d jobs were %s, then: %w", n, work.verb, err)
		}
		if e.out.json {
			err = e.out.object(bulkAllJSON{Queue: *f.Queue, Count: n})
		} else if n > 0 {
			err = e.out.printf("%s %d jobs of queue %s\n", work.verb, n, clean(*f.Queue))
		}
		if err == nil && n == 0 {
			return nothingf("queue %q has no dead job that matches", *f.Queue)
		}
		return err
	})
}

type requeueCommand struct{ deadFlags }

// Help is the second part of the command's help.
func (*requeueCommand) Help() string {
	return "The jobs are ready at once and never expire; they keep id, options and the history of their failures."
}

func (c *requeueCommand) Run(ctx context.Context, e *env) error {
	work := deadWork{verb: "requeued", ids: (*queue.Client).Requeue, all: (*queue.Client).RequeueAll}
	return c.run(ctx, e, work, 0)
}

type purgeCommand struct {
	deadFlags
	OlderThan *time.Duration `placeholder:"DURATION" help:"With --all: only jobs that have been dead for at least this long."`
}

// Help is the second part of the command's help.
func (*purgeCommand) Help() string {
	return "Pending and processing jobs are deleted by cancel."
}

func (c *purgeCommand) Run(ctx context.Context, e *env) error {
	work := deadWork{verb: "purged", ids: (*queue.Client).Purge, all: (*queue.Client).PurgeAll}
	var age time.Duration
	if c.OlderThan != nil {
		if age = *c.OlderThan; !c.All {
			return usagef("--older-than works with --queue Q --all only")
		}
	}
	return c.run(ctx, e, work, age)
}
