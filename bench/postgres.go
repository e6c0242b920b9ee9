package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const pgxModule = "github.com/jackc/pgx/v5"

// postgresPool is how many connections every subject on PostgreSQL may have for its ordinary calls.
const postgresPool = 10

// postgresLog asks how many bytes the server has written to its WAL.
const postgresLog = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"

// postgresURL is an address of keywords and values as the one that users of this project write.
func postgresURL(address string, connections int) (string, error) {
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return "", err
	}
	q := url.Values{ // a socket's folder does not fit where a URL has its host
		"host": {config.Host}, "port": {fmt.Sprint(config.Port)}, "sslmode": {"disable"},
		"pool_max_conns": {strconv.Itoa(connections)},
	}
	u := url.URL{Scheme: "postgres", User: url.User(config.User), Path: "/" + config.Database, RawQuery: q.Encode()}
	return u.String(), nil
}

// postgresLogBytes asks over a connection of its own.
func postgresLogBytes(ctx context.Context, address string) (n int64, err error) {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return 0, err
	}
	err = conn.QueryRow(ctx, postgresLog).Scan(&n)
	return n, errors.Join(err, conn.Close(ctx))
}

// multiply copies our only job, live or dead, n times. Inside the server that takes seconds, where it would take minutes to
// bring a million jobs there and into their state one by one.
func multiply(ctx context.Context, address string, dead bool, n int) error {
	table := "__alkstore_live"
	if dead {
		table = "__alkstore_dead"
	}
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	var columns string
	err = conn.QueryRow(ctx, `SELECT string_agg(quote_ident(column_name), ', ') FROM information_schema.columns
		WHERE table_schema = current_schema AND table_name = $1 AND column_name <> 'id'`, table).Scan(&columns)
	if err == nil {
		// Live and dead jobs have their ids from the same place.
		var done pgconn.CommandTag
		done, err = conn.Exec(ctx, "INSERT INTO "+table+" (id, "+columns+") SELECT nextval(pg_get_serial_sequence('__alkstore_live', 'id')), "+
			columns+" FROM "+table+" CROSS JOIN generate_series(1, $1)", n)
		if err == nil && done.RowsAffected() != int64(n) {
			err = fmt.Errorf("made %d rows of %s, want %d", done.RowsAffected(), table, n)
		}
	}
	return errors.Join(err, conn.Close(ctx))
}

// postgres hosts subjects on a private server: a cluster in the folder of the run, on a Unix socket only, with the
// configuration that initdb writes. Each place is a database.
type postgres struct {
	cmd     *exec.Cmd
	sockets string
	admin   *pgx.Conn
	text    string
	next    atomic.Int64
}

// errMissing says that a server is not installed, and how to install it.
var errMissing = errors.New("not installed")

// postgresPrograms finds initdb and postgres of the newest installed version.
func postgresPrograms() (initdb, server string, err error) {
	if server, err = exec.LookPath("postgres"); err == nil {
		if initdb, err = exec.LookPath("initdb"); err == nil {
			return initdb, server, nil
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(found) == 0 {
		return "", "", fmt.Errorf("postgres is %w: apt-get install postgresql", errMissing)
	}
	server = slices.MaxFunc(found, func(a, b string) int { return majorOf(a) - majorOf(b) })
	return filepath.Join(filepath.Dir(server), "initdb"), server, nil
}

func majorOf(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return n
}

// startPostgres makes a cluster below dir and starts its server.
func startPostgres(ctx context.Context, dir string) (_ *postgres, err error) {
	initdb, server, err := postgresPrograms()
	if err != nil {
		return nil, err
	}
	who, err := ordinaryUser()
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "postgres")
	sockets, err := os.MkdirTemp("", "alkpg") // short: the path of a socket may have about 100 bytes
	if err != nil {
		return nil, err
	}
	p := &postgres{sockets: sockets}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	for _, d := range []string{data, sockets} {
		if err := errors.Join(os.MkdirAll(d, 0o700), who.own(d)); err != nil {
			return nil, err
		}
	}
	if out, err := who.command(ctx, data, initdb, "-D", data, "-U", "bench", "-A", "trust", "-E", "UTF8",
		"--locale=C", "--no-instructions").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	said := &tail{}
	p.cmd = who.command(context.WithoutCancel(ctx), data, server, "-D", data, "-k", sockets, "-c", "listen_addresses=")
	p.cmd.Stdout, p.cmd.Stderr = said, said
	endWithParent(p.cmd)
	if err := p.cmd.Start(); err != nil {
		p.cmd = nil
		return nil, err
	}
	for deadline := time.Now().Add(time.Minute); ; {
		if p.admin, err = pgx.Connect(ctx, p.address("postgres")); err == nil {
			break
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return nil, fmt.Errorf("postgres does not answer: %w", err)
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return p, p.admin.QueryRow(ctx, "SHOW server_version").Scan(&p.text)
}

// account is whom the server runs as. PostgreSQL refuses to run as root.
type account struct{ credential *syscall.Credential }

func ordinaryUser() (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	var errs []error
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		return account{&syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, errors.Join(err1, err2)
	}
	return account{}, errors.Join(errs...)
}

func (a account) own(path string) error {
	if a.credential == nil {
		return nil
	}
	return os.Chown(path, int(a.credential.Uid), int(a.credential.Gid))
}

func (a account) command(ctx context.Context, dir, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	if a.credential != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: a.credential}
	}
	return cmd
}

func (p *postgres) address(database string) string {
	return fmt.Sprintf("host=%s port=5432 user=bench dbname=%s sslmode=disable", p.sockets, database)
}

func (p *postgres) fresh(ctx context.Context) (*site, error) { return p.create(ctx, "template1") }

func (p *postgres) clone(ctx context.Context, of *site) (*site, error) {
	config, err := pgx.ParseConfig(of.Server)
	if err != nil {
		return nil, err
	}
	return p.create(ctx, config.Database)
}

func (p *postgres) create(ctx context.Context, template string) (*site, error) {
	name := pgx.Identifier{fmt.Sprintf("bench%d", p.next.Add(1))}
	for _, statement := range []string{
		"CREATE DATABASE " + name.Sanitize() + " TEMPLATE " + pgx.Identifier{template}.Sanitize(),
		"CHECKPOINT", // or it falls into the measurement
	} {
		if _, err := p.admin.Exec(ctx, statement); err != nil {
			return nil, fmt.Errorf("%s: %w", statement, err)
		}
	}
	address := p.address(name[0])
	return &site{
		Place:  Place{Server: address, PID: p.cmd.Process.Pid},
		freeze: func() error { return vacuum(address) },
		remove: func() error {
			_, err := p.admin.Exec(context.Background(), "DROP DATABASE "+name.Sanitize()+" WITH (FORCE)")
			return err
		},
	}, nil
}

// vacuum gives the planner its statistics, which a database that has been running for a while has.
func vacuum(address string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "VACUUM (ANALYZE)")
	return errors.Join(err, conn.Close(ctx))
}

func (p *postgres) version() string { return "PostgreSQL " + strings.Fields(p.text + " ")[0] }

func (p *postgres) close() error {
	var errs []error
	if p.admin != nil {
		errs = append(errs, p.admin.Close(context.Background()))
	}
	if p.cmd != nil {
		// An interrupt is the fast way to stop: clients are cut off.
		errs = append(errs, p.cmd.Process.Signal(syscall.SIGINT), endWithin(p.cmd, 30*time.Second))
	}
	return errors.Join(append(errs, os.RemoveAll(p.sockets))...)
}

// endWithin waits for a server that was told to end, and kills it if it does not.
func endWithin(cmd *exec.Cmd, patience time.Duration) error {
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	return cmd.Wait()
}
