package command

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/scheduler"
)

// scheduleCommand are the commands on schedules.
type scheduleCommand struct {
	Set    scheduleSetCommand    `cmd:"" help:"Add a schedule, or change the one of that name."`
	List   scheduleListCommand   `cmd:"" help:"List all schedules."`
	Remove scheduleRemoveCommand `cmd:"" help:"Remove a schedule; jobs that it has fired stay."`
	Pause  schedulePauseCommand  `cmd:"" help:"Stop a schedule from firing."`
	Resume scheduleResumeCommand `cmd:"" help:"Let a paused schedule fire again, from its next boundary on."`
	Fire   scheduleFireCommand   `cmd:"" help:"Enqueue one job of a schedule now, and print its id."`
}

type scheduleSetCommand struct {
	Name  string `arg:"" help:"Name of the schedule."`
	Every string `required:"" placeholder:"INTERVAL" help:"A whole number and one of the units s, m, h and d, such as 15m."`
	Queue string `required:"" placeholder:"Q" help:"Queue of the jobs."`

	Payload  *string        `placeholder:"TEXT" help:"Payload of the jobs; a dash is all of standard input."`
	Anchor   *time.Time     `placeholder:"TIME" help:"A moment at which it fires, which fixes all the others; without it, the moment of the first set. RFC 3339 or Unix seconds."`
	CatchUp  *int           `placeholder:"N" help:"How many missed boundaries are made up for, 1 to 64 (64); the others are skipped."`
	Priority int            `placeholder:"N" help:"Priority of the jobs (0)."`
	Expires  *time.Duration `placeholder:"DURATION" help:"How long after it was fired a job is worth running; never expires without it."`

	stampFlags
}

// Help is the second part of the command's help.
func (*scheduleSetCommand) Help() string {
	return "Setting a schedule again with the same interval and anchor does not move its next boundary. Any running worker " +
		"on the database fires it."
}

func (c *scheduleSetCommand) Run(ctx context.Context, e *env) error {
	s, err := c.schedule(e)
	if err != nil {
		return err
	}
	if s.Payload, err = e.payload(c.Payload); err != nil {
		return err
	}
	return e.with(ctx, e.create, func(client *queue.Client) error {
		if err := scheduler.Set(ctx, client, s); err != nil {
			return err
		}
		all, err := scheduler.List(ctx, client)
		if err != nil {
			return err
		}
		for _, stored := range all {
			if stored.Name == c.Name {
				if e.out.json {
					return e.out.object(scheduleOf(stored))
				}
				return e.out.printf("schedule %s fires next at %s\n", clean(stored.Name), timeText(stored.NextFireAt))
			}
		}
		return nil // another process has removed it meanwhile
	})
}

// schedule is what the flags ask for, without the payload. All that is wrong with them is one error.
func (c *scheduleSetCommand) schedule(e *env) (scheduler.Schedule, error) {
	stamps, err := e.stamps(c.Queue)
	if err != nil {
		return scheduler.Schedule{}, err
	}
	s := scheduler.Schedule{Name: c.Name, Queue: c.Queue, Priority: c.Priority}
	spec, specErr := everySpec(c.Every)
	flags, flagsErr := c.options()
	s.Spec, s.Stamps = spec, overridden(stamps, flags)
	wrong := []error{specErr, flagsErr}
	if c.Anchor != nil {
		s.Anchor = *c.Anchor
	}
	if c.CatchUp != nil {
		if s.CatchUp = *c.CatchUp; s.CatchUp == 0 {
			wrong = append(wrong, errors.New("catch-up must be at least 1"))
		}
	}
	if c.Expires != nil {
		if s.Expires = *c.Expires; s.Expires == 0 {
			wrong = append(wrong, errors.New("the expiry must be at least 1s: leave it out for never"))
		}
	}
	if err := errors.Join(wrong...); err != nil {
		return s, usagef("schedule set: %w", err)
	}
	return s, nil
}

// scheduleJSON is a schedule as scripts see it. Null is unset.
type scheduleJSON struct {
	Name                 string  `json:"name"`
	Queue                string  `json:"queue"`
	Every                string  `json:"every"`          // what follows "@every " in the spec, or a spec that is not valid
	Payload              *string `json:"payload"`        // if it is valid UTF-8
	PayloadBase64        *string `json:"payload_base64"` // otherwise
	Priority             int     `json:"priority"`
	ExpiresS             *int64  `json:"expires_s"`
	VisibilityTimeoutS   int64   `json:"visibility_timeout_s"`
	MaxAttempts          int     `json:"max_attempts"`
	BackoffBaseS         int64   `json:"backoff_base_s"`
	DeadLetterRetentionS *int64  `json:"dead_letter_retention_s"` // null keeps for ever
	Anchor               *int64  `json:"anchor"`
	CatchUp              int     `json:"catch_up"`
	NextFireAt           *int64  `json:"next_fire_at"`
	Paused               bool    `json:"paused"`
	CreatedAt            *int64  `json:"created_at"`
}

func scheduleOf(s scheduler.Schedule) scheduleJSON {
	out := scheduleJSON{
		Name:               s.Name,
		Queue:              s.Queue,
		Every:              strings.TrimPrefix(s.Spec, "@every "),
		Priority:           s.Priority,
		VisibilityTimeoutS: queue.Seconds(s.Stamps.VisibilityTimeout),
		MaxAttempts:        s.Stamps.MaxAttempts,
		BackoffBaseS:       queue.Seconds(max(s.Stamps.BackoffBase, 0)),
		Anchor:             timeOrNull(s.Anchor),
		CatchUp:            s.CatchUp,
		NextFireAt:         timeOrNull(s.NextFireAt),
		Paused:             s.Paused,
		CreatedAt:          timeOrNull(s.CreatedAt),
	}
	out.Payload, out.PayloadBase64 = payloadJSON(s.Payload)
	if s.Expires > 0 {
		out.ExpiresS = new(queue.Seconds(s.Expires))
	}
	if s.Stamps.DeadLetterRetention != queue.KeepForever {
		out.DeadLetterRetentionS = new(queue.Seconds(s.Stamps.DeadLetterRetention))
	}
	return out
}

type scheduleListCommand struct{}

func (*scheduleListCommand) Run(ctx context.Context, e *env) error {
	return e.with(ctx, e.open, func(client *queue.Client) error {
		all, err := scheduler.List(ctx, client)
		if err != nil {
			return err
		}
		t := e.out.table()
		if !e.out.json {
			t.row("NAME", "QUEUE", "EVERY", "NEXT", "PAUSED", "PAYLOAD")
		}
		for _, s := range all {
			if e.out.json {
				if err := e.out.object(scheduleOf(s)); err != nil {
					return err
				}
				continue
			}
			paused := "no"
			if s.Paused {
				paused = "yes"
			}
			t.row(short(s.Name, 32), short(s.Queue, 32), short(strings.TrimPrefix(s.Spec, "@every "), 16),
				timeText(s.NextFireAt), paused, short(payloadText(s.Payload), 40))
		}
		return t.flush()
	})
}
