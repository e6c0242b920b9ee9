package postgres_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
)

// K88: no text stands in the way of a change of state, whoever let it through.
func TestTexts(t *testing.T) {
	db, ok := pgtest.New(t)
	if !ok {
		return
	}
	s := open(t, db.DSN(), postgres.Options{})
	for name, text := range map[string]string{
		"NUL": "a\x00b", "invalid": "\xff\xfe", "half": "caf\xc3", "surrogate": "\xed\xa0\x80", "long": strings.Repeat("\x00x", 40_000),
	} {
		t.Run("K88_"+name, func(t *testing.T) {
			once := newJob("q")
			once.Stamps.MaxAttempts = 1
			enqueue(t, s, newJob("q"), once, newJob("q"), once)
			c := claimOf("q", 4)
			c.Claimant, c.ExhaustedText, c.LapsedText = text, text, text
			rows := must(s.ClaimBatch(t.Context(), c))(t)
			verdicts := must(s.Retry(t.Context(), []sqlstore.Retrial{
				{Handle: handle(rows[0]), Error: text, Stack: text, DeadText: text},
				{Handle: handle(rows[1]), Error: text, Stack: text, DeadText: text},
			}))(t)
			if verdicts[0] != sqlstore.Retrying || verdicts[1] != sqlstore.Buried {
				t.Errorf("verdicts: got %v", verdicts)
			}
			if failed := must(s.Fail(t.Context(), []sqlstore.Failing{{Handle: handle(rows[2]), Error: text, Stack: text}}))(t); !failed[0] {
				t.Error("fail was refused")
			}
			if kept := must(s.Heartbeat(t.Context(), []sqlstore.Extension{{Handle: handle(rows[3]), S: new(int64(-1))}}))(t); !kept[0] {
				t.Error("heartbeat was refused")
			}
			must(s.ClaimBatch(t.Context(), c))(t) // buries the last one
			for _, r := range rows {
				got := get(t, s, r.ID)
				if len(got.Failures) == 0 {
					continue
				}
				f := got.Failures[0]
				if !utf8.ValidString(f.Error) || strings.ContainsRune(f.Error, 0) || f.Error == "" {
					t.Errorf("error of job %d: got %.20q", r.ID, f.Error)
				}
			}
			for what, err := range map[string]error{
				"lead":     second(s.Lead(t.Context(), text, text, 10)),
				"resign":   s.Resign(t.Context(), text, text),
				"announce": s.Announce(t.Context(), text, []string{"q"}, 10),
				"withdraw": s.Withdraw(t.Context(), text),
				"sweep":    second(s.SweepExpired(t.Context(), "q", text)),
			} {
				if err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
			for _, r := range must(s.ListJobs(t.Context(), sqlstore.Filter{Limit: 100}))(t) {
				if err := errors.Join(second(s.Cancel(t.Context(), []int64{r.ID})), second(s.Purge(t.Context(), []int64{r.ID}))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	healthy(t, s)
}
