package command

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/alkstore/alkworker/queue"
)

type getCommand struct {
	ID int64 `arg:"" help:"Id of the job."`
}

func (c *getCommand) Run(ctx context.Context, e *env) error {
	return e.with(ctx, e.open, func(client *queue.Client) error {
		job, err := client.Get(ctx, c.ID)
		if err != nil {
			return err
		}
		if job == nil {
			return nothingf("there is no job %d", c.ID)
		}
		if e.out.json {
			out := jobOf(job)
			out.Errors = attemptsOf(job)
			return e.out.object(out)
		}
		return printJob(e.out, job)
	})
}

func printJob(out *output, j *queue.Job) error {
	t := out.table()
	t.row("id", strconv.FormatInt(j.ID, 10))
	t.row("queue", clean(j.Queue))
	t.row("state", string(j.State))
	t.row("payload", payloadText(j.Payload))
	t.row("priority", strconv.Itoa(j.Priority))
	t.row("attempts", fmt.Sprintf("%d of %d", j.Attempt, j.MaxAttempts))
	t.row("fence", strconv.FormatInt(j.Fence, 10))
	t.row("visibility timeout", durationText(j.VisibilityTimeout))
	t.row("backoff base", durationText(j.BackoffBase))
	if j.DeadLetterRetention == queue.KeepForever {
		t.row("retention", "forever")
	} else {
		t.row("retention", durationText(j.DeadLetterRetention))
	}
	for _, text := range []struct{ name, value string }{
		{"claimant", j.Claimant}, {"schedule", j.Schedule}, {"last error", j.LastError},
	} {
		if text.value != "" {
			t.row(text.name, clean(text.value))
		}
	}
	for _, moment := range []struct {
		name string
		at   time.Time
	}{
		{"created", j.CreatedAt}, {"ready", j.RunAt}, {"claimed", j.ClaimedAt}, {"claim ends", j.ClaimExpiresAt},
		{"expires", j.ExpiresAt}, {"died", j.DiedAt}, {"scheduled for", j.ScheduledFor},
	} {
		if !moment.at.IsZero() {
			t.row(moment.name, timeText(moment.at))
		}
	}
	if err := t.flush(); err != nil {
		return err
	}
	for _, f := range j.Failures {
		if err := out.printf("\nattempt %d failed at %s: %s\n", f.Attempt, timeText(f.At), clean(f.Error)); err != nil {
			return err
		}
		for line := range strings.Lines(f.Stack) {
			if err := out.printf("    %s\n", strings.ReplaceAll(cleanLine(line), "\t", "    ")); err != nil {
				return err
			}
		}
	}
	return nil
}

// cleanLine is clean for a line of a stack, which may be indented.
func cleanLine(line string) string {
	text := strings.TrimRight(line, "\r\n")
	body := strings.TrimLeft(text, "\t ")
	return text[:len(text)-len(body)] + clean(body)
}
