package command

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/alkstore/alkworker/queue"
)

// linesAtOnce is how many lines are stored together, all or none.
const linesAtOnce = 1000

type enqueueCommand struct {
	Queue   string  `arg:"" help:"Name of the queue."`
	Payload *string `arg:"" optional:"" help:"The payload; without it the payload is empty. A dash is all of standard input, byte for byte. Put -- before a payload that begins with a dash."`

	Lines    *string        `placeholder:"FILE" help:"Enqueue one job for each line of a file, or of standard input if it is a dash. The line without its end is the payload, an empty line is an empty one. All or none of each thousand are stored."`
	Delay    *time.Duration `placeholder:"DURATION" help:"How long the job waits before it is ready. Wins over --run-at."`
	RunAt    *time.Time     `placeholder:"TIME" help:"When the job is ready: RFC 3339 or Unix seconds."`
	Expires  *time.Duration `placeholder:"DURATION" help:"How long from now the job is worth running; never expires without it."`
	Priority int            `placeholder:"N" help:"Jobs of a higher priority are claimed first (0)."`

	stampFlags
}

// Help is the second part of the command's help.
func (*enqueueCommand) Help() string {
	return "Prints the ids of the jobs, one a line. What no flag says comes from the options of the queue in the program's " +
		"handlers and in the file of --config. Durations are a number and a unit: 90s, 15m, 2h, 3d."
}

func (c *enqueueCommand) Run(ctx context.Context, e *env) error {
	if c.Lines != nil && c.Payload != nil {
		return usagef("give either a payload or --lines, not both")
	}
	job, err := c.job(e)
	if err != nil {
		return err
	}
	if c.Lines != nil {
		return c.enqueueLines(ctx, e, job)
	}
	if job.Payload, err = e.payload(c.Payload); err != nil {
		return err
	}
	return e.with(ctx, e.create, func(client *queue.Client) error {
		ids, err := client.Enqueue(ctx, job)
		if err != nil {
			return err
		}
		return printIDs(e.out, ids)
	})
}

// job is the job to enqueue without its payload. All that is wrong with the flags is one error.
func (c *enqueueCommand) job(e *env) (queue.NewJob, error) {
	stamps, err := e.stamps(c.Queue)
	if err != nil {
		return queue.NewJob{}, err
	}
	flags, flagsErr := c.options()
	job := queue.NewJob{Queue: c.Queue, Options: overridden(stamps, flags)}
	job.EnqueueOptions.Priority = c.Priority
	if c.RunAt != nil && c.Delay == nil { // E3: also a delay of 0s wins
		job.EnqueueOptions.RunAt = *c.RunAt
	}
	if c.Delay != nil {
		job.EnqueueOptions.Delay = *c.Delay
	}
	problems := []error{queue.ValidateName(c.Queue), flagsErr}
	if c.Expires != nil {
		if job.EnqueueOptions.Expires = *c.Expires; *c.Expires == 0 {
			problems = append(problems, errors.New("the expiry must be at least 1s: leave it out for never"))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return job, usagef("enqueue: %w", err)
	}
	return job, nil
}

// enqueueLines stores one job for each line. What is stored before an error stays, and the error says how much it is.
func (c *enqueueCommand) enqueueLines(ctx context.Context, e *env, job queue.NewJob) error {
	name, input := "standard input", e.stdin
	if *c.Lines != "-" {
		f, err := os.Open(*c.Lines)
		if err != nil {
			return failedf("enqueue lines: %w", err)
		}
		defer func() { _ = f.Close() }() // only read
		name, input = f.Name(), interruptible(ctx, f)
	}
	return e.with(ctx, e.create, func(client *queue.Client) error {
		stored, whole, err := storeLines(ctx, client, e.out, input, job)
		if err == nil || whole && errors.Is(err, errOutputClosed) {
			return err
		}
		if errors.Is(err, errOutputClosed) { // not wrapped: this one has to be told
			return failedf("enqueue lines of %s: %d jobs were stored, then: %v", name, stored, err)
		}
		status := failedf
		if stored == 0 && statusOf(err) == ExitUsage {
			status = usagef
		}
		return status("enqueue lines of %s: %d jobs were stored and their ids printed, then: %w", name, stored, err)
	})
}

// storeLines says how many jobs it has stored, and whether these are all.
func storeLines(
	ctx context.Context, client *queue.Client, out *output, input io.Reader, job queue.NewJob,
) (stored int, whole bool, err error) {
	r := bufio.NewReaderSize(input, 64<<10)
	for {
		var batch []queue.NewJob
		for len(batch) < linesAtOnce {
			line, err := readLine(r)
			if errors.Is(err, io.EOF) {
				whole = true
				break
			}
			if err != nil {
				return stored, false, fmt.Errorf("line %d: %w", stored+len(batch)+1, err)
			}
			job.Payload = line
			batch = append(batch, job)
		}
		ids, err := client.Enqueue(ctx, batch...)
		if err != nil {
			return stored, false, fmt.Errorf("lines %d to %d: %w", stored+1, stored+len(batch), err)
		}
		stored += len(ids)
		if err := printIDs(out, ids); err != nil {
			return stored, whole, err
		}
		if whole {
			return stored, true, nil
		}
	}
}

// readLine returns a line without its "\n" or "\r\n", and io.EOF after the last. The end of the input ends a line as well,
// unless it is empty. A line that is longer than a payload may be is an error.
func readLine(r *bufio.Reader) ([]byte, error) {
	tooLong := fmt.Errorf("%w: limit %d bytes", queue.ErrPayloadTooLarge, queue.DefaultMaxPayload)
	line := []byte{}
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > queue.DefaultMaxPayload+len("\r\n") {
			return nil, tooLong
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == nil:
			line = bytes.TrimSuffix(line[:len(line)-1], []byte("\r"))
		case !errors.Is(err, io.EOF):
			return nil, err
		case len(line) == 0:
			return nil, io.EOF
		}
		if len(line) > queue.DefaultMaxPayload {
			return nil, tooLong
		}
		return line, nil
	}
}

func printIDs(out *output, ids []int64) error {
	for _, id := range ids {
		var err error
		if out.json {
			err = out.object(struct {
				ID int64 `json:"id"`
			}{id})
		} else {
			err = out.printf("%d\n", id)
		}
		if err != nil {
			return err
		}
	}
	return out.flush()
}
