package command

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/alkstore/alkworker/queue"
)

func TestListenAddress(t *testing.T) {
	for addr, want := range map[string]string{
		":8080":          "127.0.0.1:8080",
		":0":             "127.0.0.1:0",
		"0.0.0.0:80":     "0.0.0.0:80",
		"localhost:8080": "localhost:8080",
		"[::1]:8080":     "[::1]:8080",
		"[::]:8080":      "[::]:8080",
	} {
		if got, err := listenAddress(addr); err != nil || got != want {
			t.Errorf("%q: got %q and error %v, want %q", addr, got, err, want)
		}
	}
	for _, addr := range []string{"", "8080", "localhost", ":", ":http", ":-1", ":65536", "::1:8080", "http://localhost:8080"} {
		if got, err := listenAddress(addr); err == nil {
			t.Errorf("%q: got %q, want an error", addr, got)
		}
	}
}

func TestHealthFollowsTheDatabase(t *testing.T) {
	client, err := queue.Open(t.Context(), filepath.Join(t.TempDir(), "jobs.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	h := healthHandler(client)
	look := func() (status int, body string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthz", nil))
		return w.Code, w.Body.String()
	}
	if status, body := look(); status != http.StatusOK || body != "ok\n" {
		t.Errorf("open: got %d and %q, want 200 and ok", status, body)
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	if status, body := look(); status != http.StatusServiceUnavailable || body == "ok\n" {
		t.Errorf("closed: got %d and %q, want 503", status, body)
	}
}
