package postgres_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/alkstore/alkworker/internal/sqlstore/postgres"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
)

// Every file is a statement that the server accepts on the newest schema, from a session that would not find the tables
// by itself, and the code uses it.
func TestStatementsPrepare(t *testing.T) {
	db, ok := pgtest.New(t)
	if !ok {
		return
	}
	s := open(t, db.DSN(), postgres.Options{})
	conn := must(pgx.Connect(t.Context(), db.URL))(t)
	defer func() { _ = conn.Close(t.Context()) }()
	code := sourceOf(t)
	for _, name := range s.Statements() {
		text, params := s.Text(name)
		if _, err := conn.Prepare(t.Context(), name, text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !regexp.MustCompile(`"` + name + `"`).MatchString(code) {
			t.Errorf("%s: no code uses it", name)
		}
		for _, p := range params {
			if p != "clock" && !strings.Contains(code, `"`+p+`"`) {
				t.Errorf("%s: no code gives it the parameter %s", name, p)
			}
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
