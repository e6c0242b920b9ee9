package scheduler

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour

	t.Run("S2_the_whole_grammar", func(t *testing.T) {
		t.Parallel()
		for spec, want := range map[string]time.Duration{
			"@every 1s":          time.Second,
			"@every 59s":         59 * time.Second,
			"@every 90s":         90 * time.Second,
			"@every 15m":         15 * time.Minute,
			"@every 1h":          time.Hour,
			"@every 25h":         25 * time.Hour,
			"@every 1d":          day,
			"@every 365d":        365 * day,
			"@every 1000000000s": 1_000_000_000 * time.Second,
			// The longest that each unit can say.
			"@every 9223372036s": 9223372036 * time.Second,
			"@every 153722867m":  153722867 * time.Minute,
			"@every 2562047h":    2562047 * time.Hour,
			"@every 106751d":     106751 * day,
		} {
			got, err := Parse(spec)
			if got != want || err != nil {
				t.Errorf("Parse(%q) = %v, %v, want %v, nil", spec, got, err, want)
			}
		}
	})

	t.Run("S2_K80_anything_else_is_an_error", func(t *testing.T) {
		t.Parallel()
		for _, spec := range []string{
			// K80
			"@every 1ms", "@every 0s", "@every -5s", "@every 1.5m", "@every 1h30m", "@every5s", "@EVERY 5s", "",
			"@every 5s ", "@every 9999999999999d",
			// Blanks and their kin.
			" @every 5s", "@every  5s", "@every\t5s", "@every 5 s", "@every 5s\n", "\n@every 5s",
			"@every 5s\x00", "@every\u00a05s",
			"@every 5s 5s", "@every ", "@every", "@every 5s;", "\ufeff@every 5s",
			// Numbers that other parsers take.
			"@every +5s", "@every 05s", "@every 00s", "@every 0d", "@every 0x5s", "@every 1e3s", "@every 1_000s", "@every 1,5m",
			"@every 5.s", "@every .5s", "@every \u0665s", "@every \uff15s", "@every infs", "@every nans",
			// Units that other parsers take.
			"@every 5", "@every s", "@every 5S", "@every 5M", "@every 5H", "@every 5D", "@every 5w", "@every 5y", "@every 5sec",
			"@every 5us", "@every 5ns", "@every 5µs", "@every 5ss", "@every 5sm", "@every 5min",
			// Other forms.
			"5s", "1h", "every 5s", "@Every 5s", "@hourly", "@daily", "@weekly", "@reboot", "* * * * *", "0 3 * * *",
			"@at 5s", "R/PT5S", "PT5S", "@every 5s@every 5s",
			// One more than the longest that each unit can say, and what wraps an int64 or a uint64.
			"@every 9223372037s", "@every 153722868m", "@every 2562048h", "@every 106752d",
			"@every 9223372036854775807s", "@every 9223372036854775808s", "@every 18446744073709551617s",
			"@every 213503982334602d", "@every " + strings.Repeat("9", 1000) + "s",
			"@every 5s\xff", "\xff",
		} {
			got, err := Parse(spec)
			var se *SpecError
			if got != 0 || !errors.As(err, &se) || se.Spec != spec || se.Reason == "" || se.Schedule != "" {
				t.Errorf("Parse(%q) = %v, %#v, want 0 and a SpecError with spec and reason", spec, got, err)
			}
		}
	})
}

func TestSpecError(t *testing.T) {
	t.Parallel()
	_, err := Parse("@every 0s")
	want := `spec "@every 0s": the number must be positive and have no leading zero`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	named := &SpecError{Schedule: "nightly", Spec: "x", Reason: "why"}
	if got, want := named.Error(), `schedule "nightly": spec "x": why`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	_, err = Parse(strings.Repeat("x", 1<<20))
	if err == nil || len(err.Error()) > 200 {
		t.Errorf("a spec of 1 MiB makes an error of %d bytes, want it shortened", len(fmt.Sprint(err)))
	}
}

// FuzzParse: what Parse accepts is exactly what it would itself write, so there is no second way to say an interval's
// number.
func FuzzParse(f *testing.F) {
	for _, spec := range []string{
		"@every 1s", "@every 15m", "@every 24h", "@every 106751d", "@every 106752d", "@every 0s", "@every 01s",
		"@every 1ms", "@every -5s", "@every 1.5m", "@every 1h30m", "@every5s", "@EVERY 5s", "", "@every 5s ",
		"@every 9999999999999d", "5s", "@every 5s\n", "@every \u0665s",
	} {
		f.Add(spec)
	}
	units := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}
	f.Fuzz(func(t *testing.T, spec string) {
		got, err := Parse(spec)
		if err != nil {
			var se *SpecError
			if !errors.As(err, &se) || got != 0 {
				t.Fatalf("Parse(%q) = %v, %#v, want 0 and a SpecError", spec, got, err)
			}
			return
		}
		if got < time.Second || got%time.Second != 0 {
			t.Fatalf("Parse(%q) = %v, want a positive number of whole seconds", spec, got)
		}
		unit := spec[len(spec)-1]
		if again := fmt.Sprintf("@every %d%c", got/units[unit], unit); again != spec {
			t.Fatalf("Parse accepts %q, which reads %q when written again", spec, again)
		}
	})
}
