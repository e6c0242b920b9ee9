package sqlite

import (
	"database/sql"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var parameter = regexp.MustCompile(`:([a-z_]+)`)

// arguments gives each parameter of a statement its value, NULL if it has none.
func arguments(statement string, values map[string]any) (args []any) {
	var seen []string
	for _, m := range parameter.FindAllStringSubmatch(statement, -1) {
		if !slices.Contains(seen, m[1]) {
			seen = append(seen, m[1])
			args = append(args, sql.Named(m[1], values[m[1]]))
		}
	}
	return args
}

// planOf is what SQLite does with the tables of jobs in one statement.
func planOf(t *testing.T, s *Store, name string) (plan []string) {
	t.Helper()
	text := statement(name)
	rows, err := s.readers.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+text, arguments(text, nil)...)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id, parent, unused int64
		var step string
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(step, "__alkstore_live") || strings.Contains(step, "__alkstore_dead") || strings.Contains(step, " job ") {
			plan = append(plan, step)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return plan
}

func TestPlans(t *testing.T) {
	const (
		live    = "SEARCH __alkstore_live USING "
		dead    = "SEARCH __alkstore_dead USING "
		byID    = "SEARCH job USING INTEGER PRIMARY KEY (rowid=?)"
		first   = live + "COVERING INDEX __alkstore_live_ready (queue=?)"
		further = live + "COVERING INDEX __alkstore_live_ready (queue=? AND priority<?)"
	)
	s := openStore(t, Options{})
	for name, want := range map[string][]string{
		"claim_survey": {first, first, live + "INDEX __alkstore_live_spent (queue=?)"},
		"claim_levels": {first, further, "SEARCH __alkstore_live EXISTS USING COVERING INDEX __alkstore_live_ready (queue=? AND priority=? AND run_at<?)"},
		"claim_ready":  {live + "INDEX __alkstore_live_ready (queue=? AND priority=? AND run_at<?)"},
		"claim_list":   {live + "INDEX __alkstore_live_ready (queue=? AND priority=? AND run_at<?)"},
		"claim_read":   {byID},
		"claim_suspects": {
			live + "INDEX __alkstore_live_suspects (queue=? AND run_at<?)",
			live + "INDEX __alkstore_live_leases (queue=? AND claim_expires_at<?)",
			live + "INDEX __alkstore_live_leases (queue=? AND claim_expires_at=?)",
			byID,
		},
		"claim_take":      {live + "INTEGER PRIMARY KEY (rowid=?)"},
		"claim_take_span": {live + "INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
		"claim_exhausted": {
			live + "INDEX __alkstore_live_spent (queue=? AND state=?)",
			live + "INDEX __alkstore_live_spent (queue=? AND state=? AND claim_expires_at<?)",
			live + "INDEX __alkstore_live_spent (queue=? AND state=? AND claim_expires_at=?)",
		},
		"next_ready": {
			first, further,
			live + "INDEX __alkstore_live_ready (queue=? AND priority=?)",
			live + "INDEX __alkstore_live_leases (queue=? AND claim_expires_at>?)",
			live + "INDEX __alkstore_live_leases (queue=? AND claim_expires_at=?)",
		},
		"idle": {
			"SEARCH job USING COVERING INDEX __alkstore_live_leases (queue=?)",
			"SEARCH job USING INDEX __alkstore_live_tried (queue=?)",
			first, further,
			"SEARCH job USING COVERING INDEX __alkstore_live_ready (queue=? AND priority=? AND run_at<?)",
		},
		"held":            {byID},
		"ack":             {live + "INTEGER PRIMARY KEY (rowid=?)"},
		"ack_span":        {live + "INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
		"heartbeat":       {live + "INTEGER PRIMARY KEY (rowid=?)"},
		"retry":           {live + "INTEGER PRIMARY KEY (rowid=?)"},
		"release":         {live + "INTEGER PRIMARY KEY (rowid=?)"},
		"bury_insert":     {byID},
		"delete_live":     {live + "INTEGER PRIMARY KEY (rowid=?)"},
		"requeue_insert":  {live + "INTEGER PRIMARY KEY (rowid=?)", byID},
		"delete_dead":     {dead + "INTEGER PRIMARY KEY (rowid=?)"},
		"sweep_expired":   {live + "COVERING INDEX __alkstore_live_expiry (queue=? AND expires_at>? AND expires_at<?)"},
		"sweep_repair":    {live + "INDEX __alkstore_live_leases (queue=? AND claim_expires_at=?)"},
		"sweep_retention": {dead + "INDEX __alkstore_dead_retention (queue=? AND <expr><?)"},
		"list": {
			live + "INTEGER PRIMARY KEY (rowid<?)",
			live + "INTEGER PRIMARY KEY (rowid<?)",
			live + "COVERING INDEX __alkstore_live_ready (queue=?)",
			live + "COVERING INDEX __alkstore_live_leases (queue>?)",
			live + "COVERING INDEX __alkstore_live_leases (queue=?)",
			byID,
			dead + "INTEGER PRIMARY KEY (rowid<?)",
			dead + "COVERING INDEX __alkstore_dead_queue (queue=? AND id<?)",
			byID,
		},
		"queues": {
			live + "COVERING INDEX __alkstore_live_ready", // the first entry
			live + "COVERING INDEX __alkstore_live_ready (queue>?)",
			live + "COVERING INDEX __alkstore_live_leases",
			live + "COVERING INDEX __alkstore_live_leases (queue>?)",
			dead + "COVERING INDEX __alkstore_dead_queue",
			dead + "COVERING INDEX __alkstore_dead_queue (queue>?)",
		},
	} {
		t.Run("T3_"+name, func(t *testing.T) {
			plan := planOf(t, s, name)
			if d := cmp.Diff(want, plan); d != "" {
				t.Errorf("plan (-want +got):\n%s", d)
			}
			for _, step := range plan {
				if strings.HasPrefix(step, "SCAN") {
					t.Errorf("%s: reads every row", step)
				}
			}
		})
	}
}
