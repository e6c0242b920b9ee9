package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alkstore/alkworker/queue"
)

// FuzzParseConfig: a file is no TOML, or it is read, and what is wrong in it is told with the line.
func FuzzParseConfig(f *testing.F) {
	for _, text := range []string{
		"", "db = \"x\"", "db = 1", "unknown = 1", "[queues.a]\nexec = \"true\"\nconcurrency = 0", "[queues]\na = 1",
		"[queues.\"\"]", "[queues.\"a\\u0000\"]", "[schedules.s]\nevery = \"1h\"\nqueue = \"q\"", "[schedules.s]\nevery = \"1.5h\"",
		"drain = \"30s\"\nhttp = \":80\"\nlog_level = \"x\"", "a.b.c = 1", "[[queues]]", "queues = {a={exec='x'}}",
		"[queues.a]\nmax_attempts = 99999999999999999999", "[schedules.s]\nanchor = 1979-05-27T07:32:00Z", "\xff", "a = \"\"\"\nx",
		"[queues.a]\ndead_letter_retention = \"forever\"\nvisibility_timeout = \"-1s\"", "[queues.a]\r\nexec=''",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parseConfig("worker.toml", data)
		if err != nil {
			if !strings.Contains(err.Error(), "worker.toml") {
				t.Errorf("%q: the error does not name the file: %v", data, err)
			}
			return
		}
		lines := bytes.Count(data, []byte("\n")) + 1
		for _, p := range c.found {
			if p.line < 0 || p.line > lines || p.err == nil {
				t.Errorf("%q: finding on line %d of %d: %v", data, p.line, lines, p.err)
			}
		}
		if len(c.found) > 0 {
			return
		}
		for _, q := range c.queues {
			if err := queue.ValidateName(q.name); err != nil {
				t.Errorf("%q: accepts queue %q: %v", data, q.name, err)
			}
			if err := q.stamps.Validate(); err != nil {
				t.Errorf("%q: accepts stamps of %q: %v", data, q.name, err)
			}
		}
		for _, s := range c.schedules {
			if s.schedule.Queue == "" || s.schedule.Spec == "" {
				t.Errorf("%q: accepts schedule %+v", data, s.schedule)
			}
		}
	})
}

// FuzzParseDuration: what is accepted is a whole number of one unit, and nothing is rounded.
func FuzzParseDuration(f *testing.F) {
	for _, text := range []string{"", "0s", "90s", "15m", "3d", "5", "-5s", "1h30m", "1.5h", "106751d", "106752d", "٣s", "1 s", "+1s", "0x1s"} {
		f.Add(text)
	}
	units := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := parseDuration(text)
		if err != nil {
			return
		}
		unit := text[len(text)-1]
		digits := strings.TrimLeft(text[:len(text)-1], "0")
		if digits == "" {
			digits = "0"
		}
		if again := fmt.Sprint(int64(d / units[unit])); d < 0 || d%units[unit] != 0 || again != digits {
			t.Errorf("%q: got %v", text, d)
		}
	})
}

// FuzzParseTime: what is accepted is within the years that can be stored and written, and reads the same again.
func FuzzParseTime(f *testing.F) {
	for _, text := range []string{
		"", "0", "-1", "253402300799", "253402300800", "99999999999999999999", "2030-01-31T08:00:00Z", "2030-01-31T08:00:00.5+02:00",
		"0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59-01:00", "2030-02-30T00:00:00Z", "2030-01-31 08:00:00Z",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseTime(text)
		if err != nil {
			return
		}
		again, err := parseTime(got.UTC().Format(time.RFC3339))
		if err != nil || again.Unix() != got.Unix() {
			t.Errorf("%q: got %v, which reads %v again, %v", text, got, again, err)
		}
	})
}

// FuzzListAfter: any cursor is a page of older jobs, or wrong usage.
func FuzzListAfter(f *testing.F) {
	db := filepath.Join(f.TempDir(), "jobs.db")
	var out, errs bytes.Buffer
	run := func(ctx context.Context, args ...string) int {
		out.Reset()
		errs.Reset()
		return Run(ctx, nil, append([]string{"--db", db}, args...), nil, &out, &errs)
	}
	for range 5 {
		if status := run(f.Context(), "enqueue", "q", "x"); status != ExitDone {
			f.Fatal(errs.String())
		}
	}
	for _, cursor := range []string{"", "0", "1", "3", "5", "6", "-1", "9223372036854775807", "9223372036854775808", "1e3", "0x3", "03", "+3", " 3", "\x00", "--json"} {
		f.Add(cursor)
	}
	f.Fuzz(func(t *testing.T, cursor string) {
		status := run(t.Context(), "list", "--json", "--after="+cursor)
		switch {
		case status == ExitUsage && out.Len() == 0 && errs.Len() > 0:
			return
		case status != ExitDone:
			t.Fatalf("%q: status %d, %q, %q", cursor, status, out.String(), errs.String())
		}
		after, err := parseInt(cursor)
		if err != nil {
			t.Fatalf("%q: accepted, and is no number", cursor)
		}
		for last, lines := after, json.NewDecoder(&out); lines.More(); {
			var job struct{ ID int64 }
			if err := lines.Decode(&job); err != nil || job.ID >= last {
				t.Fatalf("%q: job %d after %d, %v", cursor, job.ID, last, err)
			}
			last = job.ID
		}
	})
}
