package house

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The code blocks of the README are of these kinds; a block of no kind is an error:
//
//	first block             the two commands, as CI runs them
//	go                      stands word for word in the file that the comment above it names: <!-- from FILE -->
//	any, <!-- file NAME --> a file in the folder in which the shell blocks run
//	sh                      run by sh in one folder, from top to bottom; an error ends the test
//	text behind sh          what that prints, where … is any text and a line of only … any lines, and times are any times
const readme = "README.md"

// twoCommands are what somebody runs first.
const twoCommands = "go run ./examples/thumbnails\ngo test ./...\n"

func TestReadmeBeginsWithTwoCommands(t *testing.T) {
	_, all := blocks(read(t, readme))
	if len(all) == 0 || strings.TrimSpace(strip(all[0].code)) != strings.TrimSpace(twoCommands) {
		t.Fatalf("the first block of %s is not %q", readme, twoCommands)
	}
	for _, command := range strings.Split(strings.TrimSpace(twoCommands), "\n") {
		script := read(t, ".ci/run")
		// CI counts the tests, and takes no results from a cache.
		command = strings.ReplaceAll(command, "go test ./...", "go test -v -count=1 -timeout 20m ./...")
		if !strings.Contains(script, command) {
			t.Errorf(".ci/run does not run %q", command)
		}
	}
}

// strip removes the comments of shell commands.
func strip(code string) string { return regexp.MustCompile(`(?m)\s+# .*$`).ReplaceAllString(code, "") }

func TestReadmeGo(t *testing.T) {
	_, all := blocks(read(t, readme))
	found := 0
	for _, b := range all {
		if b.lang != "go" {
			continue
		}
		found++
		file, ok := strings.CutPrefix(b.note, "from ")
		if !ok {
			t.Errorf("%s:%d: no comment <!-- from FILE --> above it", readme, b.line)
			continue
		}
		if !strings.Contains(outdented(read(t, file)), outdented(b.code)) {
			t.Errorf("%s:%d: does not stand in %s like that:\n%s", readme, b.line, file, b.code)
		}
	}
	if found == 0 {
		t.Error("no Go blocks found")
	}
}

// outdented is code without indentation: how deep a part of a function stands is not what it says.
func outdented(code string) string { return regexp.MustCompile(`(?m)^\t+`).ReplaceAllString(code, "") }

func TestReadmeHasNoOtherBlocks(t *testing.T) {
	_, all := blocks(read(t, readme))
	for i, b := range all {
		known := []string{"go", "sh"}
		if i > 0 && all[i-1].lang == "sh" {
			known = append(known, "text")
		}
		if !slices.Contains(known, b.lang) && !strings.HasPrefix(b.note, "file ") {
			t.Errorf("%s:%d: a block of %q is tested by nothing", readme, b.line, b.lang)
		}
	}
}

// differs says how output differs from what a document shows, and "" if it does not.
func differs(got, shown string) string {
	for _, text := range []*string{&got, &shown} {
		*text = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`).ReplaceAllString(*text, "TIME")
		*text = regexp.MustCompile(`(?m) +$`).ReplaceAllString(*text, "")
	}
	pattern := regexp.QuoteMeta(shown)
	pattern = regexp.MustCompile(`(?m)^…\n`).ReplaceAllString(pattern, `(?s:.*\n)?`)
	pattern = strings.ReplaceAll(pattern, "…", ".*")
	if regexp.MustCompile(`^` + pattern + `$`).MatchString(got) {
		return ""
	}
	return fmt.Sprintf("got\n%s\nwant\n%s", got, shown)
}

func TestDiffers(t *testing.T) {
	for _, tc := range []struct {
		name, got, shown string
		want             bool
	}{
		{"same", "a\nb\n", "a\nb\n", false},
		{"other", "a\nc\n", "a\nb\n", true},
		{"more_at_the_end", "a\nb\nc\n", "a\nb\n", true},
		{"any_text", "took 12ms in all\n", "took … in all\n", false},
		{"any_text_is_one_line", "took\nin all\n", "took … in all\n", true},
		{"any_lines", "a\nb\nc\nd\n", "a\n…\nd\n", false},
		{"any_lines_may_be_none", "a\nd\n", "a\n…\nd\n", false},
		{"times", "at 2026-11-29T16:36:44Z\n", "at 2026-01-01T00:00:00Z\n", false},
		{"blanks_at_the_end", "a  \nb\n", "a\nb \n", false},
		{"pattern_is_literal", "axb\n", "a.b\n", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := differs(tc.got, tc.shown); (got != "") != tc.want {
				t.Errorf("got %q, want a difference: %v", got, tc.want)
			}
		})
	}
}
