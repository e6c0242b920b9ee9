package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisHost hosts subjects on private servers, one for each place, on a Unix socket only, with an append-only file and
// no snapshots.
type redisHost struct {
	program string
	fsync   string
	dir     string
	sockets string
	text    string
	next    atomic.Int64
}

func startRedis(ctx context.Context, dir, fsync string) (*redisHost, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("redis-server is %w: apt-get install redis-server", errMissing)
	}
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return nil, err
	}
	r := &redisHost{program: program, fsync: fsync, dir: dir, text: "Redis"}
	for _, word := range strings.Fields(string(out)) {
		if version, ok := strings.CutPrefix(word, "v="); ok {
			r.text = "Redis " + version
		}
	}
	r.sockets, err = os.MkdirTemp("", "alkrd") // short: the path of a socket may have about 100 bytes
	return r, err
}

func (r *redisHost) fresh(ctx context.Context) (*site, error) { return r.start(ctx, r.fsync, "") }

// clone starts a server on a copy of the files of another one, which has ended.
func (r *redisHost) clone(ctx context.Context, of *site) (*site, error) {
	return r.start(ctx, r.fsync, of.Dir)
}

func (r *redisHost) start(ctx context.Context, fsync, from string) (_ *site, err error) {
	id := r.next.Add(1)
	dir := filepath.Join(r.dir, fmt.Sprintf("redis-%s-%d", fsync, id))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	if from != "" {
		if err := copyTree(from, dir); err != nil {
			return nil, err
		}
	}
	socket := filepath.Join(r.sockets, fmt.Sprint(id))
	said := &tail{}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), r.program, "--port", "0", "--unixsocket", socket, "--dir", dir,
		"--appendonly", "yes", "--appendfsync", fsync, "--save", "", "--daemonize", "no", "--loglevel", "warning")
	cmd.Stdout, cmd.Stderr = said, said
	endWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	running := true
	end := func() error {
		if !running {
			return nil
		}
		running = false
		return errors.Join(cmd.Process.Signal(syscall.SIGTERM), endWithin(cmd, 30*time.Second))
	}
	if err := awaitRedis(ctx, socket); err != nil {
		return nil, errors.Join(fmt.Errorf("redis-server does not answer: %w", err), end(), errors.New(said.String()))
	}
	return &site{
		Place:  Place{Dir: dir, Server: socket, PID: cmd.Process.Pid},
		freeze: end,
		remove: func() error { return errors.Join(end(), os.RemoveAll(dir)) },
	}, nil
}

// awaitRedis waits until the server has read its files.
func awaitRedis(ctx context.Context, socket string) error {
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: socket, MaxRetries: -1})
	defer func() { _ = client.Close() }()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		err := client.Ping(ctx).Err()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

func (r *redisHost) version() string { return r.text }
func (r *redisHost) close() error    { return os.RemoveAll(r.sockets) }
