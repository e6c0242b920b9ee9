package postgres

import (
	"strings"
	"unicode/utf8"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// collect appends each row of a statement that returns whole jobs.
func collect(to *[]sqlstore.Row) func(row scanner) error {
	return func(row scanner) error {
		r, err := scanRow(row)
		*to = append(*to, r)
		return err
	}
}

// scanRow reads the columns that get.sql begins with, and what comes after them.
func scanRow(row scanner, more ...any) (r sqlstore.Row, err error) {
	var claimant, schedule *string
	err = row.Scan(append([]any{
		&r.ID, &r.Queue, (*string)(&r.State), &r.Payload, &r.PayloadSize, &r.Priority, &r.RunAt, &claimant, &r.ClaimedAt,
		&r.ClaimExpiresAt, &r.Attempts, &r.Stamps.MaxAttempts, &r.CreatedAt, &r.ExpiresAt, &r.Stamps.VisibilityTimeoutS,
		&r.Stamps.BackoffBaseS, &r.Stamps.DeadLetterRetentionS, &r.Fence, &r.LapsedFence, &r.LastError, &r.DiedAt,
		&schedule, &r.ScheduledFor,
	}, more...)...)
	if r.Payload == nil {
		r.Payload = []byte{}
	}
	if claimant != nil {
		r.Claimant = *claimant
	}
	if schedule != nil {
		r.Schedule = *schedule
	}
	return r, err
}

// cleaned is a text as the server takes it: it refuses NUL and what is not UTF-8, and a text must never stand in the way of
// a change of state (K88).
func cleaned(text string) string {
	if utf8.ValidString(text) && strings.IndexByte(text, 0) < 0 {
		return text
	}
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	return strings.ReplaceAll(text, "\x00", string(utf8.RuneError))
}
