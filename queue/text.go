package queue

import (
	"strings"
	"unicode/utf8"
)

// The error texts that the engine itself writes. // H7
const (
	TextFailed      = "failed"                // a failed attempt without a text of its own
	TextMaxAttempts = "max attempts exceeded" // a spent budget
	TextExpired     = "expired"               // swept past its expiry
	TextLeaseLapsed = "lease lapsed"          // in the history: a claim that ended without a word
)

// The limits of stored texts, in bytes.
const (
	maxErrorText = 64 << 10
	maxStackText = 32 << 10
)

func errorText(s, none string) string {
	if s == "" {
		return none
	}
	return cleanText(s, maxErrorText)
}

func stackText(s string) string { return cleanText(s, maxStackText) }

// cleanText makes of any string one that every database takes: valid UTF-8, no NUL, at most limit bytes. // K88
func cleanText(s string, limit int) string {
	s = cutText(s, limit) // first, so that a text of a gigabyte costs no second one
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	s = strings.ReplaceAll(s, "\x00", string(utf8.RuneError))
	return cutText(s, limit) // again: a replacement is longer than what it replaces
}

// cutText shortens s to at most limit bytes without splitting a rune.
func cutText(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for i := limit; i >= 0 && i > limit-utf8.UTFMax; i-- {
		if utf8.RuneStart(s[i]) {
			return s[:i]
		}
	}
	return s[:limit] // not UTF-8 at all
}
