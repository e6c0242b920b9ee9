package sqlstore

import "context"

// LateReader is a store that can claim jobs first and read them later. Its claims follow one another, whoever makes them,
// so that what needs no turn should not take one.
type LateReader interface {
	Store

	// ClaimUnread is ClaimBatch, with the reading left to whoever has claimed.
	ClaimUnread(ctx context.Context, c Claim) (Unread, error)
}

// Unread is jobs that are claimed and that nobody may have read yet.
type Unread struct {
	N int // of them

	// Read hands them out in claim order, as ClaimBatch would have, all but those whose claims have ended since. It is to be
	// called once. If it fails, it has released the claims, or else they lapse.
	Read func(ctx context.Context) ([]Row, error)
}

// AtOnce is Unread for jobs that have been read.
func AtOnce(rows []Row) Unread {
	return Unread{N: len(rows), Read: func(context.Context) ([]Row, error) { return rows, nil }}
}
