package command

import (
	"context"
	"errors"
	"strconv"

	"github.com/alkstore/alkworker/queue"
)

type sweepCommand struct{}

// Help is the second part of the command's help.
func (*sweepCommand) Help() string {
	return "Running workers sweep by themselves; this is for a database that no worker runs on. Prints a row a queue."
}

// sweptJSON is what the sweep of one queue did.
type sweptJSON struct {
	Queue    string `json:"queue"`
	Expired  int    `json:"expired"`
	Dropped  int    `json:"dropped"`
	Repaired int    `json:"repaired"`
}

// Run sweeps queue after queue. One that fails does not keep the others from being swept.
func (*sweepCommand) Run(ctx context.Context, e *env) error {
	return e.with(ctx, e.open, func(client *queue.Client) error {
		queues, err := client.Queues(ctx)
		if err != nil {
			return err
		}
		t := e.out.table()
		if !e.out.json {
			t.row("QUEUE", "EXPIRED", "DROPPED", "REPAIRED")
		}
		var failures problems
		for _, name := range queues {
			s, err := client.Sweep(ctx, name)
			if err != nil {
				failures = append(failures, err)
			}
			switch {
			case err != nil && s == (queue.Swept{}): // nothing to tell
			case e.out.json:
				swept := sweptJSON{Queue: name, Expired: s.Expired, Dropped: s.Dropped, Repaired: s.Repaired}
				if err := e.out.object(swept); err != nil {
					return err
				}
			default:
				t.row(short(name, 64), strconv.Itoa(s.Expired), strconv.Itoa(s.Dropped), strconv.Itoa(s.Repaired))
			}
			if errors.Is(err, context.Canceled) {
				break
			}
		}
		if err := t.flush(); err != nil {
			return err
		}
		if len(failures) > 0 {
			return failedf("%w", failures)
		}
		return nil
	})
}
