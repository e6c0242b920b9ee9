package command

import (
	"context"

	"github.com/alkstore/alkworker/queue"
)

type pauseCommand struct {
	Queue string `arg:"" help:"Name of the queue; it need not have jobs yet."`
}

func (c *pauseCommand) Run(ctx context.Context, e *env) error {
	return setPaused(ctx, e, c.Queue, true)
}

type resumeCommand struct {
	Queue string `arg:"" help:"Name of the queue."`
}

func (c *resumeCommand) Run(ctx context.Context, e *env) error {
	return setPaused(ctx, e, c.Queue, false)
}

// pausedJSON is a queue or a schedule that was paused or resumed.
type pausedJSON struct {
	Queue    string `json:"queue,omitempty"`
	Schedule string `json:"schedule,omitempty"`
	Paused   bool   `json:"paused"`
}

// setPaused sets the pause of a queue; setting it to what it is already is no error.
func setPaused(ctx context.Context, e *env, name string, paused bool) error {
	verb, set := "resumed", (*queue.Client).Resume
	if paused {
		verb, set = "paused", (*queue.Client).Pause
	}
	if err := queue.ValidateName(name); err != nil {
		return err
	}
	return e.with(ctx, e.open, func(client *queue.Client) error {
		if err := set(client, ctx, name); err != nil {
			return err
		}
		if e.out.json {
			return e.out.object(pausedJSON{Queue: name, Paused: paused})
		}
		return e.out.printf("%s queue %s\n", verb, clean(name))
	})
}
