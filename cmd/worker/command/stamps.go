package command

import (
	"errors"
	"time"

	"github.com/alkstore/alkworker/queue"
)

// stampFlags are the options that a job is stamped with.
type stampFlags struct {
	VisibilityTimeout *time.Duration `placeholder:"DURATION" help:"How long a claim holds without a heartbeat (30s unless the queue's options say otherwise)."`
	MaxAttempts       *int           `placeholder:"N" help:"Attempts before the job is dead (20)."`
	BackoffBase       *time.Duration `placeholder:"DURATION" help:"Delay after the first failed attempt, doubled after each further one (5s); 0s repeats at once."`
	Retention         *retention     `placeholder:"DURATION" help:"How long the dead job is kept (90d), or forever."`
}

// options are what was asked for; what was not is zero. The error names every flag that is wrong.
func (f stampFlags) options() (queue.Options, error) {
	return stampOptions(f.VisibilityTimeout, f.MaxAttempts, f.BackoffBase, f.Retention)
}

// stampOptions makes options of what was written, nil where nothing was. A zero that was written is never the default: it
// has a meaning of its own or is refused. // K42
func stampOptions(
	visibility *time.Duration, attempts *int, backoff *time.Duration, keep *retention,
) (o queue.Options, err error) {
	var problems []error
	if visibility != nil {
		if o.VisibilityTimeout = *visibility; *visibility == 0 {
			problems = append(problems, errors.New("the visibility timeout must be at least 1s"))
		}
	}
	if attempts != nil {
		if o.MaxAttempts = *attempts; *attempts == 0 {
			problems = append(problems, errors.New("max attempts must be at least 1"))
		}
	}
	if backoff != nil {
		if o.BackoffBase = *backoff; *backoff == 0 {
			o.BackoffBase = queue.NoBackoff
		}
	}
	if keep != nil {
		o.DeadLetterRetention = time.Duration(*keep)
	}
	return o, errors.Join(append(problems, o.Validate())...)
}
