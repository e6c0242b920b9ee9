package postgres

import (
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgtype"

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

// number is a nullable integer that is read without an allocation.
type number struct {
	n     int64
	there bool
}

// ScanInt64 implements [pgtype.Int64Scanner].
func (n *number) ScanInt64(v pgtype.Int8) error {
	n.n, n.there = v.Int64, v.Valid
	return nil
}

// keep is the number as a row has it, in a place that outlives the next row.
func (n number) keep(in *int64) *int64 {
	if !n.there {
		return nil
	}
	*in = n.n
	return in
}

// provenRow reads the rows of claim_proven.sql one after the other. They leave out what is the same for all, and what
// follows from the rest.
type provenRow struct {
	queue, claimant string

	to                                                           []any
	now                                                          int64
	id, priority, runAt, attempts, maxAttempts, created, expires number
	visibility, backoff, retention, fence, scheduledFor          number
	payload                                                      []byte
	lastError, schedule                                          *string
}

func newProvenRow(queue, claimant string) *provenRow {
	p := &provenRow{queue: queue, claimant: claimant}
	p.to = []any{
		&p.now, &p.id, &p.payload, &p.priority, &p.runAt, &p.attempts, &p.maxAttempts, &p.created, &p.expires, &p.visibility,
		&p.backoff, &p.retention, &p.fence, &p.lastError, &p.schedule, &p.scheduledFor,
	}
	return p
}

// longestLease is what claim_proven.sql makes of a longer one.
const longestLease = 1_000_000_000_000

// next reads one more row.
func (p *provenRow) next(row scanner) (r sqlstore.Row, err error) {
	if err := row.Scan(p.to...); err != nil {
		return r, err
	}
	times := &struct{ claimed, deadline, expires, retention, scheduledFor int64 }{
		claimed: p.now, deadline: p.now + min(p.visibility.n, longestLease),
	}
	r = sqlstore.Row{
		ID: p.id.n, Queue: p.queue, State: sqlstore.Processing, Payload: p.payload, PayloadSize: int64(len(p.payload)),
		Priority: p.priority.n, RunAt: p.runAt.n, Claimant: p.claimant, ClaimedAt: &times.claimed,
		ClaimExpiresAt: &times.deadline, Attempts: p.attempts.n, CreatedAt: p.created.n,
		ExpiresAt: p.expires.keep(&times.expires), Fence: p.fence.n, LastError: p.lastError,
		ScheduledFor: p.scheduledFor.keep(&times.scheduledFor),
		Stamps: sqlstore.Stamps{
			VisibilityTimeoutS: p.visibility.n, MaxAttempts: p.maxAttempts.n, BackoffBaseS: p.backoff.n,
			DeadLetterRetentionS: p.retention.keep(&times.retention),
		},
	}
	if p.schedule != nil {
		r.Schedule = *p.schedule
	}
	return r, nil
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
