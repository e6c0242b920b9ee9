package sqlite

import (
	"context"
	"database/sql"
	"slices"
)

// span is a run of neighbouring ids, both ends included.
type span struct{ first, last int64 }

// spansOf takes ids apart into the fewest spans, in order. An id that is there twice is in two of them.
func spansOf(ids []int64) []span {
	var spans []span
	for _, id := range slices.Sorted(slices.Values(ids)) {
		if n := len(spans); n > 0 && spans[n-1].last+1 == id {
			spans[n-1].last = id
			continue
		}
		spans = append(spans, span{id, id})
	}
	return spans
}

// sparse is the length of spans, on average, below which a list is as good.
const sparse = 4

// each runs a statement about ids and counts the rows it changed: the one that takes a list, or the one that takes a span.
// Jobs that were enqueued together are neighbours, and often still together when they are claimed and acked. SQLite changes
// the rows of a span while it finds them, where it looks for those of a list twice: that is a third of an ack and a sixth of
// a claim.
func (t *tx) each(ctx context.Context, list, inSpan string, ids []int64, args ...any) (changed int64, err error) {
	spans := spansOf(ids)
	if len(ids) > 1 && len(ids) < sparse*len(spans) {
		return t.affected(ctx, list, append(args, sql.Named("ids", jsonOf(ids)))...)
	}
	for _, s := range spans {
		n, err := t.affected(ctx, inSpan, slices.Concat(args, []any{
			sql.Named("first", s.first), sql.Named("last", s.last),
		})...)
		if err != nil {
			return 0, err
		}
		changed += n
	}
	return changed, nil
}
