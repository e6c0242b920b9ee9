package command

import (
	"context"

	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/scheduler"
)

type scheduleRemoveCommand struct {
	Name string `arg:"" help:"Name of the schedule."`
}

// removedJSON is a schedule that was removed.
type removedJSON struct {
	Schedule string `json:"schedule"`
	Removed  bool   `json:"removed"`
}

func (c *scheduleRemoveCommand) Run(ctx context.Context, e *env) error {
	return withSchedule(ctx, e, c.Name, scheduler.Remove, "removed", removedJSON{Schedule: c.Name, Removed: true})
}

type schedulePauseCommand struct {
	Name string `arg:"" help:"Name of the schedule."`
}

func (c *schedulePauseCommand) Run(ctx context.Context, e *env) error {
	return withSchedule(ctx, e, c.Name, scheduler.Pause, "paused", pausedJSON{Schedule: c.Name, Paused: true})
}

type scheduleResumeCommand struct {
	Name string `arg:"" help:"Name of the schedule."`
}

func (c *scheduleResumeCommand) Run(ctx context.Context, e *env) error {
	return withSchedule(ctx, e, c.Name, scheduler.Resume, "resumed", pausedJSON{Schedule: c.Name, Paused: false})
}

type scheduleFireCommand struct {
	Name string `arg:"" help:"Name of the schedule, which may be paused."`
}

func (c *scheduleFireCommand) Run(ctx context.Context, e *env) error {
	return e.with(ctx, e.open, func(client *queue.Client) error {
		id, ok, err := scheduler.Fire(ctx, client, c.Name)
		if err != nil {
			return failedf("%w", err)
		}
		if !ok {
			return noSchedule(c.Name)
		}
		return printIDs(e.out, []int64{id})
	})
}

// withSchedule does one thing to one schedule and prints it. A stored schedule that cannot fire is a failure and not wrong
// usage.
func withSchedule(
	ctx context.Context, e *env, name string,
	do func(context.Context, *queue.Client, string) (bool, error), verb string, done any,
) error {
	return e.with(ctx, e.open, func(client *queue.Client) error {
		ok, err := do(ctx, client, name)
		switch {
		case err != nil:
			return failedf("%w", err)
		case !ok:
			return noSchedule(name)
		case e.out.json:
			return e.out.object(done)
		}
		return e.out.printf("%s schedule %s\n", verb, clean(name))
	})
}

func noSchedule(name string) error { return nothingf("there is no schedule %q", name) }
