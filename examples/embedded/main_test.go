package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alkstore/alkworker/queue"
)

// gate is a writer that hands over each line and lets the writer, and so its job, go on only when told.
type gate struct {
	lines chan string
	open  chan struct{}
}

func (g gate) Write(p []byte) (int, error) {
	g.lines <- string(p)
	<-g.open
	return len(p), nil
}

func request(t *testing.T, method, url, body string) (status int, header http.Header, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(b)
}

func TestRun(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	base := "http://" + listener.Addr().String()
	db := filepath.Join(t.TempDir(), "jobs.db")
	out := gate{lines: make(chan string), open: make(chan struct{})}
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { ended <- run(ctx, listener, db, out) }()

	if got, want := <-out.lines, "listening on "+base+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	out.open <- struct{}{}
	status, header, _ := request(t, http.MethodPost, base+"/greetings", "Grace Hopper\n")
	place := header.Get("Location")
	if status != http.StatusAccepted || place != "/greetings/1" {
		t.Fatalf("enqueue: got status %d and location %q, want 202 and /greetings/1", status, place)
	}
	if got, want := <-out.lines, "Hello, Grace Hopper!\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if status, _, state := request(t, http.MethodGet, base+place, ""); status != http.StatusOK || state != "processing\n" {
		t.Errorf("get: got status %d and %q, want 200 and processing", status, state)
	}
	for _, id := range []string{"one", "17"} {
		if status, _, _ := request(t, http.MethodGet, base+"/greetings/"+id, ""); status != http.StatusNotFound {
			t.Errorf("get of %s: got status %d, want 404", id, status)
		}
	}
	status, _, _ = request(t, http.MethodPost, base+"/greetings", strings.Repeat("x", 1001))
	if status != http.StatusBadRequest {
		t.Errorf("enqueue of too much: got status %d, want 400", status)
	}

	stop() // while the job runs
	select {
	case err := <-ended:
		t.Fatalf("run returned before its job was done: %v", err)
	case out.open <- struct{}{}:
	}
	if err := <-ended; err != nil {
		t.Errorf("run: %v", err)
	}
	if conn, err := net.Dial("tcp", listener.Addr().String()); err == nil {
		_ = conn.Close()
		t.Error("the port is still open after run has returned")
	}

	client, err := queue.Open(t.Context(), db, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if job, err := client.Get(t.Context(), 1); err != nil || job != nil {
		t.Errorf("the job is still there: %+v, %v", job, err)
	}
}
