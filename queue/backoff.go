package queue

import (
	"time"

	"github.com/cenkalti/backoff/v4"
)

// jitter is the share of a delay by which it may be shorter or longer. // B1
const jitter = 0.2

// Backoff is the delay after failed attempt number attempt (the first is 1): base doubled with each attempt before,
// capped at limit, then spread evenly over 20 percent to either side so that jobs which failed together do not come back
// together. It is never below zero and never above limit by more than 20 percent, whatever the attempt.
//
// A base of zero or less is no delay. A limit of zero or less means DefaultMaxBackoff, and one above a year means a
// year. An attempt below 1 counts as 1. // B1
func Backoff(base, limit time.Duration, attempt int) time.Duration {
	return backoffAt(base, limit, attempt, jitter)
}

func backoffAt(base, limit time.Duration, attempt int, spread float64) time.Duration {
	if base <= 0 {
		return 0
	}
	if limit <= 0 {
		limit = DefaultMaxBackoff
	}
	limit = min(limit, MaxBackoffBase)
	curve := backoff.ExponentialBackOff{
		InitialInterval:     min(base, limit), // the library caps from the second interval on only
		RandomizationFactor: spread,
		Multiplier:          2,
		MaxInterval:         limit,
		Clock:               backoff.SystemClock,
	}
	curve.Reset()
	// 62 doublings bring even a nanosecond past every limit.
	for range min(max(attempt, 1), 63) - 1 {
		curve.NextBackOff()
	}
	return curve.NextBackOff()
}
