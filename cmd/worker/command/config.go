package command

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/scheduler"
)

// config is a configuration file. Zero fields were not written.
type config struct {
	path        string
	db          string
	concurrency int
	drain       *time.Duration
	name        string
	http        string
	logLevel    string
	queues      []queueConfig    // ordered by name
	schedules   []scheduleConfig // ordered by name
	found       findings         // what is wrong with it
}

// queueConfig is one table [queues.NAME].
type queueConfig struct {
	name        string
	line        int
	exec        string
	execLine    int
	concurrency int
	timeout     time.Duration
	stamps      queue.Options
}

// scheduleConfig is one table [schedules.NAME]. Stamps of the schedule are those written in its table only.
type scheduleConfig struct {
	line     int
	schedule scheduler.Schedule
}

// loadConfig reads a file; nil is an empty one. What is wrong inside it is in found; the error, which stands for ExitUsage,
// is that it cannot be read at all or is no TOML.
func loadConfig(path *string) (*config, error) {
	if path == nil {
		return &config{}, nil
	}
	data, err := os.ReadFile(*path)
	if err != nil {
		return nil, usagef("configuration file: %w", err)
	}
	c, err := parseConfig(*path, data)
	if err != nil {
		return nil, usagef("%w", err)
	}
	return c, nil
}

// parseConfig is loadConfig after reading.
func parseConfig(path string, data []byte) (*config, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // which some editors put first
	var values map[string]any
	if err := toml.Unmarshal(data, &values); err != nil {
		return nil, syntaxError(path, err)
	}
	doc := &document{path: path, lines: keyLines(data)}

	root := doc.table(nil, values)
	c := &config{
		path:        path,
		db:          root.text("db"),
		concurrency: root.positive("concurrency"),
		drain:       root.duration("drain"),
		name:        root.text("name"),
		http:        root.text("http"),
		logLevel:    root.text("log_level"),
	}
	if c.name != "" {
		root.check("name", func() error { return validateWorkerName(c.name) })
	}
	if c.http != "" {
		root.check("http", func() error { _, err := listenAddress(c.http); return err })
	}
	if c.logLevel != "" {
		root.check("log_level", func() error { _, err := parseLevel(c.logLevel); return err })
	}
	queues, schedules := root.child("queues"), root.child("schedules")
	root.done()
	for _, name := range queues.names() {
		c.queues = append(c.queues, queues.child(name).queue(name))
	}
	for _, name := range schedules.names() {
		c.schedules = append(c.schedules, schedules.child(name).schedule(name))
	}
	c.found = doc.found
	return c, nil
}

func (t *section) queue(name string) queueConfig {
	q := queueConfig{
		name:        name,
		line:        t.line(""),
		exec:        t.text("exec"),
		execLine:    t.line("exec"),
		concurrency: t.positive("concurrency"),
	}
	if d := t.duration("timeout"); d != nil {
		if q.timeout = *d; *d == 0 {
			t.wrong("timeout", errors.New("must be at least 1s: leave it out for no limit"))
		}
	}
	q.stamps = t.stamps()
	t.check("", func() error { return queue.ValidateName(name) })
	t.done()
	return q
}

func (t *section) schedule(name string) scheduleConfig {
	s := scheduler.Schedule{Name: name, Queue: t.text("queue"), Payload: []byte(t.text("payload"))}
	every := t.text("every")
	t.require("every", "queue")
	if every != "" {
		t.check("every", func() (err error) { s.Spec, err = everySpec(every); return err })
	}
	if s.Queue != "" {
		t.check("queue", func() error { return queue.ValidateName(s.Queue) })
	}
	s.Anchor = t.time("anchor")
	s.CatchUp = t.positive("catch_up")
	if s.CatchUp > scheduler.MaxCatchUp {
		t.wrong("catch_up", fmt.Errorf("%d is not within 1 and %d", s.CatchUp, scheduler.MaxCatchUp))
	}
	s.Priority = t.number("priority")
	if d := t.duration("expires"); d != nil {
		if s.Expires = *d; *d == 0 {
			t.wrong("expires", errors.New("must be at least 1s: leave it out for never"))
		}
	}
	s.Stamps = t.stamps()
	t.check("", func() error { return queue.ValidateName(name) })
	t.done()
	return scheduleConfig{line: t.line(""), schedule: s}
}

// stamps reads the four options of a job, each checked by itself so that the error names its line.
func (t *section) stamps() queue.Options {
	var o queue.Options
	set := func(key string, written bool, one func() (queue.Options, error)) {
		if written {
			t.check(key, func() error {
				v, err := one()
				o = overridden(o, v)
				return err
			})
		}
	}
	visibility, backoff := t.duration("visibility_timeout"), t.duration("backoff_base")
	set("visibility_timeout", visibility != nil, func() (queue.Options, error) {
		return stampOptions(visibility, nil, nil, nil)
	})
	attempts := t.positive("max_attempts")
	set("max_attempts", attempts != 0, func() (queue.Options, error) { return stampOptions(nil, &attempts, nil, nil) })
	set("backoff_base", backoff != nil, func() (queue.Options, error) { return stampOptions(nil, nil, backoff, nil) })
	keep := t.text("dead_letter_retention")
	set("dead_letter_retention", keep != "", func() (queue.Options, error) {
		r, err := parseRetention(keep)
		if err != nil {
			return queue.Options{}, err
		}
		return stampOptions(nil, nil, nil, &r)
	})
	return o
}

// everySpec makes the spec of a schedule of what is written after --every or in a file: S2 without its first word.
func everySpec(every string) (string, error) {
	spec := "@every " + every
	if _, err := scheduler.Parse(spec); err != nil {
		var bad *scheduler.SpecError
		if errors.As(err, &bad) {
			return "", fmt.Errorf("interval %q: want a whole number above 0 and one of the units s, m, h and d, such as 15m", every)
		}
		return "", err
	}
	return spec, nil
}

// finding is one thing wrong with a configuration file.
type finding struct {
	path string
	line int // zero if it is about no line
	err  error
}

type findings []finding

// errors are the findings in the order of their lines.
func (f findings) errors() problems {
	f = slices.Clone(f)
	slices.SortStableFunc(f, func(a, b finding) int { return a.line - b.line })
	all := make(problems, len(f))
	for i, p := range f {
		all[i] = p.error()
	}
	return all
}

func (f finding) error() error {
	if f.line == 0 {
		return fmt.Errorf("%s: %w", f.path, f.err)
	}
	return fmt.Errorf("%s:%d: %w", f.path, f.line, f.err)
}

// sortedKeys are the keys of m in order.
func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

// keyText writes the path of a key as TOML does.
func keyText(path []string) string {
	parts := make([]string, len(path))
	for i, p := range path {
		if parts[i] = p; p == "" || strings.Trim(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
			parts[i] = fmt.Sprintf("%q", p)
		}
	}
	return strings.Join(parts, ".")
}
