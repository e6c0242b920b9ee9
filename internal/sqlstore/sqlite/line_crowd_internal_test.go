package sqlite

import "testing"

// TestCrowd is about who comes first where many come.
func TestCrowd(t *testing.T) {
	ordinaryCall := func() *call { return &call{size: 1} }
	// come has so many calls come while somebody leads or lets them come.
	come := func(t *testing.T, q *line, n int) (calls []*call) {
		t.Helper()
		for range n {
			calls = append(calls, ordinaryCall())
			if q.join(calls[len(calls)-1], ordinary) {
				t.Error("one that came later leads")
			}
		}
		return calls
	}
	for name, test := range map[string]struct {
		crowd int
		come  []int // at each turn
		turns int
		with  int
	}{
		"nobody_waits_for_few":    {company - 1, []int{1}, 0, 0},
		"until_no_more_come":      {64, []int{10, 5, 0, 1}, 3, 15},
		"until_all_have_come":     {16, []int{10, 5, 5}, 2, 15},
		"and_not_much_longer":     {64, []int{1, 1, 1, 1, 1, 1, 1}, turns, turns},
		"and_not_if_nobody_comes": {64, []int{0, 10}, 1, 0},
		"all_that_come_at_once":   {64, []int{100}, 1, 100},
	} {
		t.Run(name, func(t *testing.T) {
			var q line
			q.crowd = test.crowd
			turns := 0
			q.yield = func() {
				come(t, &q, test.come[turns])
				turns++
			}
			if !q.join(ordinaryCall(), ordinary) {
				t.Fatal("the first does not lead")
			}
			if got := len(q.gather(most, anybody)); turns != test.turns || got != test.with {
				t.Errorf("%d came along in %d turns, want %d in %d", got, turns, test.with, test.turns)
			}
		})
	}
	t.Run("it_fades", func(t *testing.T) {
		q := line{yield: func() {}}
		q.join(ordinaryCall(), ordinary)
		come(t, &q, 20)
		q.gather(most, anybody)
		q.handOver()
		for n := 21; n > 1; n-- {
			if q.crowd != n {
				t.Fatalf("a crowd of %d, want %d", q.crowd, n)
			}
			if !q.join(ordinaryCall(), ordinary) {
				t.Fatal("one that is alone does not lead")
			}
			q.handOver()
		}
	})
	t.Run("K6_what_is_urgent_goes_first_and_takes_them_along", func(t *testing.T) {
		q := line{crowd: 64}
		first := ordinaryCall()
		var later []*call
		q.yield = func() {
			if later != nil {
				return
			}
			if !q.join(&call{size: 1}, urgent) {
				t.Fatal("a heartbeat does not lead")
			}
			if got := q.gather(most, anybody); len(got) != 1 || got[0] != first {
				t.Errorf("the heartbeat took %d calls along, want the first", len(got))
			}
			later = come(t, &q, 2)
			q.handOver()
			if q.led {
				t.Error("somebody leads while others are let come")
			}
		}
		if q.join(first, ordinary) {
			t.Error("the first leads, which was taken along")
		}
		if !q.led || !later[0].leads || len(later[0].ready) != 1 {
			t.Error("the next of those who came does not lead")
		}
	})
	t.Run("and_whoever_is_not_taken_along_has_a_turn_after_it", func(t *testing.T) {
		q := line{crowd: 64}
		q.yield = func() { q.join(&call{size: 1}, urgent) }
		first := ordinaryCall()
		if q.join(first, ordinary) {
			t.Error("the first leads beside a heartbeat")
		}
		q.handOver()
		if !first.leads || len(first.ready) != 1 {
			t.Error("the first has no turn after the heartbeat")
		}
	})
}
