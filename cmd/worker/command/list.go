package command

import (
	"context"
	"fmt"
	"strconv"

	"github.com/alkstore/alkworker/queue"
)

// pageSize is how many jobs of a list are read at once.
const pageSize = 500

type listCommand struct {
	Queue *string `placeholder:"Q" help:"Only jobs of this queue."`
	State *string `placeholder:"STATE" help:"Only jobs in this state: pending, processing or dead."`
	Limit int     `default:"100" placeholder:"N" help:"How many jobs to print at most (100)."`
	After *int64  `placeholder:"ID" help:"The next page: only jobs older than this one, the last of the page before."`
}

// Help is the second part of the command's help.
func (*listCommand) Help() string {
	return "Shows at most 256 bytes of each payload; payload_size tells how long it is. An empty list is not an error."
}

func (c *listCommand) Run(ctx context.Context, e *env) error {
	var filter queue.Filter
	if c.Queue != nil {
		if err := queue.ValidateName(*c.Queue); err != nil {
			return usagef("--queue: %w", err)
		}
		filter.Queue = *c.Queue
	}
	if c.State != nil {
		switch filter.State = queue.State(*c.State); filter.State {
		case queue.Pending, queue.Processing, queue.Dead:
		default:
			return usagef("--state=%s: want pending, processing or dead", *c.State)
		}
	}
	if c.Limit < 1 {
		return usagef("--limit=%d: must be at least 1", c.Limit)
	}
	if c.After != nil {
		if filter.Before = *c.After; filter.Before < 1 {
			return usagef("--after=%d: ids begin at 1", filter.Before)
		}
	}
	return e.with(ctx, e.open, func(client *queue.Client) error {
		for left := c.Limit; left > 0; {
			filter.Limit = min(left, pageSize)
			jobs, err := client.List(ctx, filter)
			if err != nil {
				return err
			}
			if err := printJobs(e.out, jobs, left == c.Limit); err != nil {
				return err
			}
			if len(jobs) < filter.Limit {
				return nil
			}
			left -= len(jobs)
			if filter.Before = jobs[len(jobs)-1].ID; filter.Before <= 1 {
				return nil // nothing is before the first; a row that was inserted by hand may have an id below it
			}
		}
		return nil
	})
}

func printJobs(out *output, jobs []*queue.Job, first bool) error {
	if out.json {
		for _, j := range jobs {
			o := jobOf(j)
			o.PayloadSize = new(j.PayloadSize)
			if err := out.object(o); err != nil {
				return err
			}
		}
		return out.flush()
	}
	t := out.table()
	if first {
		t.row("ID", "QUEUE", "STATE", "PRIORITY", "ATTEMPTS", "READY AT", "LAST ERROR", "PAYLOAD")
	}
	for _, j := range jobs {
		payload := short(payloadText(preview(j)), 40)
		if j.PayloadSize > 40 {
			payload += fmt.Sprintf(" (%d bytes)", j.PayloadSize)
		}
		t.row(strconv.FormatInt(j.ID, 10), short(j.Queue, 32), string(j.State), strconv.Itoa(j.Priority),
			fmt.Sprintf("%d/%d", j.Attempt, j.MaxAttempts), timeText(j.RunAt), short(j.LastError, 40), payload)
	}
	if err := t.flush(); err != nil {
		return err
	}
	return out.flush()
}
