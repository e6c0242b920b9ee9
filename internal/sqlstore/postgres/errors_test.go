package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
)

func TestErrorKinds(t *testing.T) {
	for code, want := range map[string]error{
		"08006": sqlstore.ErrUnavailable, // connection failure
		"08P01": sqlstore.ErrUnavailable,
		"57P01": sqlstore.ErrUnavailable, // an administrator stops the server
		"57P02": sqlstore.ErrUnavailable, // it crashed
		"57P03": sqlstore.ErrUnavailable, // it is starting
		"53300": sqlstore.ErrUnavailable, // too many connections
		"53200": sqlstore.ErrUnavailable, // out of memory
		"58030": sqlstore.ErrUnavailable, // I/O error
		"40001": sqlstore.ErrBusy,
		"40P01": sqlstore.ErrBusy,
		"55P03": sqlstore.ErrBusy,
		"57014": sqlstore.ErrBusy, // statement_timeout
		"53100": sqlstore.ErrFull,
		"2200H": sqlstore.ErrNoID, // a sequence at its end
		"25006": sqlstore.ErrReadOnly,
		"42501": sqlstore.ErrReadOnly,
		"22003": sqlstore.ErrTooLarge,
		"54000": sqlstore.ErrTooLarge,
		"XX001": sqlstore.ErrCorrupt,
		"23505": nil,
		"42P01": nil, // somebody dropped the tables
		"28P01": nil, // wrong password
		"P0001": nil,
	} {
		err := fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code})
		if got := postgres.Kind(err); got != want {
			t.Errorf("SQLSTATE %s: got %v, want %v", code, got, want)
		}
	}
	for _, err := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, pgconn.ErrConnClosed, &net.OpError{Err: errors.New("x")}} {
		if got := postgres.Kind(fmt.Errorf("wrapped: %w", err)); got != sqlstore.ErrUnavailable {
			t.Errorf("%v: got %v, want ErrUnavailable", err, got)
		}
	}
	if got := postgres.Kind(errors.New("else")); got != nil {
		t.Errorf("any other error: got %v, want none", got)
	}
}

func TestOpenRefuses(t *testing.T) {
	db, ok := pgtest.New(t)
	if !ok {
		return
	}
	with := func(parameters string) string { return db.URL + "&" + parameters }
	nobody := must(net.Listen("tcp", "127.0.0.1:0"))(t) // accepts and says nothing
	defer func() { _ = nobody.Close() }()
	for name, c := range map[string]struct {
		dsn  string
		o    postgres.Options
		kind error  // nil: none in particular
		text string // part of the error
	}{
		"K61_nobody_listens":           {"postgres://u:secret@127.0.0.1:1/d?sslmode=disable", postgres.Options{}, sqlstore.ErrUnavailable, "127.0.0.1:1"},
		"K61_nobody_answers":           {"postgres://u:secret@" + nobody.Addr().String() + "/d?sslmode=disable&connect_timeout=1", postgres.Options{}, sqlstore.ErrUnavailable, "127.0.0.1"},
		"K61_no_such_database":         {strings.Replace(db.URL, "/postgres?", "/missing?", 1), postgres.Options{}, nil, "missing"},
		"no_address":                   {"postgres://u:secret@127.0.0.1:port/d", postgres.Options{}, nil, "port"},
		"schema_with_a_quote":          {with(`schema=a"b`), postgres.Options{}, nil, "schema"},
		"schema_of_64_bytes":           {with("schema=" + strings.Repeat("x", 64)), postgres.Options{}, nil, "schema"},
		"no_schema_on_the_search_path": {with("search_path=missing"), postgres.Options{}, nil, "schema"},
		"a_negative_busy_timeout":      {db.DSN(), postgres.Options{BusyTimeout: -1}, nil, "busy timeout"},
		"transactions_that_are_read_only": {with("default_transaction_read_only=on&schema=" + db.Schema), postgres.Options{}, sqlstore.ErrReadOnly,
			"read-only"},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			s, err := postgres.Open(t.Context(), c.dsn, c.o)
			if err == nil {
				_ = s.Close()
				t.Fatal("got no error")
			}
			var typed *sqlstore.Error
			if !errors.As(err, &typed) || typed.Op == "" {
				t.Errorf("got a %T, want a *sqlstore.Error with its operation", err)
			}
			if c.kind != nil && !errors.Is(err, c.kind) {
				t.Errorf("got %v, want %v", err, c.kind)
			}
			if !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %q, want %q in it and no password", err, c.text)
			}
			if took := time.Since(began); took > 4*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
	t.Run("T4_nothing_was_touched", func(t *testing.T) {
		if n := value[int](t, pool(t, db), "SELECT count(*) FROM pg_namespace WHERE nspname = $1", db.Schema); n != 0 {
			t.Error("the schema was created")
		}
	})
	t.Run("a_cancelled_context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := postgres.Open(ctx, db.DSN(), postgres.Options{}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
	})
	t.Run("K88_a_database_that_cannot_encode_every_text", func(t *testing.T) {
		name := db.Schema + "_latin"
		conn := must(pgx.Connect(t.Context(), db.URL))(t)
		defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
		if _, err := conn.Exec(t.Context(), "CREATE DATABASE "+name+" TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			conn := must(pgx.Connect(context.Background(), db.URL))(t)
			_, err := conn.Exec(context.Background(), "DROP DATABASE "+name)
			if err := errors.Join(err, conn.Close(context.Background())); err != nil {
				t.Error(err)
			}
		})
		dsn := strings.Replace(db.URL, "/postgres?", "/"+name+"?", 1)
		if _, err := postgres.Open(t.Context(), dsn, postgres.Options{}); !errors.Is(err, sqlstore.ErrUnsupported) {
			t.Errorf("got %v, want ErrUnsupported", err)
		}
	})
}
