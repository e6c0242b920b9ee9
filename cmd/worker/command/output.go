package command

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/alkstore/alkworker/queue"
)

// output writes results. Errors stay until flush, which every command ends with.
type output struct {
	json bool
	w    *bufio.Writer
}

func newOutput(w io.Writer, asJSON bool) *output { return &output{json: asJSON, w: bufio.NewWriter(w)} }

// flush writes what is buffered and returns the first error of all writes.
func (o *output) flush() error { return outputError(o.w.Flush()) }

// object writes v as one line of JSON.
func (o *output) object(v any) error {
	enc := json.NewEncoder(o.w)
	enc.SetEscapeHTML(false)
	return outputError(enc.Encode(v))
}

func (o *output) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(o.w, format, args...)
	return outputError(err)
}

// table is aligned text. What is written to it appears with flush.
type table struct{ w *tabwriter.Writer }

func (o *output) table() *table { return &table{w: tabwriter.NewWriter(o.w, 0, 0, 2, ' ', 0)} }

// row adds one line. Cells must be printable; see clean.
func (t *table) row(cells ...string) { _, _ = fmt.Fprintln(t.w, strings.Join(cells, "\t")) }

func (t *table) flush() error { return outputError(t.w.Flush()) }

// jobJSON is a job as scripts see it. Null is unset.
type jobJSON struct {
	ID                   int64          `json:"id"`
	Queue                string         `json:"queue"`
	State                queue.State    `json:"state"`
	Payload              *string        `json:"payload"`        // if it is valid UTF-8
	PayloadBase64        *string        `json:"payload_base64"` // otherwise
	PayloadSize          *int           `json:"payload_size,omitempty"`
	Priority             int            `json:"priority"`
	Attempts             int            `json:"attempts"`
	MaxAttempts          int            `json:"max_attempts"`
	Fence                int64          `json:"fence"`
	VisibilityTimeoutS   int64          `json:"visibility_timeout_s"`
	BackoffBaseS         int64          `json:"backoff_base_s"`
	DeadLetterRetentionS *int64         `json:"dead_letter_retention_s"` // null keeps for ever
	Claimant             *string        `json:"claimant"`
	CreatedAt            *int64         `json:"created_at"`
	RunAt                *int64         `json:"run_at"`
	ClaimedAt            *int64         `json:"claimed_at"`
	ClaimExpiresAt       *int64         `json:"claim_expires_at"`
	ExpiresAt            *int64         `json:"expires_at"`
	LastError            *string        `json:"last_error"`
	DiedAt               *int64         `json:"died_at"`
	Schedule             *string        `json:"schedule"`
	ScheduledFor         *int64         `json:"scheduled_for"`
	Errors               []attemptError `json:"errors"` // null where they were not asked for
}

type attemptError struct {
	Attempt int     `json:"attempt"`
	At      *int64  `json:"at"`
	Error   string  `json:"error"`
	Stack   *string `json:"stack"`
}

// jobOf is a job without its failed attempts.
func jobOf(j *queue.Job) jobJSON {
	out := jobJSON{
		ID:                 j.ID,
		Queue:              j.Queue,
		State:              j.State,
		Priority:           j.Priority,
		Attempts:           j.Attempt,
		MaxAttempts:        j.MaxAttempts,
		Fence:              j.Fence,
		VisibilityTimeoutS: queue.Seconds(j.VisibilityTimeout),
		BackoffBaseS:       queue.Seconds(j.BackoffBase),
		Claimant:           textOrNull(j.Claimant),
		CreatedAt:          timeOrNull(j.CreatedAt),
		RunAt:              timeOrNull(j.RunAt),
		ClaimedAt:          timeOrNull(j.ClaimedAt),
		ClaimExpiresAt:     timeOrNull(j.ClaimExpiresAt),
		ExpiresAt:          timeOrNull(j.ExpiresAt),
		LastError:          textOrNull(j.LastError),
		DiedAt:             timeOrNull(j.DiedAt),
		Schedule:           textOrNull(j.Schedule),
		ScheduledFor:       timeOrNull(j.ScheduledFor),
	}
	out.Payload, out.PayloadBase64 = payloadJSON(preview(j))
	if j.DeadLetterRetention != queue.KeepForever {
		out.DeadLetterRetentionS = new(queue.Seconds(j.DeadLetterRetention))
	}
	return out
}

func attemptsOf(j *queue.Job) []attemptError {
	all := make([]attemptError, len(j.Failures))
	for i, f := range j.Failures {
		all[i] = attemptError{Attempt: f.Attempt, At: timeOrNull(f.At), Error: f.Error, Stack: textOrNull(f.Stack)}
	}
	return all
}

// payloadJSON sets exactly one of the two.
func payloadJSON(payload []byte) (text, encoded *string) {
	if utf8.Valid(payload) {
		return new(string(payload)), nil
	}
	return nil, new(base64.StdEncoding.EncodeToString(payload))
}

// preview is the payload, without the part of a rune that shortening may have left at its end: that would make binary of
// any text.
func preview(j *queue.Job) []byte {
	p := j.Payload
	if len(p) >= j.PayloadSize {
		return p
	}
	for i := len(p) - 1; i >= 0 && i >= len(p)-utf8.UTFMax; i-- {
		if utf8.RuneStart(p[i]) {
			if !utf8.FullRune(p[i:]) {
				return p[:i]
			}
			break
		}
	}
	return p
}

func textOrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func timeOrNull(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	return new(t.Unix())
}

// clean is s for a terminal: as it is if all of it can be printed, and quoted otherwise, so that what is stored cannot
// move the cursor or forge a line.
func clean(s string) string {
	for _, r := range s {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return strconv.Quote(s)
		}
	}
	return s
}

// short is s for a cell of a table: one line of at most width runes.
func short(s string, width int) string {
	runes := []rune(clean(s))
	if len(runes) <= width {
		return string(runes)
	}
	return string(runes[:width-1]) + "…"
}

// payloadText is a payload for people.
func payloadText(p []byte) string {
	if utf8.Valid(p) {
		return clean(string(p))
	}
	return "base64:" + base64.StdEncoding.EncodeToString(p)
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// durationText writes whole seconds in the largest unit that fits, as they are written on the command line.
func durationText(d time.Duration) string {
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}} {
		if d >= u.unit && d%u.unit == 0 {
			return strconv.FormatInt(int64(d/u.unit), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(d/time.Second), 10) + "s"
}
