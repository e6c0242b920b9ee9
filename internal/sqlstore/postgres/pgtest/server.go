package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/semver"
)

// Server is a private server.
type Server struct {
	URL  string // of its database, over a socket in the file system
	Port int    // on the loopback interface, for what stands in between

	settings []string

	bin    string // folder of the programs
	dir    string
	owner  *owner
	reaper *exec.Cmd // ends the server and removes its folder when this process has gone, however it went
	leash  io.Closer // held by this process; its end is what the reaper waits for
	main   *exec.Cmd
	exited chan struct{} // closed when main has ended
}

// NewServer starts a server for one test, which may kill it. False if there are no binaries: the test has nothing to do.
func NewServer(t testing.TB, settings ...string) (*Server, bool) {
	t.Helper()
	s, err := start(settings...)
	if err != nil {
		return nil, absent(t, err)
	}
	t.Cleanup(s.stop)
	return s, true
}

// New is the function of that name on this server.
func (s *Server) New(t testing.TB) Database { return in(t, s.URL) }

// TCP is the address of the server over the network.
func (s *Server) TCP() string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", s.Port)
}

// startup is how long a server may take to answer.
const startup = time.Minute

func start(settings ...string) (_ *Server, err error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pgtest-*")
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, dir: dir}
	defer func() {
		if err != nil {
			s.stop()
			_ = os.RemoveAll(dir)
		}
	}()
	if s.owner, err = unprivileged(); err != nil {
		return nil, err
	}
	if err := s.owner.own(dir); err != nil {
		return nil, err
	}
	if err := s.guard(); err != nil {
		return nil, err
	}
	initdb := s.command("initdb", "--pgdata="+s.data(), "--auth=trust", "--username=postgres", "--encoding=UTF8",
		"--locale=C", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	// A crash of the machine may cost this server its data; one of the server does not.
	s.settings = append([]string{"fsync=off", "full_page_writes=off", "max_connections=300", "shared_buffers=128MB"}, settings...)
	err = s.launch()
	return s, err
}

// launch starts the server for the first time.
func (s *Server) launch() (err error) {
	for range 3 { // the port may be taken by the time the server wants it
		if s.Port, err = freePort(context.Background()); err != nil {
			return err
		}
		s.URL = fmt.Sprintf("postgres:///postgres?host=%s&port=%d&user=postgres", s.dir, s.Port)
		if err = s.configure(s.settings); err == nil {
			if err = s.Start(); err == nil {
				return nil
			}
		}
	}
	return err
}

// NewStandby starts a server that follows this one and can be read.
func (s *Server) NewStandby(t testing.TB) *Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "pgtest-*") //nolint:usetesting // like that of every server: TempDir has no room for a socket's name
	if err != nil {
		t.Fatal(err)
	}
	b := &Server{bin: s.bin, dir: dir, owner: s.owner}
	if err := errors.Join(b.owner.own(dir), b.guard()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.stop)
	backup := b.command("pg_basebackup", "--pgdata="+b.data(), "--write-recovery-conf", "--checkpoint=fast", "--no-sync",
		"--host="+s.dir, fmt.Sprint("--port=", s.Port), "--username=postgres")
	if out, err := backup.CombinedOutput(); err != nil {
		t.Fatalf("pg_basebackup: %v: %s", err, out)
	}
	b.settings = append(slices.Clone(s.settings), fmt.Sprintf("primary_conninfo='host=%s port=%d user=postgres'", s.dir, s.Port))
	if err := b.launch(); err != nil {
		t.Fatal(err)
	}
	return b
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) command(program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), filepath.Join(s.bin, program), args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = s.owner.attributes()
	return cmd
}

// guard starts the reaper: a shell that outlives this process by a moment.
func (s *Server) guard() error {
	const script = `cat >/dev/null
kill -QUIT "$(head -n 1 "$1/data/postmaster.pid")" 2>/dev/null
n=0
while [ -e "$1/data/postmaster.pid" ] && [ $n -lt 100 ]; do sleep 0.1; n=$((n + 1)); done
rm -rf "$1"`
	s.reaper = exec.CommandContext(context.Background(), "/bin/sh", "-c", script, "reaper", s.dir)
	s.reaper.Dir = "/"
	s.reaper.SysProcAttr = s.owner.attributes()
	leash, err := s.reaper.StdinPipe()
	if err != nil {
		return err
	}
	s.leash = leash
	return s.reaper.Start()
}

func (s *Server) configure(settings []string) error {
	lines := append(slices.Clone(settings), fmt.Sprint("port=", s.Port), "listen_addresses='127.0.0.1'",
		"unix_socket_directories='"+s.dir+"'")
	name := filepath.Join(s.data(), "postgresql.auto.conf")
	return os.WriteFile(name, []byte(strings.Join(lines, "\n")+"\n"), 0o600) // it exists, so it keeps its owner
}

// Start starts a server that was killed, and returns when it answers.
func (s *Server) Start() error {
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the server has it by then
	deadline := time.After(startup)
	for {
		s.main = s.command("postgres", "-D", s.data())
		s.main.Stdout, s.main.Stderr = log, log
		if err := s.main.Start(); err != nil {
			return err
		}
		exited := make(chan struct{})
		s.exited = exited
		go func(main *exec.Cmd) {
			_ = main.Wait() // how it ended is in the log
			close(exited)
		}(s.main)
		if s.answers(exited) {
			return nil
		}
		// Killed servers leave children that hold the shared memory until they notice.
		select {
		case <-deadline:
			text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			return fmt.Errorf("the server does not start: %s", text)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// answers waits until the server does, or has ended.
func (s *Server) answers(exited <-chan struct{}) bool {
	ctx, cancel := context.WithTimeout(context.Background(), startup)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, s.URL)
		if err == nil {
			return conn.Close(ctx) == nil
		}
		select {
		case <-exited:
			return false
		case <-ctx.Done():
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Kill ends the server as a power cut would, without a word to anybody.
func (s *Server) Kill() error {
	err := s.main.Process.Kill()
	<-s.exited
	return err
}

func (s *Server) stop() {
	if s.leash == nil {
		return
	}
	_ = s.leash.Close()
	_ = s.reaper.Wait()
	if s.exited != nil {
		<-s.exited
	}
	s.leash = nil
}

// binaries is the folder of the newest server that is installed.
func binaries() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil {
		return "", err
	}
	more, _ := filepath.Glob("/usr/pgsql-*/bin/initdb")
	found = append(found, more...)
	slices.SortFunc(found, func(a, b string) int { return semver.Compare(version(b), version(a)) })
	if path, err := exec.LookPath("initdb"); err == nil {
		found = append(found, path)
	}
	if len(found) == 0 {
		return "", errors.New("no PostgreSQL server is installed")
	}
	return filepath.Dir(found[0]), nil
}

func version(initdb string) string {
	folder := filepath.Base(filepath.Dir(filepath.Dir(initdb)))
	return "v" + strings.TrimPrefix(folder, "pgsql-")
}

func freePort(ctx context.Context) (int, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// owner is whom the server runs as: it refuses to run as root.
type owner struct {
	uid, gid int
	other    bool // than this process
}

func unprivileged() (*owner, error) {
	if os.Geteuid() != 0 {
		return &owner{uid: os.Geteuid(), gid: os.Getegid()}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uerr := strconv.Atoi(u.Uid)
		gid, gerr := strconv.Atoi(u.Gid)
		return &owner{uid: uid, gid: gid, other: true}, errors.Join(uerr, gerr)
	}
	return nil, errors.New("run by root, and there is no user postgres or nobody to run the server as")
}

func (o *owner) own(dir string) error {
	if !o.other {
		return nil
	}
	return os.Chown(dir, o.uid, o.gid)
}
