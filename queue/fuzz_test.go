package queue_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/alkstore/alkworker/queue"
)

// FuzzStored: any bytes as payload come back as they were, and any text of an error as a clean text, from a real file. E7
func FuzzStored(f *testing.F) {
	c, err := queue.Open(f.Context(), filepath.Join(f.TempDir(), "jobs.db"), &queue.Config{Synchronous: queue.Normal})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = c.Close() })
	q := queue.DefineRaw("q", queue.Options{})
	for _, payload := range []string{"", "\x00", "\xff\xfe", `{"a":1}`, strings.Repeat("x", 1024), strings.Repeat("\x00", 1025)} {
		for _, text := range []string{"", "boom", "a\x00b", "\xff\x80", "it's \"bad\"\u2028", strings.Repeat("€", 30_000)} {
			f.Add([]byte(payload), text, text)
		}
	}
	f.Fuzz(func(t *testing.T, payload []byte, text, stack string) {
		id, err := q.Enqueue(t.Context(), c, payload, nil)
		if err != nil {
			t.Fatal(err)
		}
		jobs, err := c.Claim(t.Context(), "q", "fuzz", 1)
		if err != nil || len(jobs) != 1 || jobs[0].ID != id || !bytes.Equal(jobs[0].Payload, payload) {
			t.Fatalf("claim: got %+v and %v, want job %d with payload %q", jobs, err, id, payload)
		}
		if ok, err := c.Fail(t.Context(), queue.Failed{Handle: jobs[0].Handle(), Err: text, Stack: stack}); err != nil || !ok[0] {
			t.Fatalf("fail: got %v, %v", ok, err)
		}
		job, err := c.Get(t.Context(), id)
		if err != nil || job == nil || !bytes.Equal(job.Payload, payload) || len(job.Failures) != 1 {
			t.Fatalf("get: got %+v, %v", job, err)
		}
		for _, got := range []string{job.LastError, job.Failures[0].Error, job.Failures[0].Stack} {
			if !utf8.ValidString(got) || strings.ContainsRune(got, 0) || len(got) > 64<<10 {
				t.Errorf("stored text is not clean: %q", got)
			}
		}
		if clean := utf8.ValidString(text) && !strings.ContainsRune(text, 0) && text != ""; clean && !strings.HasPrefix(text, job.LastError) {
			t.Errorf("a clean text was changed: got %q, want %q", job.LastError, text)
		}
		list, err := c.List(t.Context(), queue.Filter{Limit: 1})
		if err != nil || len(list) != 1 || !bytes.HasPrefix(payload, list[0].Payload) || list[0].PayloadSize != len(payload) {
			t.Errorf("list: got %+v, %v", list, err)
		}
		if gone, err := c.Purge(t.Context(), id); err != nil || !gone[0] {
			t.Errorf("purge: got %v, %v", gone, err)
		}
	})
}
