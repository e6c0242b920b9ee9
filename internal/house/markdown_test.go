package house

import (
	"regexp"
	"strings"
	"testing"
)

// block is one fenced code block of a Markdown text.
type block struct {
	line int    // of its first line of code
	lang string // behind the opening fence
	note string // the HTML comment on the line above the fence, without its marks
	code string
}

var (
	fence   = regexp.MustCompile("^```(.*)$")
	comment = regexp.MustCompile(`^<!-- (.*) -->$`)
)

// blocks separates a Markdown text into its prose and its code.
func blocks(text string) (prose string, all []block) {
	var open *block
	var b strings.Builder
	note := ""
	for i, line := range strings.Split(text, "\n") {
		m := fence.FindStringSubmatch(line)
		switch {
		case open != nil && m != nil:
			all = append(all, *open)
			open = nil
		case open != nil:
			open.code += line + "\n"
		case m != nil:
			open = &block{line: i + 2, lang: strings.TrimSpace(m[1]), note: note}
		default:
			b.WriteString(regexp.MustCompile("`[^`]*`").ReplaceAllString(line, "``") + "\n")
		}
		note = ""
		if m := comment.FindStringSubmatch(line); m != nil {
			note = m[1]
		}
	}
	if open != nil {
		all = append(all, *open)
	}
	return b.String(), all
}

func TestBlocks(t *testing.T) {
	prose, all := blocks("a `[b](c)`\n<!-- from x.go -->\n```go\nf()\n\ng()\n```\nend\n```sh\nls\n```\n")
	if want := "a ``\n<!-- from x.go -->\nend\n\n"; prose != want {
		t.Errorf("got prose %q, want %q", prose, want)
	}
	want := []block{{4, "go", "from x.go", "f()\n\ng()\n"}, {10, "sh", "", "ls\n"}}
	if len(all) != len(want) || all[0] != want[0] || all[1] != want[1] {
		t.Errorf("got %+v, want %+v", all, want)
	}
}
