package main

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"

	"maragu.dev/goqite"
	"maragu.dev/goqite/jobs"
)

func goqiteSpecs() []*Spec {
	const settings = "jobs.Runner, WAL, NORMAL, one connection (README), Limit 64, "
	spec := func(name, poll, remark string, only ...string) *Spec {
		return &Spec{Name: name, Kind: SQLitePeer, Sync: "NORMAL", Eager: poll, Only: only, Open: openGoqite,
			Modules: []string{"maragu.dev/goqite", sqliteModule}, Settings: settings + "PollInterval " + poll + remark,
			Cannot: map[string]string{"W10": noBatchClaim}}
	}
	return []*Spec{
		spec("goqite", "10ms", " (README)"),
		spec("goqite-1ms", "1ms", "", "W7", "W8"),
		spec("goqite-default", "100ms", " (default)", "W7", "W8"),
	}
}

const noBatchClaim = "has no call that claims a batch"

type goqiteSubject struct {
	db    *sql.DB
	queue *goqite.Queue
	poll  time.Duration
	path  string
	pin   *walPin
}

func openGoqite(ctx context.Context, s *Spec, p Place) (Subject, error) {
	poll, err := time.ParseDuration(s.Eager)
	if err != nil {
		return nil, err
	}
	db, err := peerPool(s, p.Path)
	if err != nil {
		return nil, err
	}
	n, err := countRows(ctx, db, "SELECT count(*) FROM sqlite_schema WHERE name = 'goqite'")
	if err == nil && n == 0 {
		_, err = db.ExecContext(ctx, goqiteSchema)
	}
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return &goqiteSubject{db: db, queue: goqiteQueue(db, 0), poll: poll, path: p.Path}, nil
}

// goqiteSchema is schema_sqlite.sql of the module, which is not embedded there.
const goqiteSchema = `
create table goqite (
  id text primary key default ('m_' || lower(hex(randomblob(16)))),
  created text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
  updated text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
  queue text not null,
  body blob not null,
  timeout text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
  received integer not null default 0,
  priority integer not null default 0
) strict;

create trigger goqite_updated_timestamp after update on goqite begin
  update goqite set updated = strftime('%Y-%m-%dT%H:%M:%fZ') where id = old.id;
end;

create index goqite_queue_priority_created_idx on goqite (queue, priority desc, created);
`

func goqiteQueue(db *sql.DB, i int) *goqite.Queue {
	return goqite.New(goqite.NewOpts{DB: db, Name: queueName(i)})
}

const goqiteJob = "job"

func (g *goqiteSubject) Enqueue(ctx context.Context, p Payload) error {
	body, err := encode(p)
	if err != nil {
		return err
	}
	_, err = jobs.Create(ctx, g.queue, goqiteJob, goqite.Message{Body: body})
	return err
}

func (g *goqiteSubject) EnqueueMany(ctx context.Context, ps []Payload) error {
	tx, err := g.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	for _, p := range ps {
		body, err := encode(p)
		if err != nil {
			return err
		}
		if _, err := jobs.CreateTx(ctx, tx, g.queue, goqiteJob, goqite.Message{Body: body}); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (g *goqiteSubject) Work(ctx context.Context, w Workload) (stop func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var runners sync.WaitGroup
	for i := range w.Queues {
		r := jobs.NewRunner(jobs.NewRunnerOpts{Limit: 64, PollInterval: g.poll, Queue: goqiteQueue(g.db, i)})
		r.Register(goqiteJob, func(_ context.Context, body []byte) error {
			p, err := decode(body)
			if err == nil {
				w.Handle(p)
			}
			return err
		})
		runners.Go(func() { r.Start(ctx) })
	}
	return func() error { cancel(); runners.Wait(); return nil }, nil
}

func (g *goqiteSubject) Left(ctx context.Context) (int, error) {
	return countRows(ctx, g.db, "SELECT count(*) FROM goqite")
}

func (g *goqiteSubject) Close() error {
	if g.pin != nil {
		g.pin.release()
	}
	return g.db.Close()
}

// Live implements liver.
func (g *goqiteSubject) Live(ctx context.Context, p Payload, heartbeats int) error {
	body, err := encode(p)
	if err != nil {
		return err
	}
	if err := g.queue.Send(ctx, goqite.Message{Body: body}); err != nil {
		return err
	}
	m, err := g.queue.Receive(ctx)
	switch {
	case err != nil:
		return err
	case m == nil:
		return fmt.Errorf("nothing to receive")
	}
	for range heartbeats {
		if err := g.queue.Extend(ctx, m.ID, 5*time.Second); err != nil {
			return err
		}
	}
	return g.queue.Delete(ctx, m.ID)
}

// LogBytes implements logger.
func (g *goqiteSubject) LogBytes(ctx context.Context) (int64, error) {
	return pinnedBytes(ctx, &g.pin, g.path)
}
