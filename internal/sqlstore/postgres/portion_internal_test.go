package postgres

import "testing"

func TestPortions(t *testing.T) {
	var p portions
	limit := func(want int64) {
		t.Helper()
		if got := p.limit("q", 100); got != want {
			t.Errorf("limit of a claim of 100: got %d, want %d", got, want)
		}
	}
	limit(100)
	p.answered("q", 100)
	limit(100)
	for _, want := range []int64{50, 25, 12, 6, 3, 1, 1} {
		p.failed("q", p.limit("q", 100), 2)
		limit(want)
	}
	if got := p.limit("other", 100); got != 100 {
		t.Errorf("limit of another queue: got %d, want 100", got)
	}
	for _, want := range []int64{2, 4, 8, 16, 32, 64, 100} {
		p.answered("q", p.limit("q", 100))
		limit(want)
	}
	p.failed("q", 100, 8)
	limit(12)
	p.answered("q", 3) // a smaller claim says nothing about a larger one
	limit(12)
	p.answered("q", 12) // nor does one that wanted no more than it was allowed
	limit(24)
}
