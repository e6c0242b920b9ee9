package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

func asynqSpecs() []*Spec {
	spec := func(name string, server ServerKind, check, remark string, only ...string) *Spec {
		return &Spec{Name: name, Kind: ServerPeer, Server: server, Seeder: "asynq", Eager: check, Only: only, Open: openAsynq,
			Modules:  []string{"github.com/hibiken/asynq"},
			Settings: string(server) + ", no snapshots, unix socket, Concurrency 10, TaskCheckInterval " + check + remark,
			Cannot: map[string]string{
				"W3":  "has no call that enqueues several",
				"W10": noBatchClaim,
			}}
	}
	return []*Spec{
		spec("asynq", RedisEvery, "1s", " (default)"),
		spec("asynq-always", RedisAlways, "1s", " (default)"),
		spec("asynq-2ms", RedisEvery, "2ms", "", "W7", "W8"),
	}
}

type asynqSubject struct {
	option asynq.RedisClientOpt
	client *asynq.Client
	redis  *redis.Client // for what asynq has no call for
	check  time.Duration
}

func openAsynq(_ context.Context, s *Spec, p Place) (Subject, error) {
	check, err := time.ParseDuration(s.Eager)
	if err != nil {
		return nil, err
	}
	option := asynq.RedisClientOpt{Network: "unix", Addr: p.Server}
	return &asynqSubject{
		option: option,
		client: asynq.NewClient(option),
		redis:  redis.NewClient(&redis.Options{Network: "unix", Addr: p.Server}),
		check:  check,
	}, nil
}

const asynqType = "bench"

func (a *asynqSubject) Enqueue(ctx context.Context, p Payload) error {
	body, err := encode(p)
	if err != nil {
		return err
	}
	_, err = a.client.EnqueueContext(ctx, asynq.NewTask(asynqType, body), asynq.Queue(queueName(0)))
	return err
}

func (a *asynqSubject) EnqueueMany(context.Context, []Payload) error { return errors.ErrUnsupported }

func (a *asynqSubject) Work(_ context.Context, w Workload) (stop func() error, err error) {
	queues := make(map[string]int)
	for i := range w.Queues {
		queues[queueName(i)] = 1
	}
	server := asynq.NewServer(a.option, asynq.Config{
		Concurrency: 10, TaskCheckInterval: a.check, Queues: queues, LogLevel: asynq.ErrorLevel,
	})
	mux := asynq.NewServeMux()
	mux.HandleFunc(asynqType, func(_ context.Context, t *asynq.Task) error {
		p, err := decode(t.Payload())
		if err == nil {
			w.Handle(p)
		}
		return err
	})
	if err := server.Start(mux); err != nil {
		return nil, err
	}
	return func() error { server.Shutdown(); return nil }, nil
}

func (a *asynqSubject) Left(ctx context.Context) (int, error) {
	// The inspector would also sample how much memory the queue takes.
	key := func(part string) string { return fmt.Sprintf("asynq:{%s}:%s", queueName(0), part) }
	left := 0
	for _, count := range []*redis.IntCmd{
		a.redis.LLen(ctx, key("pending")), a.redis.LLen(ctx, key("active")),
		a.redis.ZCard(ctx, key("scheduled")), a.redis.ZCard(ctx, key("retry")), a.redis.ZCard(ctx, key("archived")),
	} {
		n, err := count.Result()
		if err != nil {
			return 0, err
		}
		left += int(n)
	}
	return left, nil
}

// LogBytes implements logger: the size of the append-only file.
func (a *asynqSubject) LogBytes(ctx context.Context) (int64, error) {
	info, err := a.redis.Info(ctx, "persistence").Result()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(info) {
		if size, ok := strings.CutPrefix(strings.TrimSpace(line), "aof_current_size:"); ok {
			return strconv.ParseInt(size, 10, 64)
		}
	}
	return 0, errors.New("the server does not say how large its append-only file is")
}

func (a *asynqSubject) Close() error { return errors.Join(a.client.Close(), a.redis.Close()) }
