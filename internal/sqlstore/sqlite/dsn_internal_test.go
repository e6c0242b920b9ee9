package sqlite

import (
	"net/url"
	"testing"

	"github.com/alkstore/alkworker/internal/sqlstore/sqlite/walvfs"
)

// Only the writer's connection has the layer: it alone adds to the WAL, and a caller's pool is the caller's.
func TestLayerOfTheWriter(t *testing.T) {
	for r, want := range map[role]string{setup: "", writing: walvfs.Name, keeper: "", reader: "", callers: ""} {
		u, err := url.Parse(dsn("some.db", Options{}, r))
		if err != nil {
			t.Fatal(err)
		}
		if got := u.Query().Get("vfs"); got != want {
			t.Errorf("role %d: vfs %q, want %q", r, got, want)
		}
	}
}
