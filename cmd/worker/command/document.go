package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// document is a TOML file that is being taken apart. It gathers everything that is wrong, so that one run tells all.
type document struct {
	path  string
	lines map[string]int // by joined path of the key
	found findings
}

// section is one table of a document. Keys count as known once they were asked for; done reports the others.
type section struct {
	doc    *document
	path   []string
	values map[string]any
	known  []string
}

func (d *document) table(path []string, values map[string]any) *section {
	return &section{doc: d, path: path, values: values}
}

// syntaxError is what the TOML parser did not understand. It stops at the first error.
func syntaxError(path string, err error) error {
	f := finding{path: path, err: err}
	var at *toml.DecodeError
	if errors.As(err, &at) {
		f.line, _ = at.Position()
		f.err = errors.New(strings.TrimPrefix(at.Error(), "toml: "))
		if key := at.Key(); len(key) > 0 {
			f.err = fmt.Errorf("%s: %w", keyText(key), f.err)
		}
	}
	return f.error()
}

func (t *section) at(key string) []string {
	if key == "" {
		return t.path
	}
	return append(slices.Clone(t.path), key)
}

// line is where a key is written, or the section itself for an empty key; zero if it is not.
func (t *section) line(key string) int { return t.doc.lines[joined(t.at(key))] }

// wrong reports a problem with a key of the section, or with the section itself for an empty key.
func (t *section) wrong(key string, err error) {
	f := finding{path: t.doc.path, line: t.line(key), err: fmt.Errorf("%s: %w", keyText(t.at(key)), err)}
	if f.line == 0 {
		f.line = t.line("")
	}
	t.doc.found = append(t.doc.found, f)
}

func (t *section) check(key string, f func() error) {
	if err := f(); err != nil {
		t.wrong(key, err)
	}
}

func (t *section) has(key string) bool {
	_, ok := t.values[key]
	return ok
}

// value returns what is written for a key, and false if nothing is or if it is no T, which is reported.
func value[T any](t *section, key, want string) (v T, ok bool) {
	t.known = append(t.known, key)
	written, there := t.values[key]
	if !there {
		return v, false
	}
	if v, ok = written.(T); !ok {
		t.wrong(key, fmt.Errorf("must be %s", want))
	}
	return v, ok
}

// text is a string that is not empty.
func (t *section) text(key string) string {
	s, ok := value[string](t, key, "text in quotes")
	if ok && s == "" && key != "payload" {
		t.wrong(key, errors.New("is empty: leave it out instead"))
	}
	return s
}

// number is any whole number; zero if it is not written.
func (t *section) number(key string) int {
	n, _ := value[int64](t, key, "a whole number")
	if int64(int(n)) != n {
		t.wrong(key, fmt.Errorf("%d is out of range", n))
	}
	return int(n)
}

// positive is a whole number from 1; zero if it is not written.
func (t *section) positive(key string) int {
	n := t.number(key)
	if _, ok := t.values[key].(int64); ok && n <= 0 {
		t.wrong(key, fmt.Errorf("%d is not positive: leave it out for the default", n))
		return 0
	}
	return n
}

// duration is nil if it is not written, or written wrongly.
func (t *section) duration(key string) *time.Duration {
	s, ok := value[string](t, key, `a duration in quotes with a unit, such as "90s"`)
	if !ok {
		return nil
	}
	d, err := parseDuration(s)
	if err != nil {
		t.wrong(key, err)
		return nil
	}
	return &d
}

// time is a TOML date with time and offset, text that parseTime reads, or Unix seconds; zero if it is not written.
func (t *section) time(key string) time.Time {
	v, ok := value[any](t, key, "a time")
	if !ok {
		return time.Time{}
	}
	text := fmt.Sprint(v)
	if at, ok := v.(time.Time); ok {
		text = at.Format(time.RFC3339Nano)
	}
	at, err := parseTime(text)
	if err != nil {
		t.wrong(key, err)
	}
	return at
}

func (t *section) require(keys ...string) {
	if t.values == nil {
		return // no table at all, which is reported already
	}
	for _, key := range keys {
		if !t.has(key) {
			t.wrong("", fmt.Errorf("%s is missing", key))
		}
	}
}

// child is a table inside the section, empty if it is not written.
func (t *section) child(key string) *section {
	values, _ := value[map[string]any](t, key, "a table")
	return t.doc.table(t.at(key), values)
}

// names are the keys of a section whose keys are names that people choose.
func (t *section) names() []string { return sortedKeys(t.values) }

// done reports the keys that nobody asked for.
func (t *section) done() {
	for _, key := range sortedKeys(t.values) {
		if !slices.Contains(t.known, key) {
			known := slices.Sorted(slices.Values(t.known))
			t.wrong(key, fmt.Errorf("unknown key; known here are %s", strings.Join(known, ", ")))
		}
	}
}

func joined(path []string) string { return strings.Join(path, "\x00") }

// keyLines says on which line each key and table of a document is written. The decoder tells positions of errors only,
// and most of what can be wrong is found later. A table that is never written itself has the line of its first key.
func keyLines(data []byte) map[string]int {
	lines := make(map[string]int)
	var p unstable.Parser
	p.Reset(data)
	var prefix []string
	for p.NextExpression() {
		switch e := p.Expression(); e.Kind {
		case unstable.Table, unstable.ArrayTable:
			prefix = mark(&p, lines, nil, e)
			lines[joined(prefix)] = p.Shape(e.Child().Raw).Start.Line
		case unstable.KeyValue:
			markValue(&p, lines, prefix, e)
		}
	}
	return lines
}

func markValue(p *unstable.Parser, lines map[string]int, prefix []string, e *unstable.Node) {
	path := mark(p, lines, prefix, e)
	if v := e.Value(); v.Kind == unstable.InlineTable {
		for it := v.Children(); it.Next(); {
			markValue(p, lines, path, it.Node())
		}
	}
}

// mark notes the line of each part of a key that has none yet, and returns the whole path.
func mark(p *unstable.Parser, lines map[string]int, prefix []string, e *unstable.Node) []string {
	path := slices.Clone(prefix)
	for it := e.Key(); it.Next(); {
		path = append(path, string(it.Node().Data))
		if key := joined(path); lines[key] == 0 {
			lines[key] = p.Shape(it.Node().Raw).Start.Line
		}
	}
	return path
}
