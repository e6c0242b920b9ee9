package exec

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTail(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 1024) // four times what is kept
	tests := []struct {
		name string
		in   string
		want string
	}{
		{"empty", "", ""},
		{"short", "no such file", "no such file"},
		{"trailing_white_space_is_dropped", "no such file \r\n\n", "no such file"},
		{"white_space_alone_is_nothing", " \n\t\n", ""},
		{"leading_white_space_stays", "\n  no such file", "\n  no such file"},
		{"exactly_the_limit", long[:tailSize], long[:tailSize]},
		{"one_over_the_limit", "x" + long[:tailSize], long[:tailSize]},
		{"the_end_counts", long + "the end", (long + "the end")[len(long)+7-tailSize:]},
		{"lines_are_kept", "a\nb\n", "a\nb"},

		{"invalid_bytes", "a\xff\xfeb", "a\uFFFDb"},
		{"NUL_is_valid", "a\x00b", "a\x00b"},
		{"rune_cut_at_its_end", "a\xe2\x82", "a\uFFFD"},
		{"rune_within_the_limit", "€" + long[:tailSize-3], "€" + long[:tailSize-3]},
		{"rune_cut_after_one_byte", "€" + long[:tailSize-2], long[:tailSize-2]},
		{"rune_cut_after_two_bytes", "€" + long[:tailSize-1], long[:tailSize-1]},
		{"rune_dropped_as_a_whole", "€" + long[:tailSize], long[:tailSize]},
		{"longest_rune_cut", "\U0001F600" + long[:tailSize-3], long[:tailSize-3]},
		{"nothing_dropped_nothing_forgiven", "\x82\xaca", "\uFFFDa"},
		{"only_one_rune_is_forgiven", "x" + strings.Repeat("\x80", tailSize), "\uFFFD"},
	}
	for _, tt := range tests {
		for _, size := range []int{1, 7, 1000, tailSize, 1 << 20} {
			t.Run(fmt.Sprintf("%s/%d", tt.name, size), func(t *testing.T) {
				var w tail
				for in := tt.in; in != ""; {
					n, err := w.Write([]byte(in[:min(size, len(in))]))
					if err != nil || n != min(size, len(in)) {
						t.Fatalf("write: got %d, %v", n, err)
					}
					in = in[n:]
				}
				got := w.text()
				if got != tt.want || !utf8.ValidString(got) {
					t.Errorf("got %d bytes %.40q, want %d bytes %.40q", len(got), got, len(tt.want), tt.want)
				}
				if len(w.buf) > 2*tailSize {
					t.Errorf("got %d bytes remembered, want at most %d", len(w.buf), 2*tailSize)
				}
			})
		}
	}
}
