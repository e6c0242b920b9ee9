package command

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/alkstore/alkworker/queue"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0s":        0,
		"90s":       90 * time.Second,
		"15m":       15 * time.Minute,
		"2h":        2 * time.Hour,
		"3d":        72 * time.Hour,
		"007s":      7 * time.Second,
		"106751d":   106751 * 24 * time.Hour,
		"31536000s": 365 * 24 * time.Hour,
	} {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("%q: got %v and error %v, want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                     "empty",
		"5":                    `has no unit: write 5s, 5m, 5h or 5d`,
		"0":                    "no unit",
		"-5s":                  "negative",
		"-5":                   "negative",
		"+5s":                  "whole number",
		"1.5h":                 "whole number",
		"1h30m":                "whole number",
		"10ms":                 "whole number",
		"5 s":                  "whole number",
		"5s ":                  "whole number",
		" 5s":                  "whole number",
		"5S":                   "whole number",
		"5w":                   "whole number",
		"s":                    "whole number",
		"m5":                   "whole number",
		"0x5s":                 "whole number",
		"5e3s":                 "whole number",
		"1_000s":               "whole number",
		"٣s":                   "whole number",
		"106752d":              "292 years",
		"9223372037s":          "292 years",
		"9999999999999999999s": "292 years",
	} {
		got, err := parseDuration(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v and error %v, want an error with %q", text, got, err, want)
		}
	}
}

func TestParseRetention(t *testing.T) {
	for text, want := range map[string]time.Duration{"forever": queue.KeepForever, "1s": time.Second, "7d": 168 * time.Hour} {
		if got, err := parseRetention(text); err != nil || time.Duration(got) != want {
			t.Errorf("%q: got %v and error %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"0s", "", "5", "-1s", "Forever", "never"} {
		if got, err := parseRetention(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

func TestParseTime(t *testing.T) {
	for text, want := range map[string]int64{
		"0":                         0,
		"1700000000":                1700000000,
		"253402300799":              maxUnix,
		"1970-01-01T00:00:00Z":      0,
		"2030-01-31T08:00:00Z":      1896076800,
		"2030-01-31T09:00:00+01:00": 1896076800,
		"9999-12-31T23:59:59Z":      maxUnix,
	} {
		if got, err := parseTime(text); err != nil || got.Unix() != want {
			t.Errorf("%q: got %v and error %v, want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                           "neither",
		"tomorrow":                   "neither",
		"2030-01-31":                 "neither",
		"2030-01-31 08:00:00":        "neither",
		"2030-01-31T08:00:00":        "neither",
		"2030-02-30T08:00:00Z":       "neither",
		"1.5":                        "neither",
		"-1":                         "years 1970 to 9999",
		"253402300800":               "years 1970 to 9999",
		"99999999999999999999999999": "years 1970 to 9999",
		"0001-01-01T00:00:00Z":       "years 1970 to 9999",
		"1969-12-31T23:59:59Z":       "years 1970 to 9999",
	} {
		if got, err := parseTime(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v and error %v, want an error with %q", text, got, err, want)
		}
	}
}

func TestParseInt(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "010": 10, "-5": -5, "+5": 5, "-9223372036854775808": math.MinInt64, "9223372036854775807": math.MaxInt64,
	} {
		if got, err := parseInt(text); err != nil || got != want {
			t.Errorf("%q: got %d and error %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "0x10", "1.0", "1e3", "1_000", " 1", "9223372036854775808"} {
		if got, err := parseInt(text); err == nil {
			t.Errorf("%q: got %d, want an error", text, got)
		}
	}
}

func TestDurationText(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0s": 0, "90s": 90 * time.Second, "15m": 15 * time.Minute, "2h": 2 * time.Hour, "25h": 25 * time.Hour, "3d": 72 * time.Hour,
	} {
		if got := durationText(d); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
}
