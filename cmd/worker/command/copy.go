package command

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/alkstore/alkworker/queue"
)

type copyCommand struct {
	From string `required:"" placeholder:"DSN" help:"The database that has the jobs."`
	To   string `required:"" placeholder:"DSN" help:"The PostgreSQL database that gets them."`
}

// Help is the second part of the command's help.
func (*copyCommand) Help() string {
	return "Stop all workers and producers first. Brings live and dead jobs with their ids and failed attempts, schedules and " +
		"pauses, and then compares both databases: counts, and a checksum over everything. A target that has jobs of its own or " +
		"is in use is refused. If it is interrupted, the same command goes on where it stopped. The origin is not changed: " +
		"start no worker on it again. --db is not used."
}

// copiedJSON is what both databases have.
type copiedJSON struct {
	Pending    int    `json:"pending"`
	Processing int    `json:"processing"`
	Dead       int    `json:"dead"`
	Failures   int    `json:"failures"`
	Schedules  int    `json:"schedules"`
	Already    int    `json:"already"`
	Checksum   string `json:"checksum"`
}

func (c *copyCommand) Run(ctx context.Context, e *env) error {
	from := func(ctx context.Context) (*queue.Client, error) {
		if path, ok := filePath(c.From); ok {
			if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
				return nil, failedf("there is no database %q", path)
			}
		}
		return queue.Open(ctx, c.From, nil)
	}
	to := func(ctx context.Context) (*queue.Client, error) {
		if !isPostgres(c.To) {
			return nil, usagef("--to %s is not the address of a PostgreSQL database; for a copy of a file there is backup", shown(c.To))
		}
		return queue.Open(ctx, c.To, nil)
	}
	return e.with(ctx, from, func(origin *queue.Client) error {
		return e.with(ctx, to, func(target *queue.Client) error {
			done, err := queue.Copy(ctx, origin, target)
			if err != nil {
				return err
			}
			if e.out.json {
				return e.out.object(copiedJSON(done))
			}
			return e.out.printf("%d pending, %d processing and %d dead jobs with %d failed attempts, and %d schedules are in both "+
				"databases\nchecksum %s\n", done.Pending, done.Processing, done.Dead, done.Failures, done.Schedules, done.Checksum)
		})
	})
}
