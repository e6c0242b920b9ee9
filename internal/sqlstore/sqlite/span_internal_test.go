package sqlite

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

func TestSpans(t *testing.T) {
	for _, tt := range []struct {
		name string
		ids  []int64
		want []span
	}{
		{"none", nil, nil},
		{"one", []int64{7}, []span{{7, 7}}},
		{"neighbours", []int64{7, 8, 9}, []span{{7, 9}}},
		{"in_any_order", []int64{9, 7, 8}, []span{{7, 9}}},
		{"with_a_gap", []int64{7, 9, 10}, []span{{7, 7}, {9, 10}}},
		{"one_twice", []int64{7, 8, 8, 9}, []span{{7, 8}, {8, 9}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := spansOf(tt.ids); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// TestSpansAreExact claims and acks jobs of one queue that lie between those of another and between claims of others, more
// or less scattered: whichever statement does it, it changes these and none besides. // C4, H2
func TestSpansAreExact(t *testing.T) {
	ctx := context.Background()
	rapid.Check(t, func(r *rapid.T) {
		s, err := Open(ctx, filepath.Join(t.TempDir(), "queue.db"), Options{Synchronous: "NORMAL"})
		if err != nil {
			r.Fatal(err)
		}
		defer s.Close()
		stamps := sqlstore.Stamps{VisibilityTimeoutS: 60, MaxAttempts: 5, BackoffBaseS: 1}
		var ours []int64
		for range rapid.IntRange(1, 6).Draw(r, "runs") {
			for i, queue := range []string{"ours", "theirs"} {
				for range rapid.IntRange(0, 9-6*i).Draw(r, queue) {
					ids, err := s.Enqueue(ctx, []sqlstore.NewJob{{Queue: queue, Payload: []byte("{}"), Stamps: stamps}})
					if err != nil {
						r.Fatal(err)
					}
					if queue == "ours" {
						ours = append(ours, ids...)
					}
				}
			}
		}
		for _, id := range ours {
			if rapid.IntRange(0, 3).Draw(r, "gone") == 0 {
				if _, err := s.Cancel(ctx, []int64{id}); err != nil {
					r.Fatal(err)
				}
			}
		}
		left := func(state sqlstore.State) (ids []int64) {
			rows, err := s.ListJobs(ctx, sqlstore.Filter{State: state, Limit: 99})
			if err != nil {
				r.Fatal(err)
			}
			for _, row := range rows {
				ids = append(ids, row.ID)
			}
			slices.Sort(ids)
			return ids
		}
		pending := left(sqlstore.Pending)
		claimed, err := s.ClaimBatch(ctx, sqlstore.Claim{Queue: "ours", Claimant: "w", Limit: int64(rapid.IntRange(1, 50).Draw(r, "limit"))})
		if err != nil {
			r.Fatal(err)
		}
		var acks []sqlstore.Handle
		for _, row := range claimed {
			pending = slices.DeleteFunc(pending, func(id int64) bool { return id == row.ID })
			if rapid.IntRange(0, 4).Draw(r, "ack") > 0 {
				acks = append(acks, sqlstore.Handle{ID: row.ID, Fence: row.Fence})
			}
		}
		processing := left(sqlstore.Processing)
		if len(processing) != len(claimed) || !slices.Equal(left(sqlstore.Pending), pending) {
			r.Fatalf("claimed %d: %v are processing and %v pending, want %v", len(claimed), processing, left(sqlstore.Pending), pending)
		}
		done, err := s.AckBatch(ctx, acks)
		if err != nil || slices.Contains(done, false) {
			r.Fatalf("ack: %v, %v", done, err)
		}
		for _, h := range acks {
			processing = slices.DeleteFunc(processing, func(id int64) bool { return id == h.ID })
		}
		if got := left(sqlstore.Processing); !slices.Equal(got, processing) || !slices.Equal(left(sqlstore.Pending), pending) {
			r.Fatalf("acked %v: %v are processing and %v pending, want %v and %v", acks, got, left(sqlstore.Pending), processing, pending)
		}
	})
}
