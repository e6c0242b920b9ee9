package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// rowReader makes a job of one row of a statement, and says whether its payload lives outside the row.
type rowReader func(rows *sql.Rows) (r sqlstore.Row, spilled bool, err error)

// rows runs a statement that returns jobs, about so many, with their whole payloads.
func (s *session) rows(ctx context.Context, name string, read rowReader, n int, args ...any) ([]sqlstore.Row, error) {
	found := slices.Grow([]sqlstore.Row(nil), n)
	var spilled []int
	err := s.query(ctx, name, func(rows *sql.Rows) error {
		r, out, err := read(rows)
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
		r.PayloadSize = int64(len(r.Payload))
	}
	return found, nil
}

// wholeRows reads the columns that get_live.sql lists.
func wholeRows() rowReader {
	at := newRecord(24)
	return func(rows *sql.Rows) (r sqlstore.Row, spilled bool, err error) {
		if err := at.read(rows); err != nil {
			return r, false, err
		}
		r.ID, r.Queue, r.State, r.Payload = at.number(), at.text(), sqlstore.State(at.text()), at.bytes()
		r.PayloadSize = int64(len(r.Payload))
		if size := at.integer(); size.known {
			r.PayloadSize = size.value
		}
		spilled = at.number() != 0
		r.Priority, r.RunAt = at.number(), at.number()
		r.Claimant, r.ClaimedAt, r.ClaimExpiresAt = at.text(), at.pointer(), at.pointer()
		r.Attempts, r.Stamps.MaxAttempts = at.number(), at.number()
		r.CreatedAt, r.ExpiresAt = at.number(), at.pointer()
		r.Stamps.VisibilityTimeoutS, r.Stamps.BackoffBaseS, r.Stamps.DeadLetterRetentionS = at.number(), at.number(), at.pointer()
		r.Fence, r.LapsedFence, r.LastError, r.DiedAt = at.number(), at.number(), at.textPointer(), at.pointer()
		r.Schedule, r.ScheduledFor = at.text(), at.pointer()
		return r, spilled, nil
	}
}

// claimedRows reads the columns that claim_ready.sql lists. What all jobs of a claim have in common is not among them.
func claimedRows(queue, claimant string, now int64) rowReader {
	at := newRecord(18)
	return func(rows *sql.Rows) (r sqlstore.Row, spilled bool, err error) {
		if err := at.read(rows); err != nil {
			return r, false, err
		}
		r.Queue, r.State, r.Claimant, r.ClaimedAt = queue, sqlstore.Processing, claimant, &now
		r.ID, r.Payload, spilled = at.number(), at.bytes(), at.number() != 0
		r.PayloadSize = int64(len(r.Payload))
		r.Priority, r.RunAt, r.ClaimExpiresAt = at.number(), at.number(), at.pointer()
		r.Attempts, r.Stamps.MaxAttempts = at.number(), at.number()
		r.CreatedAt, r.ExpiresAt = at.number(), at.pointer()
		r.Stamps.VisibilityTimeoutS, r.Stamps.BackoffBaseS, r.Stamps.DeadLetterRetentionS = at.number(), at.number(), at.pointer()
		r.Fence, r.LapsedFence, r.LastError = at.number(), at.number(), at.textPointer()
		r.Schedule, r.ScheduledFor = at.text(), at.pointer()
		return r, spilled, nil
	}
}

// record is one row of a statement after the other, read column by column. It has one place for each column, where
// scanning into variables of their types would make all of them anew for each row.
type record struct {
	cells []any
	into  []any
	next  int
}

func newRecord(columns int) *record {
	r := &record{cells: make([]any, columns), into: make([]any, columns)}
	for i := range r.cells {
		r.into[i] = &r.cells[i]
	}
	return r
}

func (r *record) read(rows *sql.Rows) error {
	r.next = 0
	return rows.Scan(r.into...)
}

func (r *record) cell() any {
	r.next++
	return r.cells[r.next-1]
}

func (r *record) integer() integer { return integerOf(r.cell()) }

func (r *record) number() int64 { return r.integer().value }

func (r *record) pointer() *int64 { return r.integer().pointer() }

func (r *record) textPointer() *string {
	switch v := r.cell().(type) {
	case nil:
		return nil
	case string:
		return &v
	case []byte:
		text := string(v)
		return &text
	default:
		text := fmt.Sprint(v)
		return &text
	}
}

func (r *record) text() string {
	if text := r.textPointer(); text != nil {
		return *text
	}
	return ""
}

// bytes is never nil.
func (r *record) bytes() []byte {
	switch v := r.cell().(type) {
	case nil:
		return []byte{}
	case []byte:
		if v == nil {
			return []byte{} // the driver reads an empty blob like that
		}
		return v
	default:
		return fmt.Append([]byte{}, v)
	}
}

// integer reads an INTEGER column. SQLite keeps whatever a hand edit puts there, such as text; that reads as unset
// rather than failing, since one row that cannot be read would stop the claims of its whole queue (K3).
type integer struct {
	value int64
	known bool
}

func integerOf(cell any) (i integer) {
	i.value, i.known = cell.(int64)
	return i
}

// Scan implements sql.Scanner.
func (i *integer) Scan(v any) error {
	*i = integerOf(v)
	return nil
}

func (i integer) pointer() *int64 {
	if !i.known {
		return nil
	}
	value := i.value
	return &value
}
