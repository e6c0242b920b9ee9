package house

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestPackageComments(t *testing.T) {
	documented := make(map[string]bool)
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		text := s.file.Doc.Text()
		documented[s.dir()] = documented[s.dir()] || text != ""
		want := []string{"Package " + s.file.Name.Name + " "}
		if s.file.Name.Name == "main" {
			name := path.Base(s.dir())
			want = []string{"Command " + name + " ", strings.ToUpper(name[:1]) + name[1:] + " "}
		}
		if text != "" && !slices.ContainsFunc(want, func(w string) bool { return strings.HasPrefix(text, w) }) {
			t.Errorf("%s: the package comment begins %.30q, want one of %q", s.name, text, want)
		}
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("%s has no package comment", dir)
		}
	}
}

// unwanted are texts that say something about where or how a file was written, and nothing to its reader. A line with
// one of the words is looked at with the expression, which would take too long for all of them.
var unwanted = []struct {
	what  string
	words []string
	match *regexp.Regexp
}{
	{
		"path of one machine",
		[]string{"/home/", "/root/", "/work/", "/Users/", "/var/folders/", "bash_jobs"},
		regexp.MustCompile(`(^|[^\w.~-])/(home|root|work|Users)/\w|/var/folders/|bash_jobs`),
	},
	{"module proxy", []string{"proxy.", "registry."}, regexp.MustCompile(`proxy\.golang\.org|registry\.npmjs\.org`)},
	{"unfinished", []string{"TODO", "FIXME", "XXX", "HACK"}, regexp.MustCompile(`\b(TODO|FIXME|XXX|HACK)\b`)},
	{"number of an issue", []string{"issue ", "Issue "}, regexp.MustCompile(`\b[iI]ssue #?\d`)},
}

func findUnwanted(line string) (found []string) {
	for _, u := range unwanted {
		if slices.ContainsFunc(u.words, func(w string) bool { return strings.Contains(line, w) }) &&
			u.match.MatchString(line) {
			found = append(found, u.what)
		}
	}
	return found
}

func TestNothingUnwantedIsWritten(t *testing.T) {
	tree(t, func(name string) {
		if name == "go.sum" || name == "internal/house/comments_test.go" {
			return
		}
		content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.ContainsRune(content, 0) {
			return // not a text
		}
		for i, line := range strings.Split(string(content), "\n") {
			for _, what := range findUnwanted(line) {
				t.Errorf("%s:%d: %s: %.120s", name, i+1, what, strings.TrimSpace(line))
			}
		}
	})
}

func TestUnwantedIsFound(t *testing.T) {
	for text, want := range map[string]string{
		"see /work/main/queue":      "path of one machine",
		"`/root/go/bin`":            "path of one machine",
		"// TODO: later":            "unfinished",
		"as issue 12 asks":          "number of an issue",
		"GET /queues/work/jobs":     "",
		"its own work/result":       "",
		"a hack, and a todo list":   "",
		"examples/root/file is one": "",
	} {
		if got := strings.Join(findUnwanted(text), ", "); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// link finds the targets of Markdown links, without those in code.
var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestLinksLeadSomewhere(t *testing.T) {
	for _, name := range documents(t) {
		text, _ := blocks(read(t, name))
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			switch {
			case strings.HasPrefix(m[1], "https://"), strings.HasPrefix(m[1], "mailto:"):
				continue
			case target == "":
				if !slices.Contains(anchors(text), anchor) {
					t.Errorf("%s: link to #%s, which is no heading of it", name, anchor)
				}
				continue
			case regexp.MustCompile(`^L\d`).MatchString(anchor):
				t.Errorf("%s: link to a line: %s", name, m[1])
			}
			file := path.Join(path.Dir(name), target)
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(file))); err != nil {
				t.Errorf("%s: link to %s: %v", name, m[1], err)
			} else if anchor != "" && !slices.Contains(anchors(read(t, file)), anchor) {
				t.Errorf("%s: link to %s: %s has no such heading", name, m[1], file)
			}
		}
	}
}

// anchors are the names by which the headings of a Markdown text can be linked to.
func anchors(text string) (names []string) {
	for line := range strings.Lines(text) {
		if heading := strings.TrimLeft(line, "#"); heading != line {
			name := regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
			names = append(names, strings.ReplaceAll(name, " ", "-"))
		}
	}
	return names
}
