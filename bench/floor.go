package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/alkstore/alkworker/queue"
)

// The floor is what SQLite itself needs for our rows: the product's own file, with its table and all its indexes, and
// nothing but the statements, in batches of the best size and shape. It keeps no promise: no fencing, no retries, no
// handlers, and nobody waits for an answer.
func floorSpecs() []*Spec {
	spec := func(name, synchronous string) *Spec {
		return &Spec{
			Name: name, Kind: Floor, Sync: synchronous, Modules: []string{sqliteModule},
			Settings: "our table and indexes, one connection, prepared statements, " + synchronous +
				"; the best of several shapes: " +
				"W1 one row a transaction, W2 64, W3 1000, W4 claims of 100, 256 and 1000 with the deletion of those before",
			Only:   []string{"W1", "W2", "W3", "W4"},
			Seeder: "alkworker-normal", Open: openAlkworker,
			Steps: map[string]func(context.Context, *child) (Metrics, error){
				stepEnqueue: floorEnqueue,
				stepDrain:   floorDrain,
			},
		}
	}
	return []*Spec{spec("floor", "FULL"), spec("floor-normal", "NORMAL")}
}

// The statements of the product, without what only its promises need.
const (
	floorInsert = `INSERT INTO __alkstore_live (
    queue, payload, payload_size, spilled, state, priority, run_at, created_at, expires_at, attempts, fence,
    visibility_timeout_s, max_attempts, backoff_base_s, dead_letter_retention_s, schedule, scheduled_for
) `
	floorRow = `(?1, ?, ?3, 0, 'pending', 0, ?2, ?2, NULL, 0, 0, 30, 20, 5, 7776000, NULL, NULL)`

	floorInsertJSON = floorInsert + `SELECT
    ?1, CAST(value AS BLOB), ?3, 0, 'pending', 0, ?2, ?2, NULL, 0, 0, 30, 20, 5, 7776000, NULL, NULL
FROM json_each(?4)`

	floorClaim = `UPDATE __alkstore_live SET
    state            = 'processing',
    claimant         = 'floor',
    claimed_at       = ?2,
    claim_expires_at = ?2 + visibility_timeout_s,
    attempts         = attempts + 1,
    fence            = fence + 1
WHERE id IN (
    SELECT id FROM __alkstore_live
    WHERE queue = ?1 AND state = 'pending' AND run_at <= ?2
    ORDER BY priority DESC, run_at, id
    LIMIT ?3
)
RETURNING id, fence, payload`

	floorDelete = `DELETE FROM __alkstore_live WHERE id IN (SELECT value FROM json_each(?1))`
)

// floorFile is one connection to a database of the product.
type floorFile struct {
	db            *sql.DB
	conn          *sql.Conn
	begin, commit *sql.Stmt
}

// openFloor creates the product's schema unless it is there and opens the file without the product.
func openFloor(ctx context.Context, path, synchronous string) (*floorFile, error) {
	client, err := queue.Open(ctx, path, nil)
	if err == nil {
		err = client.Close()
	}
	if err != nil {
		return nil, err
	}
	db, err := sql.Open(string(driverName), queue.SQLiteDSN(path))
	if err != nil {
		return nil, err
	}
	f := &floorFile{db: db}
	if f.conn, err = db.Conn(ctx); err == nil {
		_, err = f.conn.ExecContext(ctx, "PRAGMA synchronous = "+synchronous)
	}
	if err == nil {
		f.begin, err = f.conn.PrepareContext(ctx, "BEGIN IMMEDIATE")
	}
	if err == nil {
		f.commit, err = f.conn.PrepareContext(ctx, "COMMIT")
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return f, nil
}

func (f *floorFile) inTx(ctx context.Context, work func() error) error {
	if _, err := f.begin.ExecContext(ctx); err != nil {
		return err
	}
	if err := work(); err != nil {
		return err // the process ends
	}
	_, err := f.commit.ExecContext(ctx)
	return err
}

func (f *floorFile) close() error { return errors.Join(f.conn.Close(), f.db.Close()) }

// shape is one way to insert a batch in one transaction.
type shape struct {
	name    string
	prepare func(ctx context.Context, f *floorFile, batch int) (insert func(payloads [][]byte) error, err error)
}

var shapes = []shape{
	{"row by row", func(ctx context.Context, f *floorFile, _ int) (func([][]byte) error, error) {
		return f.inserter(ctx, 1)
	}},
	{"VALUES of up to 100 rows", func(ctx context.Context, f *floorFile, batch int) (func([][]byte) error, error) {
		return f.inserter(ctx, min(batch, 100))
	}},
	{"json_each", func(ctx context.Context, f *floorFile, _ int) (func([][]byte) error, error) {
		insert, err := f.conn.PrepareContext(ctx, floorInsertJSON)
		return func(payloads [][]byte) error {
			texts := make([]string, len(payloads))
			for i, p := range payloads {
				texts[i] = string(p)
			}
			list, err := json.Marshal(texts)
			if err != nil {
				return err
			}
			_, err = insert.ExecContext(ctx, queueName(0), time.Now().Unix(), payloadSize, string(list))
			return err
		}, err
	}},
}

// inserter inserts some rows a statement. The batch must be a multiple of them.
func (f *floorFile) inserter(ctx context.Context, rows int) (func(payloads [][]byte) error, error) {
	values := make([]string, rows)
	for i := range values {
		values[i] = strings.Replace(floorRow, "?,", fmt.Sprintf("?%d,", 4+i), 1)
	}
	//nolint:sqlclosecheck // as long as its connection, which closes it
	insert, err := f.conn.PrepareContext(ctx, floorInsert+"VALUES "+strings.Join(values, ", "))
	args := make([]any, 3+rows)
	return func(payloads [][]byte) error {
		args[0], args[1], args[2] = queueName(0), time.Now().Unix(), payloadSize
		for len(payloads) > 0 {
			for i := range rows {
				args[3+i] = payloads[i]
			}
			if _, err := insert.ExecContext(ctx, args...); err != nil {
				return err
			}
			payloads = payloads[rows:]
		}
		return nil
	}, err
}

// floorEnqueue gives each shape its share of c.Duration, on a file of its own, and reports the best.
func floorEnqueue(ctx context.Context, c *child) (Metrics, error) {
	batch := c.Batch * c.Routines // no more calls can wait for one commit than there are callers
	tried := shapes
	if batch == 1 {
		tried = shapes[:1]
	}
	if err := c.ready(); err != nil {
		return nil, err
	}
	best := Metrics{}
	for i, s := range tried {
		path := filepath.Join(c.Place.Dir, fmt.Sprintf("floor-%d.db", i))
		m, err := c.floorInserts(ctx, s, path, batch, c.Duration/time.Duration(len(tried)))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		c.notes = append(c.notes, fmt.Sprintf("%s: %.0f/s", s.name, m["rate"]))
		if m["rate"] > best["rate"] {
			best = m
		}
	}
	return best, nil
}

func (c *child) floorInserts(
	ctx context.Context, s shape, path string, batch int, duration time.Duration,
) (_ Metrics, err error) {
	f, err := openFloor(ctx, path, c.spec.Sync)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	insert, err := s.prepare(ctx, f, batch)
	if err != nil {
		return nil, err
	}
	payloads := make([][]byte, batch)
	jobs := 0
	start := time.Now()
	for time.Since(start) < duration {
		for i := range payloads {
			if payloads[i], err = encode(newPayload(int64(jobs+i), 0)); err != nil {
				return nil, err
			}
		}
		if err := f.inTx(ctx, func() error { return insert(payloads) }); err != nil {
			return nil, err
		}
		jobs += batch
	}
	elapsed := time.Since(start)
	stored, err := countRows(ctx, f.db, "SELECT count(*) FROM __alkstore_live WHERE state = 'pending'")
	if err == nil && stored != jobs {
		err = fmt.Errorf("%d rows, want %d", stored, jobs)
	}
	return Metrics{"jobs": float64(jobs), "rate": float64(jobs) / elapsed.Seconds()}, err
}

// floorDrain drains a copy of the database with each size of a batch and reports the best.
func floorDrain(ctx context.Context, c *child) (Metrics, error) {
	if err := c.ready(); err != nil {
		return nil, err
	}
	best := Metrics{}
	for _, batch := range []int{100, 256, 1000} {
		path := filepath.Join(c.Place.Dir, fmt.Sprintf("floor-%d.db", batch))
		if err := copyDatabase(c.Place.Path, path); err != nil {
			return nil, err
		}
		rate, err := c.floorClaims(ctx, path, batch)
		if err != nil {
			return nil, fmt.Errorf("batches of %d: %w", batch, err)
		}
		c.notes = append(c.notes, fmt.Sprintf("batches of %d: %.0f/s", batch, rate))
		if rate > best["rate"] {
			best = Metrics{"rate": rate, "jobs": float64(c.Jobs), "handled": float64(c.Jobs)}
		}
	}
	best["rss_mb"] = float64(peakMemory()) / 1e6
	return best, nil
}

func (c *child) floorClaims(ctx context.Context, path string, batch int) (rate float64, err error) {
	f, err := openFloor(ctx, path, c.spec.Sync)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	claim, err1 := f.conn.PrepareContext(ctx, floorClaim)
	remove, err2 := f.conn.PrepareContext(ctx, floorDelete)
	if err := errors.Join(err1, err2); err != nil {
		return 0, err
	}
	var claimed []int64
	done := 0
	start := time.Now()
	for first := true; first || len(claimed) > 0; first = false {
		err := f.inTx(ctx, func() error {
			if len(claimed) > 0 {
				list, err := json.Marshal(claimed)
				if err != nil {
					return err
				}
				if _, err := remove.ExecContext(ctx, string(list)); err != nil {
					return err
				}
			}
			claimed, err = floorRows(ctx, claim, claimed[:0], batch)
			done += len(claimed)
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	elapsed := time.Since(start)
	left, err := countRows(ctx, f.db, "SELECT count(*) FROM __alkstore_live")
	if err == nil && (left != 0 || done != c.Jobs) {
		err = fmt.Errorf("%d jobs claimed and %d left, want %d and none", done, left, c.Jobs)
	}
	return float64(done) / elapsed.Seconds(), err
}

func floorRows(ctx context.Context, claim *sql.Stmt, ids []int64, batch int) (_ []int64, err error) {
	rows, err := claim.QueryContext(ctx, queueName(0), time.Now().Unix(), batch)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var payload sql.RawBytes
	for rows.Next() {
		var id, fence int64
		if err := rows.Scan(&id, &fence, &payload); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}
