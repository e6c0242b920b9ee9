package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// TestLargePayloadsAreNotRead counts the pages that each statement looks at, among jobs with large payloads and among the
// same number of small ones. // K70
func TestLargePayloadsAreNotRead(t *testing.T) {
	const (
		crowd   = 50
		payload = 700_000 // bytes: 171 pages
		part    = 85      // pages: half of one payload
		buried  = 20
	)
	looks := slices.Concat(rounds, []struct {
		name string
		do   func(ctx context.Context, t *tx) error
	}{
		{"stats", func(ctx context.Context, t *tx) error { return t.query(ctx, "stats", ignore, sql.Named("now", t.now)) }},
		{"queues", func(ctx context.Context, t *tx) error { return t.query(ctx, "queues", ignore) }},
		{"list", func(ctx context.Context, t *tx) error {
			return t.query(ctx, "list", ignore, sql.Named("upto", 1<<60), sql.Named("queue", ""), sql.Named("state", ""),
				sql.Named("limit", crowd), sql.Named("window", window), sql.Named("payload_limit", 0))
		}},
		{"sweep_of_the_expired", func(ctx context.Context, t *tx) error {
			var deaths []death
			err := t.query(ctx, "sweep_expired", func(rows *sql.Rows) error {
				deaths = append(deaths, death{text: "expired"})
				return rows.Scan(&deaths[len(deaths)-1].id)
			}, sql.Named("queue", "q"), sql.Named("now", t.now+1000), sql.Named("limit", crowd))
			if err == nil && len(deaths) < buried {
				err = fmt.Errorf("%d jobs have expired, want %d", len(deaths), buried)
			}
			return cmp.Or(err, t.bury(ctx, deaths[:min(buried, len(deaths))]))
		}},
	})
	measure := func(t *testing.T, size int) map[string]int {
		s, err := Open(t.Context(), filepath.Join(t.TempDir(), "queue.db"), Options{Synchronous: "NORMAL"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		job := sqlstore.NewJob{
			Queue: "q", Payload: make([]byte, size), ExpiresS: new(int64(500)),
			Stamps: sqlstore.Stamps{VisibilityTimeoutS: 30, MaxAttempts: 5},
		}
		for range crowd {
			if _, err := s.Enqueue(t.Context(), []sqlstore.NewJob{job}); err != nil {
				t.Fatal(err)
			}
		}
		n := make(map[string]int)
		for _, look := range looks {
			n[look.name] = pages(t, s, look.do)
		}
		return n
	}
	small, large := measure(t, spillOver+1), measure(t, payload)
	for _, look := range looks {
		allowed := part
		switch look.name {
		case "claim_of_one":
			allowed += 2 * part
		case "claim_of_ten":
			allowed += 20 * part
		}
		t.Logf("%s: %d pages, %d among large payloads", look.name, small[look.name], large[look.name])
		if more := large[look.name] - small[look.name]; more > allowed {
			t.Errorf("%s looks at %d pages, want at most %d more than the %d among small payloads: it reads payloads that it does "+
				"not hand out", look.name, large[look.name], allowed, small[look.name])
		}
		if look.name == "claim_of_ten" && large[look.name] < 10*2*part {
			t.Errorf("a claim of ten looks at %d pages, fewer than its payloads have: the test shows nothing", large[look.name])
		}
	}
}

func ignore(*sql.Rows) error { return nil }
