// Package pgtest gives tests a PostgreSQL server.
//
// The server is the one that TEST_POSTGRES_DSN names, or else a private one in a temporary folder, started from the
// installed binaries when the first test asks for it and stopped when the last one has ended. Where neither is to be
// had, nothing that needs a server is tested, and the output says so; with ALKWORKER_REQUIRE_POSTGRES=1 that is a
// failure. Each test gets a schema of its own.
package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// The variables of the environment.
const (
	// DSNVariable names a server to use, as an address. Its user has to be allowed to create schemas.
	DSNVariable = "TEST_POSTGRES_DSN"
	// RequireVariable makes it a failure that there is no server.
	RequireVariable = "ALKWORKER_REQUIRE_POSTGRES"
)

// Main is what a TestMain runs instead of m: it stops the server at the end. With goleak:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Main(m)) }
func Main(m *testing.M) Tests { return Tests{m} }

// Tests are the tests of a package.
type Tests struct{ m *testing.M }

// Run runs them.
func (ts Tests) Run() int {
	defer shared.stop()
	return ts.m.Run()
}

// Database is a schema that nobody else uses.
type Database struct {
	URL    string // of the database, for connections of the test's own
	Schema string
}

// DSN is what the store is opened with.
func (d Database) DSN() string { return with(d.URL, "schema", d.Schema) }

// SearchPath is an address whose connections find the tables without naming the schema.
func (d Database) SearchPath() string { return with(d.URL, "search_path", d.Schema) }

func with(address, name, value string) string {
	separator := "?"
	if strings.Contains(address, "?") {
		separator = "&"
	}
	return address + separator + name + "=" + strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
}

// New returns a schema that does not exist yet and is dropped when the test ends. Without a server it is false, and the
// test has nothing to do.
func New(t testing.TB) (Database, bool) {
	t.Helper()
	address, err := shared.address()
	if err != nil {
		return Database{}, absent(t, err)
	}
	return in(t, address), true
}

// absent says why there is no server. It is false.
func absent(t testing.TB, err error) bool {
	t.Helper()
	text := fmt.Sprintf("PostgreSQL IS NOT TESTED: %v. Install the server (apt-get install postgresql, or the like), "+
		"or name one in %s.", err, DSNVariable)
	if os.Getenv(RequireVariable) == "1" {
		t.Fatal(text)
	}
	t.Log(text)
	_, _ = fmt.Fprintln(os.Stderr, text) // a log of a test that passes is shown to nobody
	return false
}

var counter struct {
	sync.Mutex
	n int
}

func in(t testing.TB, address string) Database {
	t.Helper()
	counter.Lock()
	counter.n++
	d := Database{URL: address, Schema: fmt.Sprintf("test_%d_%d_%d", os.Getpid(), time.Now().UnixNano()%1e9, counter.n)}
	counter.Unlock()
	t.Cleanup(func() {
		if err := drop(address, d.Schema); err != nil {
			t.Logf("schema %s stays: %v", d.Schema, err)
		}
	})
	return d
}

func drop(address, schema string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, "SET client_min_messages = warning; DROP SCHEMA IF EXISTS "+pgx.Identifier{schema}.Sanitize()+" CASCADE",
		pgx.QueryExecModeSimpleProtocol)
	return err
}

// shared is the server of this test binary.
var shared sharedServer

type sharedServer struct {
	once   sync.Once
	server *Server
	err    error
}

func (s *sharedServer) address() (string, error) {
	if dsn := os.Getenv(DSNVariable); dsn != "" {
		return dsn, nil
	}
	s.once.Do(func() { s.server, s.err = start() })
	if s.err != nil {
		return "", s.err
	}
	return s.server.URL, nil
}

func (s *sharedServer) stop() {
	if s.server != nil {
		s.server.stop()
	}
}
