package scheduler

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func mustGrid(t testing.TB, spec string, base int64) grid {
	t.Helper()
	g, err := newGrid(spec, base)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestGridAfter(t *testing.T) {
	t.Parallel()
	const noon = 1_800_000_000     // any moment
	const longest = 106751 * 86400 // the longest interval in days
	for name, c := range map[string]struct {
		spec    string
		base, t int64
		want    int64
	}{
		"S3_the_base_itself_is_a_boundary_but_not_after_itself": {"@every 1h", noon, noon, noon + 3600},
		"S3_a_base_in_the_future_is_the_first_boundary":         {"@every 1h", noon, noon - 1, noon},
		"S3_the_grid_goes_on_before_a_base_in_the_future":       {"@every 1h", noon, noon - 3600, noon},
		"S3_well_before_a_base_in_the_future":                   {"@every 1h", noon, noon - 3601, noon - 3600},
		"S3_a_base_long_past_fixes_the_phase":                   {"@every 1d", 3 * 3600, noon, noon/86400*86400 + 27*3600},
		"S3_between_two_boundaries":                             {"@every 10s", 5, 1234, 1235},
		"S3_on_a_boundary_means_the_next_one":                   {"@every 10s", 5, 1235, 1245},
		"S3_before_1970":                                        {"@every 10s", 5, -7, -5},
		"S3_before_1970_on_a_boundary":                          {"@every 10s", 5, -5, 5},
		"S3_a_base_before_1970":                                 {"@every 10s", -3, 0, 7},
		"S3_every_second":                                       {"@every 1s", noon, 17, 18},
		"K84_the_last_second_of_9999":                           {"@every 1s", 0, lastSecond - 1, lastSecond},
		"K84_from_the_start":                                    {"@every 106751d", 0, firstSecond, -6 * longest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := mustGrid(t, c.spec, c.base).after(c.t)
			if got != c.want || !ok {
				t.Errorf("after(%d) on %s from %d = %d, %v, want %d, true", c.t, c.spec, c.base, got, ok, c.want)
			}
		})
	}

	t.Run("K84_a_boundary_past_the_year_9999_is_refused", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			spec    string
			base, t int64
		}{
			{"@every 1s", 0, lastSecond}, {"@every 1d", lastSecond, lastSecond}, {"@every 106751d", firstSecond, lastSecond - 1},
			{"@every 1s", 0, lastSecond + 1}, {"@every 1s", 0, math.MaxInt64}, {"@every 1s", 0, math.MinInt64},
		} {
			if got, ok := mustGrid(t, c.spec, c.base).after(c.t); ok {
				t.Errorf("after(%d) on %s from %d = %d, want none", c.t, c.spec, c.base, got)
			}
		}
	})

	t.Run("K84_a_base_outside_the_years_1_to_9999_is_refused", func(t *testing.T) {
		t.Parallel()
		for _, base := range []int64{firstSecond - 1, lastSecond + 1, math.MinInt64, math.MaxInt64} {
			if g, err := newGrid("@every 1h", base); err == nil {
				t.Errorf("newGrid from %d = %v, want an error", base, g)
			}
		}
	})

	t.Run("K83_daylight_saving_has_no_effect", func(t *testing.T) {
		t.Parallel()
		berlin, err := time.LoadLocation("Europe/Berlin")
		if err != nil {
			t.Fatal(err)
		}
		for _, change := range []time.Time{
			time.Date(2026, 3, 29, 3, 0, 0, 0, berlin),   // 02:00 to 03:00 do not exist
			time.Date(2026, 10, 25, 3, 0, 0, 0, berlin),  // 02:00 to 03:00 happen twice
			time.Date(2026, 10, 25, 12, 0, 0, 0, berlin), // after both
		} {
			before := change.Add(-48 * time.Hour)
			for _, spec := range []string{"@every 1d", "@every 1h", "@every 90m"} {
				g := mustGrid(t, spec, before.Unix())
				all, skipped := g.missed(before.Unix(), change.Add(48*time.Hour).Unix(), math.MaxInt64)
				if int64(len(all)) != 4*86400/g.every+1 || skipped != 0 {
					t.Errorf("%s around %v: %d boundaries, want %d", spec, change, len(all), 4*86400/g.every+1)
				}
				for i := 1; i < len(all); i++ {
					if d := all[i] - all[i-1]; d != g.every {
						t.Errorf("%s around %v: %d s between two boundaries, want %d", spec, change, d, g.every)
					}
				}
			}
		}
	})
}

func TestGridMissed(t *testing.T) {
	t.Parallel()
	const next = 1_800_000_000
	for _, every := range []string{"@every 1s", "@every 10s", "@every 1h", "@every 1d"} {
		for _, limit := range []int64{1, 2, 63, 64} {
			for _, count := range []int64{0, 1, 2, 63, 64, 65, 100_000} {
				for _, late := range []string{"on time", "as late as can be"} {
					t.Run(fmt.Sprintf("S5_%s_limit_%d_missed_%d_%s", every, limit, count, late), func(t *testing.T) {
						t.Parallel()
						g := mustGrid(t, every, next-7*86400)
						now := next + (count-1)*g.every
						if late != "on time" {
							now += g.every - 1
						}
						got, skipped := g.missed(next, now, limit)
						fired := min(count, limit)
						if int64(len(got)) != fired || skipped != count-fired {
							t.Fatalf("%d fired, %d skipped, want %d, %d", len(got), skipped, fired, count-fired)
						}
						for i, b := range got {
							if want := next + int64(i)*g.every; b != want {
								t.Errorf("boundary %d is %d, want %d: oldest first, without a gap", i, b, want)
							}
						}
						if after, ok := g.after(now); after != next+count*g.every || !ok {
							t.Errorf("next is %d, want %d", after, next+count*g.every)
						}
					})
				}
			}
		}
	}

	t.Run("K82_every_second_down_for_a_day", func(t *testing.T) {
		t.Parallel()
		got, skipped := mustGrid(t, "@every 1s", 12345).missed(next, next+86400, 64)
		if len(got) != 64 || got[0] != next || skipped != 86401-64 {
			t.Errorf("%d fired from %d, %d skipped, want 64 from %d, %d", len(got), got[0], skipped, next, 86401-64)
		}
	})

	t.Run("S5_ten_thousand_years_of_seconds_are_not_walked_through", func(t *testing.T) {
		t.Parallel()
		got, skipped := mustGrid(t, "@every 1s", 0).missed(math.MinInt64, lastSecond, 64)
		if want := lastSecond - firstSecond - 64; len(got) != 64 || skipped != want {
			t.Errorf("%d fired, %d skipped, want 64, %d", len(got), skipped, want)
		}
	})

	t.Run("S5_a_stored_time_off_the_grid_fires_only_boundaries", func(t *testing.T) {
		t.Parallel()
		g := mustGrid(t, "@every 10s", 0)
		for _, c := range []struct {
			from, now int64
			want      []int64
		}{
			{1001, 1009, nil},
			{1001, 1010, []int64{1010}},
			{991, 1010, []int64{1000, 1010}},
			{1000, 999, nil},
		} {
			if got, _ := g.missed(c.from, c.now, 64); !slices.Equal(got, c.want) {
				t.Errorf("missed(%d, %d) = %v, want %v", c.from, c.now, got, c.want)
			}
		}
	})

	t.Run("K84_absurd_stored_times", func(t *testing.T) {
		t.Parallel()
		g := mustGrid(t, "@every 106751d", lastSecond)
		for _, from := range []int64{
			math.MinInt64, math.MinInt64 + 1, firstSecond - 1, firstSecond, 0, lastSecond, math.MaxInt64,
		} {
			for _, now := range []int64{math.MinInt64, firstSecond, 0, next, lastSecond, math.MaxInt64} {
				got, skipped := g.missed(from, now, 64)
				if skipped < 0 || len(got) > 64 {
					t.Errorf("missed(%d, %d) = %v and %d skipped", from, now, got, skipped)
				}
				for _, b := range got {
					if b < from || b > now {
						t.Errorf("missed(%d, %d) has %d", from, now, b)
					}
				}
			}
		}
	})
}

// naive walks the grid from its base, one step at a time, in whichever direction.
func naive(g grid, from, now, limit int64) (boundaries []int64, skipped, next int64) {
	b := g.base
	for b >= from {
		b -= g.every
	}
	for b < from {
		b += g.every
	}
	for ; b <= now; b += g.every {
		if int64(len(boundaries)) < limit {
			boundaries = append(boundaries, b)
		} else {
			skipped++
		}
	}
	next = b
	for next-g.every > now {
		next -= g.every
	}
	return boundaries, skipped, next
}

func TestGridAgainstNaiveLoop(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := grid{base: rapid.Int64Range(-5000, 5000).Draw(t, "base"), every: rapid.Int64Range(1, 700).Draw(t, "every")}
		from := rapid.Int64Range(-5000, 5000).Draw(t, "from")
		now := rapid.Int64Range(-5000, 5000).Draw(t, "now")
		limit := rapid.Int64Range(1, 64).Draw(t, "limit")

		wantAll, wantSkipped, wantNext := naive(g, from, now, limit)
		all, skipped := g.missed(from, now, limit)
		next, ok := g.after(now)
		if !slices.Equal(all, wantAll) || skipped != wantSkipped || next != wantNext || !ok {
			t.Fatalf("got %v, %d skipped, next %d, %v, want %v, %d skipped, next %d",
				all, skipped, next, ok, wantAll, wantSkipped, wantNext)
		}
	})
}
