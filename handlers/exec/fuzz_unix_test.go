//go:build unix

package exec

import (
	"slices"
	"testing"

	"github.com/kballard/go-shellquote"
)

// FuzzWords: a command is refused, or its words are those that a shell would see, of which the first is a program.
func FuzzWords(f *testing.F) {
	for _, command := range []string{
		"", " ", "true", "true 'a b' \"c\"", "true \\", "true '", `true "`, "true a\\ b", "true $HOME `x` *", "true \x00", "'' x",
		"true\nfalse", "true;false", "tr'u'e", "/bin/true", "no-such-program", "true \xff",
	} {
		f.Add(command)
	}
	f.Fuzz(func(t *testing.T, command string) {
		h, err := New(command, Options{})
		if err != nil {
			if h != nil || err.Error() == "" {
				t.Errorf("%q: got %v and %v", command, h, err)
			}
			return
		}
		words := h.(*program).words
		if len(words) == 0 || words[0] == "" {
			t.Fatalf("%q: no program in %q", command, words)
		}
		again, err := shellquote.Split(shellquote.Join(words...))
		if err != nil || !slices.Equal(again, words) {
			t.Errorf("%q: words %q are %q when written again, %v", command, words, again, err)
		}
	})
}
