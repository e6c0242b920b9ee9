package postgres

import (
	"context"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

var _ sqlstore.Target = (*Store)(nil)

// LastID implements [sqlstore.Origin].
func (s *Store) LastID(ctx context.Context) (last int64, err error) {
	err = s.reading(ctx, ordinary, step{"last_id", nil, func(row scanner) error { return row.Scan(&last) }})
	return last, fail("read the last id", "", 0, err)
}

// Import implements [sqlstore.Target].
func (s *Store) Import(ctx context.Context, m sqlstore.Moved) error {
	steps := []step{{"sequence_lock", nil, nil}}
	live, dead, history := importedLive(m.Jobs), importedDead(m.Jobs), importedFailures(m.Jobs)
	steps = append(steps,
		step{"import_live", live, nil}, step{"import_dead", dead, nil}, step{"import_failures", history, nil})
	for _, f := range m.Schedules {
		steps = append(steps, step{"import_schedule", args{
			"name": f.Name, "queue": f.Queue, "spec": cleaned(f.Spec), "payload": bytesOf(f.Payload),
			"priority": f.Fire.Priority, "expires_s": f.Fire.ExpiresS,
			"visibility_timeout_s": f.Fire.Stamps.VisibilityTimeoutS, "max_attempts": f.Fire.Stamps.MaxAttempts,
			"backoff_base_s": f.Fire.Stamps.BackoffBaseS, "dead_letter_retention_s": f.Fire.Stamps.DeadLetterRetentionS,
			"anchor": f.Anchor, "catch_up": f.CatchUp, "next_fire_at": f.NextFireAt, "paused": f.Paused,
			"created_at": f.CreatedAt,
		}, nil})
	}
	err := s.transaction(ctx, slow, func(ctx context.Context, t *tx) error { // LOCK wants one that is begun
		return t.wake(ctx, behind, []string{""}, steps...)
	})
	if err == nil {
		// Behind the commit, since a sequence that was moved stays so, whatever becomes of the transaction.
		err = s.transaction(ctx, slow, func(ctx context.Context, t *tx) error {
			return t.run(ctx, step{"sequence_lock", nil, nil}, step{"import_sequence", args{"last": m.LastID}, nil})
		})
	}
	return fail("import", "", 0, err)
}

// each is what of says of the rows in one state, or in any but that one.
func each[T any](rows []sqlstore.Row, dead bool, of func(r *sqlstore.Row) T) []T {
	all := []T{}
	for i := range rows {
		if (rows[i].State == sqlstore.Dead) == dead {
			all = append(all, of(&rows[i]))
		}
	}
	return all
}

// imported are the columns that live and dead jobs have in common.
func imported(rows []sqlstore.Row, dead bool) args {
	number := func(of func(r *sqlstore.Row) int64) []int64 { return each(rows, dead, of) }
	maybe := func(of func(r *sqlstore.Row) *int64) []*int64 { return each(rows, dead, of) }
	return args{
		"ids":                      number(func(r *sqlstore.Row) int64 { return r.ID }),
		"queues":                   each(rows, dead, func(r *sqlstore.Row) string { return r.Queue }),
		"payloads":                 each(rows, dead, func(r *sqlstore.Row) []byte { return bytesOf(r.Payload) }),
		"priorities":               number(func(r *sqlstore.Row) int64 { return r.Priority }),
		"run_ats":                  number(func(r *sqlstore.Row) int64 { return r.RunAt }),
		"claimed_ats":              maybe(func(r *sqlstore.Row) *int64 { return r.ClaimedAt }),
		"attempts":                 number(func(r *sqlstore.Row) int64 { return r.Attempts }),
		"max_attempts":             number(func(r *sqlstore.Row) int64 { return r.Stamps.MaxAttempts }),
		"created_ats":              number(func(r *sqlstore.Row) int64 { return r.CreatedAt }),
		"expire_ats":               maybe(func(r *sqlstore.Row) *int64 { return r.ExpiresAt }),
		"visibility_timeouts_s":    number(func(r *sqlstore.Row) int64 { return r.Stamps.VisibilityTimeoutS }),
		"backoff_bases_s":          number(func(r *sqlstore.Row) int64 { return r.Stamps.BackoffBaseS }),
		"dead_letter_retentions_s": maybe(func(r *sqlstore.Row) *int64 { return r.Stamps.DeadLetterRetentionS }),
		"fences":                   number(func(r *sqlstore.Row) int64 { return r.Fence }),
		"errors":                   each(rows, dead, func(r *sqlstore.Row) *string { return cleanedOrNull(r.LastError) }),
		"schedules":                each(rows, dead, func(r *sqlstore.Row) *string { return textOrNull(r.Schedule) }),
		"scheduled_fors":           maybe(func(r *sqlstore.Row) *int64 { return r.ScheduledFor }),
	}
}

func importedLive(rows []sqlstore.Row) args {
	a := imported(rows, false)
	a["states"] = each(rows, false, func(r *sqlstore.Row) string { return string(r.State) })
	a["claimants"] = each(rows, false, func(r *sqlstore.Row) *string {
		if r.State != sqlstore.Processing {
			return nil
		}
		text := cleaned(r.Claimant)
		return &text
	})
	a["claims_expire_at"] = each(rows, false, func(r *sqlstore.Row) *int64 { return r.ClaimExpiresAt })
	a["lapsed_fences"] = each(rows, false, func(r *sqlstore.Row) int64 { return r.LapsedFence })
	return a
}

func importedDead(rows []sqlstore.Row) args {
	a := imported(rows, true)
	a["died_ats"] = each(rows, true, func(r *sqlstore.Row) *int64 { return r.DiedAt })
	return a
}

// importedFailures gives each failure the number of a claim: which one it was is not known, but the order is, and that the
// claim of a job that is processing has not failed yet.
func importedFailures(rows []sqlstore.Row) args {
	var ids, fences, attempts, ats []int64
	var errors, stacks []string
	for i := range rows {
		r := &rows[i]
		first := r.Fence - int64(len(r.Failures)) + 1
		if r.State == sqlstore.Processing {
			first--
		}
		for n, f := range r.Failures {
			ids, fences = append(ids, r.ID), append(fences, first+int64(n))
			attempts, ats = append(attempts, f.Attempt), append(ats, f.At)
			errors, stacks = append(errors, cleaned(f.Error)), append(stacks, cleaned(f.Stack))
		}
	}
	return args{
		"ids": ids, "fences": fences, "attempts": attempts, "failed_ats": ats, "errors": texts(errors), "stacks": texts(stacks),
	}
}

func cleanedOrNull(text *string) *string {
	if text == nil {
		return nil
	}
	clean := cleaned(*text)
	return &clean
}

func textOrNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
