package queue

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCleanText(t *testing.T) {
	tests := []struct {
		name, in string
		limit    int
		want     string
	}{
		{"empty", "", 10, ""},
		{"plain", "plain", 10, "plain"},
		{"at_the_limit", "0123456789", 10, "0123456789"},
		{"over_the_limit", "0123456789a", 10, "0123456789"},
		{"K88_nul", "a\x00b", 10, "a\uFFFDb"},
		{"K88_invalid", "a\xff\xfeb", 10, "a\uFFFDb"},
		{"cut_before_a_rune", "abc€", 5, "abc"},
		{"cut_after_a_rune", "abc€d", 6, "abc€"},
		{"cut_in_four_bytes", "ab\U0001F4EE", 5, "ab"},
		{"replacements_grow_past_the_limit", "a\x00\x00\x00", 5, "a\uFFFD"},
		{"nothing_but_continuation_bytes", strings.Repeat("\x80", 9), 8, "\uFFFD"},
		{"limit_below_a_rune", "€€", 2, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := cleanText(tt.in, tt.limit); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func FuzzCleanText(f *testing.F) {
	for _, s := range []string{"", "a\x00b", "\xff\x80", "€€€", "\U0001F4EE"} {
		for _, limit := range []int{1, 4, 9} {
			f.Add(s, limit)
		}
	}
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = max(limit, 1)
		got := cleanText(s, limit)
		if len(got) > limit || !utf8.ValidString(got) || strings.ContainsRune(got, 0) {
			t.Errorf("got %q for %q and limit %d", got, s, limit)
		}
		clean := utf8.ValidString(s) && !strings.ContainsRune(s, 0)
		if clean && !strings.HasPrefix(s, got) || clean && len(s) <= limit && got != s {
			t.Errorf("a clean text was changed: got %q for %q", got, s)
		}
		if again := cleanText(got, limit); again != got {
			t.Errorf("not stable: %q, then %q", got, again)
		}
	})
}
