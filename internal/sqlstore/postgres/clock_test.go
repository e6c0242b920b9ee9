package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
)

// K18: the clocks of this process and of the server are five minutes apart, and nobody notices. It is the server's that is
// moved here: a schema before the system's own has a clock_timestamp that is wrong.
func TestClocksApart(t *testing.T) {
	if _, ok := pgtest.New(t); !ok {
		return
	}
	for name, shift := range map[string]time.Duration{"ahead": 5 * time.Minute, "behind": -5 * time.Minute} {
		t.Run("K18_a_server_whose_clock_is_"+name, func(t *testing.T) {
			db, _ := pgtest.New(t)
			beside := pool(t, db)
			execute(t, beside, "CREATE SCHEMA "+db.Schema)
			execute(t, beside, fmt.Sprintf(`CREATE FUNCTION %s.clock_timestamp() RETURNS timestamptz LANGUAGE sql
				AS $$ SELECT pg_catalog.clock_timestamp() + interval '%d seconds' $$`, db.Schema, int(shift.Seconds())))
			s := open(t, db.SearchPath()+",pg_catalog", postgres.Options{})
			off := must(s.Now(t.Context()))(t) - time.Now().Unix()
			if want := int64(shift.Seconds()); off < want-30 || off > want+30 {
				t.Fatalf("the server is %d seconds ahead, want %d: the test shows nothing", off, want)
			}
			brief := newJob("q")
			brief.Stamps.VisibilityTimeoutS = 1
			delayed := newJob("q")
			delayed.DelayS = 3600
			expiring := newJob("q")
			expiring.ExpiresS = new(int64(3600))
			ids := enqueue(t, s, brief, delayed, expiring)
			rows := claim(t, s, "q", 5)
			if len(rows) != 2 || rows[0].ID != ids[0] || rows[1].ID != ids[2] {
				t.Fatalf("claimed: got %+v, want all but the delayed one", rows)
			}
			if kept := must(s.Heartbeat(t.Context(), []sqlstore.Extension{{Handle: handle(rows[1])}}))(t); !kept[0] {
				t.Error("heartbeat was refused")
			}
			again := claimOf("q", 5)
			var lapsed []sqlstore.Row
			until(t, "the brief claim lapses", func() bool {
				lapsed = must(s.ClaimBatch(t.Context(), again))(t)
				return len(lapsed) > 0
			})
			if len(lapsed) != 1 || lapsed[0].ID != ids[0] || lapsed[0].Attempts != 2 {
				t.Errorf("claimed again: got %+v, want the one whose claim has lapsed", lapsed)
			}
			if acked := must(s.AckBatch(t.Context(), handles(rows)))(t); acked[0] || !acked[1] {
				t.Errorf("acks by the first holder: got %v, want the second only", acked)
			}
			if swept := must(s.SweepExpired(t.Context(), "q", "expired"))(t); swept.Expired > 0 {
				t.Errorf("swept: got %+v, want nothing", swept)
			}
			leads := must(s.Lead(t.Context(), "lock", "a", 3600))(t) && !must(s.Lead(t.Context(), "lock", "b", 3600))(t)
			if !leads {
				t.Error("a lock is not kept for its time")
			}
		})
	}
}
