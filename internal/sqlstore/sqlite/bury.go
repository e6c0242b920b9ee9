package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// death is a job on its way to the dead letters.
type death struct {
	id   int64
	text string
}

// bury is every move to the dead letters: an INSERT and a DELETE in the one transaction of the caller (H9).
func (t *tx) bury(ctx context.Context, deaths []death) error {
	if len(deaths) == 0 {
		return nil
	}
	ids := make([]int64, len(deaths))
	pairs := make([][2]any, len(deaths))
	for i, d := range deaths {
		ids[i] = d.id
		pairs[i] = [2]any{d.id, d.text}
	}
	if _, err := t.exec(ctx, "bury_insert", sql.Named("deaths", jsonOf(pairs)), sql.Named("now", t.now)); err != nil {
		return err
	}
	_, err := t.exec(ctx, "delete_live", sql.Named("ids", jsonOf(ids)))
	return err
}

// failure is one entry of a job's history (H10).
type failure struct {
	id, fence, attempt int64
	text, stack        string
}

func (t *tx) recordFailures(ctx context.Context, failures []failure) error {
	if len(failures) == 0 {
		return nil
	}
	ids := make([]int64, len(failures))
	entries := make([][5]any, len(failures))
	for i, f := range failures {
		ids[i] = f.id
		entries[i] = [5]any{f.id, f.fence, f.attempt, f.text, f.stack}
	}
	if _, err := t.exec(ctx, "record_failures", sql.Named("failures", jsonOf(entries)), sql.Named("now", t.now)); err != nil {
		return err
	}
	_, err := t.exec(ctx, "trim_failures", sql.Named("ids", jsonOf(ids)), sql.Named("keep", sqlstore.MaxFailures))
	return err
}

// removal gathers jobs that leave for good, and which of them have something outside their row.
type removal struct {
	ids, withPayload, withFailures []int64
}

func (r *removal) add(id int64, spilled, failed bool) {
	r.ids = append(r.ids, id)
	if spilled {
		r.withPayload = append(r.withPayload, id)
	}
	if failed {
		r.withFailures = append(r.withFailures, id)
	}
}

// remove deletes jobs by the given statement, and their payloads and failures.
func (t *tx) remove(ctx context.Context, statement string, r removal) error {
	for _, part := range []struct {
		statement string
		ids       []int64
	}{{statement, r.ids}, {"delete_payloads", r.withPayload}, {"delete_failures", r.withFailures}} {
		if len(part.ids) == 0 {
			continue
		}
		if _, err := t.exec(ctx, part.statement, sql.Named("ids", jsonOf(part.ids))); err != nil {
			return err
		}
	}
	return nil
}

// jsonOf is the argument of a statement with json_each. Only numbers, strings and nil come here, which cannot fail.
func jsonOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic("sqlite: " + err.Error())
	}
	return string(text)
}
