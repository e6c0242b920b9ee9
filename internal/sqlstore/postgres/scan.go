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

// scanProven reads a row of claim_proven.sql, which leaves out what is the same for all; false if it has no job.
func scanProven(row scanner, saw *sight, r *sqlstore.Row) (there bool, err error) {
	var id, priority, runAt, attempts, maxAttempts, createdAt, visibility, backoff, fence *int64
	var schedule *string
	err = row.Scan(&saw.now, &saw.open, &saw.spent, &id, &r.Payload, &priority, &runAt, &r.ClaimExpiresAt, &attempts,
		&maxAttempts, &createdAt, &r.ExpiresAt, &visibility, &backoff, &r.Stamps.DeadLetterRetentionS, &fence, &r.LastError,
		&schedule, &r.ScheduledFor)
	if err != nil || id == nil {
		return false, err
	}
	r.ID, r.Priority, r.RunAt, r.CreatedAt, r.Attempts, r.Fence = *id, *priority, *runAt, *createdAt, *attempts, *fence
	r.Stamps.MaxAttempts, r.Stamps.VisibilityTimeoutS, r.Stamps.BackoffBaseS = *maxAttempts, *visibility, *backoff
	now := saw.now
	r.ClaimedAt = &now
	r.PayloadSize = int64(len(r.Payload))
	if schedule != nil {
		r.Schedule = *schedule
	}
	return true, nil
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
