package main

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
)

const riverModule = "github.com/riverqueue/river"

// riverPace is how often River fetches.
type riverPace struct{ cooldown, poll time.Duration }

// riverPaces are those of `river bench`, its defaults, and the least it allows.
var riverPaces = map[string]riverPace{
	"bench":   {2 * time.Millisecond, 20 * time.Millisecond},
	"default": {},
	"1ms":     {time.Millisecond, time.Millisecond},
}

var riverPaceTexts = map[string]string{
	"bench":   "FetchCooldown 2ms and FetchPollInterval 20ms (river bench)",
	"default": "FetchCooldown 100ms and FetchPollInterval 1s (defaults)",
	"1ms":     "FetchCooldown and FetchPollInterval 1ms (the least)",
}

func riverSQLiteSpecs() []*Spec {
	spec := func(name, pace string, only ...string) *Spec {
		return &Spec{Name: name, Kind: SQLitePeer, Sync: "NORMAL", Eager: pace, Only: only, Open: openRiverSQLite,
			Modules: []string{riverModule, riverModule + "/riverdriver/riversqlite", sqliteModule},
			Settings: "WAL, NORMAL, one connection (its driver's document), MaxWorkers 1000, " + riverPaceTexts[pace] +
				", keeps finished jobs",
			Cannot: map[string]string{"W10": noBatchClaim}}
	}
	return []*Spec{
		spec("river-sqlite", "bench"),
		spec("river-sqlite-1ms", "1ms", "W7", "W8"),
		spec("river-sqlite-default", "default", "W7", "W8"),
	}
}

func riverPostgresSpecs() []*Spec {
	spec := func(name, pace string, only ...string) *Spec {
		return &Spec{Name: name, Kind: ServerPeer, Server: Postgres, Eager: pace, Only: only, Open: openRiverPostgres,
			Modules: []string{riverModule, riverModule + "/riverdriver/riverpgxv5", pgxModule},
			Settings: "default server configuration (synchronous_commit on), unix socket, pool of 10, MaxWorkers 2000, " +
				riverPaceTexts[pace] + ", COPY for bulk, keeps finished jobs",
			Cannot: map[string]string{"W10": noBatchClaim}}
	}
	return []*Spec{
		spec("river-pg", "bench"),
		spec("river-pg-1ms", "1ms", "W7", "W8"),
		spec("river-pg-default", "default", "W7", "W8"),
	}
}

// riverArgs are those of the one kind of job there is.
type riverArgs struct{ Payload }

// Kind implements river.JobArgs.
func (riverArgs) Kind() string { return "bench" }

type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	handle func(Payload)
}

// Work implements river.Worker.
func (w *riverWorker) Work(_ context.Context, job *river.Job[riverArgs]) error {
	w.handle(job.Args.Payload)
	return nil
}

// riverSubject is River over any driver. Tx is the driver's type of transactions.
type riverSubject[Tx any] struct {
	driver     riverdriver.Driver[Tx]
	client     *river.Client[Tx] // inserts only, until Work replaces it
	pace       riverPace
	maxWorkers int
	count      func(ctx context.Context, query string) (int, error)
	logBytes   func(ctx context.Context) (int64, error)
	close      func() error
}

func openRiverSQLite(ctx context.Context, s *Spec, p Place) (Subject, error) {
	db, err := peerPool(s, p.Path)
	if err != nil {
		return nil, err
	}
	var pin *walPin
	return openRiver(ctx, &riverSubject[*sql.Tx]{
		driver:     riversqlite.New(db),
		pace:       riverPaces[s.Eager],
		maxWorkers: 1000,
		count:      func(ctx context.Context, query string) (int, error) { return countRows(ctx, db, query) },
		logBytes:   func(ctx context.Context) (int64, error) { return pinnedBytes(ctx, &pin, p.Path) },
		close: func() error {
			if pin != nil {
				pin.release()
			}
			return db.Close()
		},
	})
}

func openRiverPostgres(ctx context.Context, s *Spec, p Place) (Subject, error) {
	config, err := pgxpool.ParseConfig(p.Server)
	if err != nil {
		return nil, err
	}
	config.MaxConns = postgresPool
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	count := func(ctx context.Context, query string) (n int64, err error) {
		err = pool.QueryRow(ctx, query).Scan(&n)
		return n, err
	}
	return openRiver(ctx, &riverSubject[pgx.Tx]{
		driver:     riverpgxv5.New(pool),
		pace:       riverPaces[s.Eager],
		maxWorkers: 2000,
		count: func(ctx context.Context, query string) (int, error) {
			n, err := count(ctx, query)
			return int(n), err
		},
		logBytes: func(ctx context.Context) (int64, error) {
			return count(ctx, postgresLog)
		},
		close: func() error { pool.Close(); return nil },
	})
}

func openRiver[Tx any](ctx context.Context, r *riverSubject[Tx]) (Subject, error) {
	migrator, err := rivermigrate.New(r.driver, &rivermigrate.Config{Logger: riverLog()})
	if err == nil {
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	r.client, err = river.NewClient(r.driver, r.config())
	if err != nil {
		return nil, err
	}
	return r, nil
}

// riverLog passes on errors only: River warns about jobs that it fetched twice and the like.
func riverLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

// config is that of a client which inserts only. The cooldown also bounds how often inserts wake the workers.
func (r *riverSubject[Tx]) config() *river.Config {
	return &river.Config{Logger: riverLog(), FetchCooldown: r.pace.cooldown, FetchPollInterval: r.pace.poll}
}

func (r *riverSubject[Tx]) insertOpts() *river.InsertOpts {
	return &river.InsertOpts{Queue: queueName(0)}
}

func (r *riverSubject[Tx]) Enqueue(ctx context.Context, p Payload) error {
	_, err := r.client.Insert(ctx, riverArgs{p}, r.insertOpts())
	return err
}

func (r *riverSubject[Tx]) EnqueueMany(ctx context.Context, ps []Payload) error {
	params := make([]river.InsertManyParams, len(ps))
	for i, p := range ps {
		params[i] = river.InsertManyParams{Args: riverArgs{p}, InsertOpts: r.insertOpts()}
	}
	_, err := r.client.InsertManyFast(ctx, params)
	return err
}

func (r *riverSubject[Tx]) Work(ctx context.Context, w Workload) (stop func() error, err error) {
	config := r.config()
	config.Workers = river.NewWorkers()
	river.AddWorker(config.Workers, &riverWorker{handle: w.Handle})
	config.Queues = make(map[string]river.QueueConfig)
	for i := range w.Queues {
		config.Queues[queueName(i)] = river.QueueConfig{MaxWorkers: r.maxWorkers}
	}
	client, err := river.NewClient(r.driver, config)
	if err == nil {
		err = client.Start(ctx)
	}
	if err != nil {
		return nil, err
	}
	r.client = client
	return func() error {
		ctx, cancel := context.WithTimeout(ctx, stopTimeout)
		defer cancel()
		return client.Stop(ctx)
	}, nil
}

func (r *riverSubject[Tx]) Left(ctx context.Context) (int, error) {
	return r.count(ctx, "SELECT count(*) FROM river_job "+
		"WHERE state IN ('available', 'pending', 'retryable', 'running', 'scheduled')")
}

// LogBytes implements logger.
func (r *riverSubject[Tx]) LogBytes(ctx context.Context) (int64, error) { return r.logBytes(ctx) }

func (r *riverSubject[Tx]) Close() error { return r.close() }
