package sqlite

import (
	"context"
	"database/sql"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// rows runs a statement that returns whole jobs and fetches the payloads that live outside their rows.
func (s *session) rows(ctx context.Context, name string, args ...any) ([]sqlstore.Row, error) {
	var found []sqlstore.Row
	var spilled []int
	err := s.query(ctx, name, func(rows *sql.Rows) error {
		r, out, err := scanRow(rows)
		if err != nil {
			return err
		}
		if out {
			spilled = append(spilled, len(found))
		}
		found = append(found, r)
		return nil
	}, args...)
	if err != nil {
		return nil, err
	}
	for _, i := range spilled {
		r := &found[i]
		if _, err := s.one(ctx, "payload", []any{&r.Payload}, sql.Named("id", r.ID)); err != nil {
			return nil, fail("read payload of", "", r.ID, err)
		}
	}
	return found, nil
}

// scanRow reads the columns that get_live.sql lists.
func scanRow(rows *sql.Rows) (r sqlstore.Row, spilled bool, err error) {
	var size, retention, claimedAt, claimExpiresAt, expiresAt, diedAt, scheduledFor integer
	var runAt, priority, attempts, createdAt, maxAttempts, visibility, backoff, fence, lapsedFence, out integer
	var claimant, lastError, schedule sql.NullString
	err = rows.Scan(&r.ID, &r.Queue, &r.State, &r.Payload, &size, &out, &priority, &runAt, &claimant, &claimedAt,
		&claimExpiresAt, &attempts, &maxAttempts, &createdAt, &expiresAt, &visibility, &backoff, &retention, &fence,
		&lapsedFence, &lastError, &diedAt, &schedule, &scheduledFor)
	if err != nil {
		return r, false, err
	}
	if r.Payload == nil {
		r.Payload = []byte{} // the driver reads an empty blob as nil
	}
	r.PayloadSize = int64(len(r.Payload))
	if size.known {
		r.PayloadSize = size.value
	}
	r.Priority, r.RunAt, r.CreatedAt = priority.value, runAt.value, createdAt.value
	r.Attempts, r.Fence, r.LapsedFence = attempts.value, fence.value, lapsedFence.value
	r.Stamps = sqlstore.Stamps{
		VisibilityTimeoutS: visibility.value, MaxAttempts: maxAttempts.value, BackoffBaseS: backoff.value,
		DeadLetterRetentionS: retention.pointer(),
	}
	r.ClaimedAt, r.ClaimExpiresAt = claimedAt.pointer(), claimExpiresAt.pointer()
	r.ExpiresAt, r.DiedAt, r.ScheduledFor = expiresAt.pointer(), diedAt.pointer(), scheduledFor.pointer()
	r.Claimant, r.Schedule = claimant.String, schedule.String
	if lastError.Valid {
		r.LastError = &lastError.String
	}
	return r, out.value != 0, nil
}

// integer reads an INTEGER column. SQLite keeps whatever a hand edit puts there, such as text; that reads as unset
// rather than failing, since one row that cannot be read would stop the claims of its whole queue (K3).
type integer struct {
	value int64
	known bool
}

// Scan implements sql.Scanner.
func (i *integer) Scan(v any) error {
	i.value, i.known = v.(int64)
	return nil
}

func (i *integer) pointer() *int64 {
	if !i.known {
		return nil
	}
	return &i.value
}
