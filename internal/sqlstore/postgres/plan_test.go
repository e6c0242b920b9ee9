package postgres_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/alkstore/alkworker/internal/sqlstore/postgres"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
)

// hot are the statements that a worker or a producer runs all the time, with arguments for a queue that has many jobs.
var hot = map[string]map[string]any{
	"claim_proven": {
		"queue": "q", "claimant": "w", "limit": 100, "lease_from": int64(math.MinInt64),
		"priorities": []int64{math.MinInt64}, "run_ats": []int64{math.MinInt64}, "ids": []int64{0},
	},
	"claim": {
		"queue": "q", "claimant": "w", "limit": 100, "kind": "any", "lapsed_text": "lapsed", "keep": 10, "lease_from": int64(math.MinInt64),
		"priorities": []int64{math.MinInt64}, "run_ats": []int64{math.MinInt64}, "ids": []int64{0}, "taken": []int64{},
	},
	"claim_exhausted": {
		"queue": "q", "exhausted_text": "x", "lapsed_text": "y", "keep": 10, "lease_from": int64(math.MinInt64),
		"jobs": 500, "bytes": 64 << 20,
	},
	"next_ready": {
		"queues": []string{"q", "r"}, "leases_from": []int64{math.MinInt64, math.MinInt64}, "level_queues": []string{"q", "r"},
		"priorities": []int64{math.MinInt64, math.MinInt64}, "run_ats": []int64{math.MinInt64, math.MinInt64}, "ids": []int64{0, 0},
	},
	"idle":      {"queues": []string{"q", "r"}},
	"ack":       {"ids": []int64{1, 2, 3}, "fences": []int64{1, 1, 1}, "fence": nil},
	"locked":    {"ids": []int64{1, 2, 3}},
	"heartbeat": {"ids": []int64{1, 2, 3}, "fences": []int64{1, 1, 1}, "extensions_s": []*int64{nil, nil, nil}},
	"release":   {"ids": []int64{1, 2, 3}, "fences": []int64{1, 1, 1}, "delays_s": []int64{0, 0, 0}},
	"retry": {
		"ids": []int64{1, 2, 3}, "fences": []int64{1, 1, 1}, "delays_s": []int64{0, 0, 0}, "errors": []string{"", "", ""},
		"stacks": []string{"", "", ""}, "dead_texts": []string{"", "", ""}, "keep": 10,
	},
	"fail":             {"ids": []int64{1, 2, 3}, "fences": []int64{1, 1, 1}, "errors": []string{"", "", ""}, "stacks": []string{"", "", ""}, "keep": 10},
	"cancel":           {"ids": []int64{1, 2, 3}},
	"requeue":          {"ids": []int64{1, 2, 3}},
	"purge":            {"ids": []int64{1, 2, 3}},
	"get":              {"id": int64(1)},
	"sweep":            {"queue": "q", "text": "expired"},
	"requeue_matching": {"queue": "q", "older_than_s": nil, "limit": 100},
	"purge_matching":   {"queue": "", "older_than_s": int64(5), "limit": 100},
	"queues":           {},
}

// planOf explains a hot statement as a connection of a store sees it.
func planOf(t *testing.T, conn *pgx.Conn, s *postgres.Store, name string, analyze bool) string {
	t.Helper()
	return explain(t, conn, s, name, hot[name], analyze)
}

func explain(t *testing.T, conn *pgx.Conn, s *postgres.Store, name string, args map[string]any, analyze bool) string {
	t.Helper()
	text, params := s.Text(name)
	values := make([]any, len(params))
	for i, p := range params {
		values[i] = args[p]
	}
	how := "EXPLAIN "
	if analyze {
		how = "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) "
	}
	tx := must(conn.Begin(t.Context()))(t)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	rows := must(tx.Query(t.Context(), how+text, values...))(t)
	lines := must(pgx.CollectRows(rows, pgx.RowTo[string]))(t)
	return strings.Join(lines, "\n")
}

var (
	ourScans = regexp.MustCompile(`(\w[\w ]*Scan(?: Backward)?)(?: using (\w+))? on (__alkstore_(?:live|dead|failures))\b`)
	joins    = regexp.MustCompile(`(Hash|Merge)[\w ]* Join`)
)

// unindexed are what a plan does with our tables other than by an index or by places that it knows.
func unindexed(plan string) (found []string) {
	for _, m := range ourScans.FindAllStringSubmatch(plan, -1) {
		if m[2] == "" && m[1] != "Bitmap Heap Scan" && m[1] != "Tid Scan" {
			found = append(found, m[0])
		}
	}
	return found
}

func TestPlans(t *testing.T) {
	db, ok := pgtest.New(t)
	if !ok {
		return
	}
	s := open(t, db.DSN(), postgres.Options{})
	beside := pool(t, db)
	t.Run("T3_made_for_empty_tables_they_are_right_for_full_ones", func(t *testing.T) {
		conn := connect(t, db, ours)
		for name := range hot {
			plan := planOf(t, conn, s, name, false)
			if bad := unindexed(plan); len(bad) > 0 || joins.MatchString(plan) {
				t.Errorf("%s: %v, %v in\n%s", name, bad, joins.FindAllString(plan, -1), plan)
			}
		}
	})
	execute(t, beside, `INSERT INTO __alkstore_live (queue, priority, run_at, created_at, max_attempts, visibility_timeout_s, backoff_base_s, payload)
		SELECT 'q', i % 3, 1700000000 + i % 7, 1700000000, 20, 30, 5, 'x' FROM generate_series(1, 100000) AS i`)
	execute(t, beside, `INSERT INTO __alkstore_live (queue, priority, run_at, created_at, max_attempts, visibility_timeout_s, backoff_base_s, payload)
		SELECT 'q', 7, 99900000000, 1700000000, 20, 30, 5, 'x' FROM generate_series(1, 50000) AS i`)
	execute(t, beside, `INSERT INTO __alkstore_dead (id, queue, priority, run_at, created_at, attempts, max_attempts, visibility_timeout_s, backoff_base_s, fence, died_at, last_error, payload)
		SELECT 1000000 + i, 'q', 0, 1700000000, 1700000000, 1, 20, 30, 5, 1, 1700000000, 'x', 'x' FROM generate_series(1, 100000) AS i`)
	for _, statistics := range []string{"no", "fresh"} {
		t.Run("K86_through_a_pooler_no_hot_statement_reads_a_table_with_"+statistics+"_statistics", func(t *testing.T) {
			if statistics == "fresh" {
				execute(t, beside, "ANALYZE __alkstore_live, __alkstore_dead")
			}
			conn := connect(t, db, "SET jit = on") // the defaults
			for name := range hot {
				plan := planOf(t, conn, s, name, false)
				bad := slices.DeleteFunc(unindexed(plan), func(scan string) bool {
					return strings.HasSuffix(scan, "_failures") // which is small
				})
				if len(bad) > 0 {
					t.Errorf("%s: %v in\n%s", name, bad, plan)
				}
			}
		})
	}
	t.Run("T3_a_claim_touches_what_it_claims", func(t *testing.T) {
		conn := connect(t, db, ours)
		for _, name := range []string{"claim_proven", "claim"} {
			if n := hits(t, planOf(t, conn, s, name, true)); n > 3000 {
				t.Errorf("%s of 100 jobs among 150,000: got %d buffers", name, n)
			}
		}
		for _, name := range []string{"next_ready", "claim_exhausted"} {
			if n := hits(t, planOf(t, conn, s, name, true)); n > 100 {
				t.Errorf("%s: got %d buffers", name, n)
			}
		}
	})
	for name, settings := range map[string]string{"directly": ours, "through_a_pooler": "SET jit = on"} {
		t.Run("K94_a_page_reads_little_"+name, func(t *testing.T) {
			conn := connect(t, db, settings)
			for _, queue := range []string{"", "q", "none"} {
				for _, state := range []string{"", "pending", "processing", "dead"} {
					plan := explain(t, conn, s, "list", map[string]any{
						"queue": queue, "state": state, "upto": int64(math.MaxInt64), "limit": 100, "window": 2000, "payload_limit": 100,
					}, true)
					if n := hits(t, plan); n > 1500 {
						t.Errorf("queue %q, state %q: got %d buffers\n%s", queue, state, n, plan)
					}
				}
			}
		})
	}
}

// ours is what dsn.go sets.
const ours = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_hashjoin = off;" +
	"SET enable_mergejoin = off; SET jit = off"

func connect(t *testing.T, db pgtest.Database, settings string) *pgx.Conn {
	t.Helper()
	conn := must(pgx.Connect(t.Context(), db.URL))(t)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	if _, err := conn.Exec(t.Context(), settings); err != nil {
		t.Fatal(err)
	}
	return conn
}

// comparedByID are joins that read one side whole for each row of the other.
var comparedByID = regexp.MustCompile(`Join Filter: .*\b(?:job_)?id = .*`)

// A statement on many jobs must look each one up, whatever the table looked like when its plan was made: it is kept for as
// long as the connection, and the queue may be filled or emptied in between.
func TestManyJobsAreLookedUpByID(t *testing.T) {
	db, ok := pgtest.New(t)
	if !ok {
		return
	}
	s := open(t, db.DSN(), postgres.Options{})
	beside := pool(t, db)
	const fill = `INSERT INTO __alkstore_live (queue, priority, run_at, created_at, max_attempts, visibility_timeout_s, backoff_base_s, payload)
		SELECT 'q', 0, 1700000000, 1700000000, 20, 30, 5, 'x' FROM generate_series(1, %d) AS i`
	for _, c := range []struct{ name, change string }{
		{"never analyzed", ""},
		{"empty", "VACUUM (ANALYZE)"},
		{"one job", fmt.Sprintf(fill, 1)},
		{"nothing in process", fmt.Sprintf(fill, 50_000)},
		{"all in process", "UPDATE __alkstore_live SET state = 'processing', fence = 1, claim_expires_at = 9900000000"},
	} {
		if c.change != "" {
			execute(t, beside, c.change)
			execute(t, beside, "VACUUM (ANALYZE)")
		}
		t.Run(c.name, func(t *testing.T) {
			conn := connect(t, db, ours)
			for name := range hot {
				plan := planOf(t, conn, s, name, false)
				if bad := comparedByID.FindAllString(plan, -1); len(bad) > 0 {
					t.Errorf("%s: %q in\n%s", name, bad, plan)
				}
			}
		})
	}
}

var buffers = regexp.MustCompile(`Buffers: shared hit=(\d+)`)

// hits is the number of buffers that the whole statement has touched.
func hits(t *testing.T, plan string) (n int) {
	t.Helper()
	m := buffers.FindStringSubmatch(plan)
	if m == nil {
		t.Fatalf("no buffers in\n%s", plan)
	}
	if _, err := fmt.Sscan(m[1], &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// While a transaction is open elsewhere, nothing that is gone can be taken away: a claim must not pass over all of it.
func TestOpenTransactionElsewhere(t *testing.T) {
	db, ok := pgtest.New(t)
	if !ok {
		return
	}
	s := open(t, db.DSN(), postgres.Options{})
	beside := pool(t, db)
	const n = 20_000
	tx := begin(t, beside)
	for _, statement := range []string{"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM __alkstore_live"} {
		if _, err := tx.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	enqueue(t, s, jobs(n, newJob("q"))...)
	for done := 0; done < n-1000; {
		rows := claim(t, s, "q", 500)
		done += len(rows)
		must(s.AckBatch(t.Context(), handles(rows)))(t)
	}
	conn := must(pgx.Connect(t.Context(), db.URL))(t)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	if _, err := conn.Exec(t.Context(), "SET enable_seqscan = off"); err != nil {
		t.Fatal(err)
	}
	arguments := hot["claim_proven"]
	defer func() { hot["claim_proven"] = arguments }()
	hot["claim_proven"] = maps.Clone(arguments)
	hot["claim_proven"]["limit"] = 1
	whole := hits(t, planOf(t, conn, s, "claim_proven", true))
	next := value[int64](t, beside, "SELECT min(id) FROM __alkstore_live WHERE queue = 'q'")
	at := value[int64](t, beside, "SELECT min(run_at) FROM __alkstore_live WHERE queue = 'q'")
	hot["claim_proven"] = map[string]any{
		"queue": "q", "claimant": "w", "limit": 1, "lease_from": must(s.Now(t.Context()))(t) - 15,
		"priorities": []int64{math.MinInt64, 0}, "run_ats": []int64{math.MinInt64, at}, "ids": []int64{0, next},
	}
	hinted := hits(t, planOf(t, conn, s, "claim_proven", true))
	t.Logf("buffers of a claim after %d jobs: %d from the beginning, %d from where the last one stopped", n-1000, whole, hinted)
	if hinted > 100 || hinted > whole/4 {
		t.Errorf("buffers: got %d and %d, want far fewer for the second", whole, hinted)
	}
}
