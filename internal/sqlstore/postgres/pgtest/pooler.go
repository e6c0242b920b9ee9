package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// NewPooler starts PgBouncer in transaction mode before the server, with as many connections to it as given, and returns
// the address that leads through it. False if it is not installed: the test has nothing to do.
func (s *Server) NewPooler(t testing.TB, connections int) (address string, ok bool) {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer" // not on the path of an ordinary user
	}
	if _, err := os.Stat(program); err != nil {
		return "", absent(t, fmt.Errorf("PgBouncer is not installed: %w", err))
	}
	port, err := freePort(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	users := filepath.Join(s.dir, "users.txt")
	config := filepath.Join(s.dir, "pgbouncer.ini")
	text := fmt.Sprintf(`[databases]
postgres = host=%s port=%d
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = trust
auth_file = %s
pool_mode = transaction
max_client_conn = 1000
default_pool_size = %d
logfile = %s
`, s.dir, s.Port, port, users, connections, filepath.Join(s.dir, "pgbouncer.log"))
	for name, content := range map[string]string{users: `"postgres" ""` + "\n", config: text} {
		err := errors.Join(os.WriteFile(name, []byte(content), 0o600), s.owner.own(name))
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, config)
	cmd.Dir = s.dir
	cmd.SysProcAttr = s.owner.attributes()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	address = fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)
	ctx, cancel := context.WithTimeout(t.Context(), startup)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, address)
		if err == nil {
			_ = conn.Close(ctx)
			return address, true
		}
		select {
		case <-ctx.Done():
			t.Fatalf("PgBouncer does not answer: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Through is the same schema by another address.
func (d Database) Through(address string) Database { return Database{URL: address, Schema: d.Schema} }
