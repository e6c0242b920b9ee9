package queue

import (
	"errors"
	"math"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// What a queue has unless its options say otherwise. // E2
const (
	DefaultVisibilityTimeout   = 30 * time.Second
	DefaultMaxAttempts         = 20
	DefaultBackoffBase         = 5 * time.Second
	DefaultDeadLetterRetention = 90 * 24 * time.Hour
)

// NoBackoff as a BackoffBase means that a failed attempt may be repeated at once.
const NoBackoff time.Duration = -1

// KeepForever as a DeadLetterRetention means that a dead job stays until it is requeued or purged.
const KeepForever time.Duration = -1

// The limits of options.
const (
	MaxNameLength        = 128                  // bytes of a queue's name
	MaxVisibilityTimeout = 365 * 24 * time.Hour // also of a single extension
	MaxBackoffBase       = 365 * 24 * time.Hour
)

// Options are stamped onto each job when it is enqueued. Changing a queue's options never changes a job that exists.
// A zero field means its default. Durations are rounded up to whole seconds, so the shortest is one second. // E2
type Options struct {
	// VisibilityTimeout is how long a claim holds without a heartbeat before another worker may claim the job.
	// Zero means 30 seconds; at most one year.
	VisibilityTimeout time.Duration
	// MaxAttempts is how many claims a job may have before it goes to the dead letters. Zero means 20; at most
	// math.MaxInt32.
	MaxAttempts int
	// BackoffBase is the delay after the first failed attempt, doubled after each further one; see [Backoff].
	// Zero means 5 seconds; NoBackoff repeats at once; at most one year.
	BackoffBase time.Duration
	// DeadLetterRetention is how long a dead job is kept, counted from its death. Zero means 90 days; KeepForever has
	// no end.
	DeadLetterRetention time.Duration
}

// Validate reports everything that is wrong with the options together. Each problem is an ErrInvalid.
func (o Options) Validate() error {
	var problems []error
	switch {
	case o.VisibilityTimeout < 0:
		problems = append(problems, invalidf("visibility timeout %v is negative", o.VisibilityTimeout))
	case o.VisibilityTimeout > MaxVisibilityTimeout:
		problems = append(problems, invalidf("visibility timeout %v is over one year", o.VisibilityTimeout))
	}
	if o.MaxAttempts < 0 || int64(o.MaxAttempts) > math.MaxInt32 {
		problems = append(problems, invalidf("max attempts %d is not within 1 and %d", o.MaxAttempts, math.MaxInt32))
	}
	switch {
	case o.BackoffBase < 0 && o.BackoffBase != NoBackoff:
		problems = append(problems, invalidf("backoff base %v is negative", o.BackoffBase))
	case o.BackoffBase > MaxBackoffBase:
		problems = append(problems, invalidf("backoff base %v is over one year", o.BackoffBase))
	}
	if o.DeadLetterRetention < 0 && o.DeadLetterRetention != KeepForever {
		problems = append(problems, invalidf("dead letter retention %v is negative", o.DeadLetterRetention))
	}
	return errors.Join(problems...)
}

// Resolved fills in the defaults for what is zero.
func (o Options) Resolved() Options {
	if o.VisibilityTimeout == 0 {
		o.VisibilityTimeout = DefaultVisibilityTimeout
	}
	if o.MaxAttempts == 0 {
		o.MaxAttempts = DefaultMaxAttempts
	}
	if o.BackoffBase == 0 {
		o.BackoffBase = DefaultBackoffBase
	}
	if o.DeadLetterRetention == 0 {
		o.DeadLetterRetention = DefaultDeadLetterRetention
	}
	return o
}

// Stamps are valid options in the store's units. It is for the packages of this module.
func (o Options) Stamps() sqlstore.Stamps {
	o = o.Resolved()
	s := sqlstore.Stamps{
		VisibilityTimeoutS: Seconds(o.VisibilityTimeout),
		MaxAttempts:        int64(o.MaxAttempts),
		BackoffBaseS:       Seconds(max(o.BackoffBase, 0)),
	}
	if o.DeadLetterRetention != KeepForever {
		retention := Seconds(o.DeadLetterRetention)
		s.DeadLetterRetentionS = &retention
	}
	return s
}

// OptionsOf are the options that stamps were made of, up to rounding. It is for the packages of this module.
func OptionsOf(s sqlstore.Stamps) Options {
	o := Options{
		VisibilityTimeout:   duration(s.VisibilityTimeoutS),
		MaxAttempts:         clampInt(s.MaxAttempts),
		BackoffBase:         duration(s.BackoffBaseS),
		DeadLetterRetention: KeepForever,
	}
	if o.BackoffBase == 0 {
		o.BackoffBase = NoBackoff
	}
	if s.DeadLetterRetentionS != nil {
		o.DeadLetterRetention = duration(*s.DeadLetterRetentionS)
	}
	return o
}

// ValidateName says what is wrong with the name of a queue: it must be 1 to 128 bytes of valid UTF-8 without control
// characters. The error is an ErrInvalid. // E8
func ValidateName(name string) error { return validateText("queue name", name, MaxNameLength) }

// maxClaimantLength leaves room for a host name of full length and what a program adds to it.
const maxClaimantLength = 512

func validateClaimant(name string) error { return validateText("claimant", name, maxClaimantLength) }

func validateText(what, s string, limit int) error {
	switch {
	case s == "":
		return invalidf("%s is empty", what)
	case len(s) > limit:
		return invalidf("%s of %d bytes is over %d", what, len(s), limit)
	case !utf8.ValidString(s):
		return invalidf("%s %q is not valid UTF-8", what, s)
	}
	for _, r := range s {
		if unicode.IsControl(r) {
			return invalidf("%s %q contains the control character %U", what, s, r)
		}
	}
	return nil
}
