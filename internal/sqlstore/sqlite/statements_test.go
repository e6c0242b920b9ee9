package sqlite

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every file is a statement that SQLite accepts on the newest schema, and the code uses it.
func TestStatementsPrepare(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "q.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	files, err := fs.Glob(statementFiles, "sql/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("found %d statements, error %v", len(files), err)
	}
	code := sourceOf(t)
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".sql")
		st, err := s.readers.PrepareContext(t.Context(), statement(name))
		if err != nil {
			t.Errorf("%s: %v", f, err)
			continue
		}
		if text := statement(name); strings.TrimRight(text, "; \n") != text {
			t.Errorf("%s: the text ends in %q, which makes the driver parse it for each call", f, text[len(text)-1:])
		}
		if err := st.Close(); err != nil {
			t.Errorf("%s: close: %v", f, err)
		}
		if !regexp.MustCompile(`"` + name + `"`).MatchString(code) {
			t.Errorf("%s: no code uses it", f)
		}
	}
}

func sourceOf(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(text)
	}
	return b.String()
}
