package command

import (
	"context"

	"github.com/alkstore/alkworker/queue"
)

type cancelCommand struct {
	IDs []int64 `arg:"" name:"id" sep:"none" help:"Ids of the jobs."`
}

// Help is the second part of the command's help.
func (*cancelCommand) Help() string {
	return "A job that is running is gone at once; its handler is told by the next heartbeat, and its answer is dropped. " +
		"Dead jobs are deleted by purge."
}

func (c *cancelCommand) Run(ctx context.Context, e *env) error {
	ids, err := distinct(c.IDs)
	if err != nil {
		return err
	}
	return e.with(ctx, e.open, func(client *queue.Client) error {
		there, err := client.Cancel(ctx, ids...)
		if err != nil {
			return err
		}
		return printBulk(e.out, "cancelled", "pending or processing", ids, there)
	})
}
