package exec

import (
	"strings"
	"unicode/utf8"
)

// tailSize is how many bytes at the end of standard error are kept.
const tailSize = 4 << 10

// tail is a writer that remembers the last tailSize bytes.
type tail struct {
	buf     []byte // at most twice as many, so that short writes do not move it each time
	dropped bool
}

func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	if len(p) > tailSize {
		p = p[len(p)-tailSize:]
		t.dropped = true
	}
	if len(t.buf)+len(p) > 2*tailSize {
		t.shorten()
	}
	t.buf = append(t.buf, p...)
	return n, nil
}

// shorten drops all but the last tailSize bytes.
func (t *tail) shorten() {
	if over := len(t.buf) - tailSize; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
		t.dropped = true
	}
}

// text returns the tail as valid UTF-8 without white space at its end.
func (t *tail) text() string {
	t.shorten()
	b := t.buf
	if t.dropped {
		// The rest of a rune whose beginning is dropped is not worth a replacement character.
		for range utf8.UTFMax - 1 {
			if len(b) > 0 && !utf8.RuneStart(b[0]) {
				b = b[1:]
			}
		}
	}
	return strings.TrimRight(strings.ToValidUTF8(string(b), "\uFFFD"), " \t\r\n")
}
