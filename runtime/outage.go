package runtime

import (
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// outage is the time in which one loop cannot reach the database: logged when it begins and when it ends, not for each
// try in between. It belongs to one goroutine.
type outage struct {
	log   *slog.Logger
	what  string
	since time.Time // of the first failed try; zero: none
	last  time.Time // of the latest
	curve *backoff.ExponentialBackOff
}

func newOutage(log *slog.Logger, what string) *outage {
	return &outage{log: log, what: what, curve: backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(20*time.Millisecond),
		backoff.WithMultiplier(2),
		backoff.WithMaxInterval(500*time.Millisecond), // a lock that was just freed is noticed within a second // K21
		backoff.WithMaxElapsedTime(0),
	)}
}

// note reports a failed try.
func (o *outage) note(err error) {
	o.last = time.Now()
	if o.since.IsZero() {
		o.since = o.last
		o.log.Warn("database does not take "+o.what+", trying again until it does", "error", err)
	}
}

// wait reports a failed try and says how long to wait for the next one.
func (o *outage) wait(err error) time.Duration {
	o.note(err)
	return o.pause()
}

// pause is wait without a word, for a failure that is returned.
func (o *outage) pause() time.Duration { return o.curve.NextBackOff() }

// over reports a try that went well. To have had nothing to try is no such thing, so it may come long after the last
// failed one, up to which the time is counted.
func (o *outage) over() {
	o.curve.Reset()
	if o.since.IsZero() {
		return
	}
	o.log.Info("database takes "+o.what+" again", "after", o.last.Sub(o.since).Round(time.Millisecond))
	o.since = time.Time{}
}
