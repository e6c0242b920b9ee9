package main

import (
	"fmt"
	"strings"
	"time"
)

// Reached is one line of the table of what must be reached.
type Reached struct {
	Work    string  `json:"work"`
	What    string  `json:"what"`    // what is compared with what
	Ours    float64 `json:"ours"`    // medians
	Against float64 `json:"against"` // likewise; the limit itself where there is nobody to compare with
	Ratio   float64 `json:"ratio"`   // ours to theirs
	Wanted  string  `json:"wanted"`
	OK      bool    `json:"ok"`
	Missing string  `json:"missing,omitempty"` // why there is no answer
}

// rival names whom a goal is measured against.
type rival string

// The rivals that are not subjects.
const (
	bestSQLite rival = "best SQLite peer"
	bestAny    rival = "lowest peer, whatever its settings"
)

// goal is that our metric is some multiple of somebody else's.
type goal struct {
	work, metric string
	ours         string // subject
	against      rival
	other        string  // metric of the rival; empty: the same
	otherWork    string  // likewise
	factor       float64 // at least; at most if less is better
	less         bool    // less is better
	limit        float64 // instead of a rival: at most
}

// goals are those of docs/performance.md.
func goals() []goal {
	const full, normal, server = "alkworker", "alkworker-normal", "alkworker-pg"
	rate := func(work, ours string, against rival, factor float64) goal {
		return goal{work: work, metric: "rate", ours: ours, against: against, factor: factor}
	}
	latency := func(metric string, limit float64) []goal {
		return []goal{
			{work: "W7", metric: metric, ours: normal, limit: limit, less: true},
			{work: "W7", metric: metric, ours: normal, against: bestAny, factor: 1, less: true},
		}
	}
	all := []goal{
		rate("W1", normal, bestSQLite, 1.3),
		rate("W2", full, bestSQLite, 6), rate("W2", full, "asynq", 3),
		rate("W3", full, bestSQLite, 3), rate("W3", full, "river-pg", 5),
		rate("W4", full, bestSQLite, 7), rate("W4", full, "river-pg", 6), rate("W4", full, "asynq", 6),
	}
	for _, work := range []string{"W2", "W3", "W4"} {
		all = append(all, rate(work, full, "floor", 0.75), rate(work, normal, "floor-normal", 0.75))
	}
	w5 := rate("W5", full, full, 0.9)
	w5.otherWork = "W4"
	all = append(all, w5, rate("W6", full, "asynq", 3), rate("W6", full, "river-pg", 8), rate("W6", full, bestSQLite, 3))
	all = append(all, latency("same_p50_ms", 0.5)...)
	all = append(all, latency("same_p99_ms", 1)...)
	all = append(all, latency("second_p50_ms", 1)...)
	all = append(all, latency("second_p99_ms", 2)...)
	all = append(all,
		goal{work: "W8", metric: "cpu_ms_per_s", ours: full, limit: 1, less: true}, // 0.1 % of a core
		goal{work: "W8", metric: "disk_bytes", ours: full, limit: 0, less: true},
		goal{work: "W9", metric: "rss_mb", ours: full, against: bestSQLite, factor: 1, less: true},
	)
	for i := range claimCases {
		all = append(all, flat(i, full, 1.3)...)
	}
	all = append(all, goal{work: "W11", metric: "log_ratio", ours: full, limit: 1.2, less: true})
	for _, metric := range []string{"p99_ms", "wal_mb", "rss_mb"} {
		all = append(all, goal{work: "W12", ours: full, against: full, factor: 1.2, less: true,
			metric: "last_" + metric, other: "first_" + metric})
	}
	return append(all, serverGoals(server, "river-pg")...)
}

// serverGoals are those on PostgreSQL, beside a peer on the same server.
func serverGoals(ours string, peer rival) []goal {
	var all []goal
	for _, g := range []struct {
		work   string
		factor float64
	}{{"W2", 12}, {"W3", 2}, {"W4", 3}} {
		all = append(all, goal{work: g.work, metric: "rate", ours: ours, against: peer, factor: g.factor})
	}
	for _, where := range []string{"same", "second"} {
		all = append(all,
			goal{work: "W7", metric: where + "_p50_ms", ours: ours, limit: 3, less: true},
			goal{work: "W7", metric: where + "_p99_ms", ours: ours, limit: 10, less: true})
	}
	for i, c := range claimCases {
		if c.state != casePriority && c.state != caseProcessing {
			all = append(all, flat(i, ours, 1.5)...)
		}
	}
	return all
}

// flat says that claims in one case of W10 take at most so many times as long as those that they take turns with.
func flat(i int, ours string, factor float64) []goal {
	var all []goal
	for _, batch := range claimBatches {
		for _, p := range claimPercentiles {
			all = append(all, goal{work: "W10", ours: ours, against: rival(ours), factor: factor, less: true,
				metric: caseMetric(i, claimMetric(batch, p)), other: caseMetric(i, aloneMetric(batch, p))})
		}
	}
	return all
}

// reach compares the medians with the goals of the work that was done.
func reach(r *Report) []Reached {
	var all []Reached
	for _, g := range goals() {
		if len(r.of(g.work, g.ours)) == 0 {
			continue
		}
		all = append(all, g.judge(r))
	}
	return all
}

func (g goal) judge(r *Report) Reached {
	out := Reached{Work: g.work, What: fmt.Sprintf("%s, %s", g.ours, title(g.work, g.metric)), Wanted: g.wanted()}
	ours, ok := r.get(g.work, g.ours, g.metric)
	switch {
	case !ok:
		out.Missing = "not measured"
		return out
	case g.work == "W12" && r.Options.Steady < steadyLength:
		out.Missing = fmt.Sprintf("not judged below -w12 %v", steadyLength)
		return out
	}
	out.Ours = ours.Median
	if g.against == "" {
		out.Against = g.limit
		out.OK = ours.Median <= g.limit
		if g.limit > 0 {
			out.Ratio = ours.Median / g.limit
		}
		return out
	}
	who, theirs, ok := g.rival(r)
	out.What += " : " + g.opponent(who)
	if !ok {
		out.Missing = "the other is not measured"
		return out
	}
	out.Against = theirs
	if theirs == 0 {
		out.Missing = "there is no ratio to nothing"
		return out
	}
	out.Ratio = out.Ours / theirs
	out.OK = out.Ratio >= g.factor
	if g.less {
		out.OK = out.Ratio <= g.factor
	}
	return out
}

// steadyLength is how long W12 has to go on before first and last minute can be compared.
const steadyLength = 10 * time.Minute

// title is that of a column of the table.
func title(work, metric string) string {
	for _, w := range works() {
		for _, c := range w.columns {
			if w.id == work && c.metric == metric {
				return c.title
			}
		}
	}
	return metric
}

// opponent says whom or what we are compared with.
func (g goal) opponent(who string) string {
	switch {
	case g.otherWork != "":
		return g.otherWork
	case g.other != "":
		return title(g.work, g.other)
	case who != "" && who != string(g.against):
		return fmt.Sprintf("%s (%s)", g.against, who)
	}
	return string(g.against)
}

func (g goal) wanted() string {
	switch {
	case g.against == "":
		return fmt.Sprintf("<= %g", g.limit)
	case g.less:
		return fmt.Sprintf("<= %g x", g.factor)
	default:
		return fmt.Sprintf(">= %g x", g.factor)
	}
}

// rival finds whom to compare with, and their median.
func (g goal) rival(r *Report) (who string, value float64, ok bool) {
	work, metric := g.work, g.metric
	if g.otherWork != "" {
		work = g.otherWork
	}
	if g.other != "" {
		metric = g.other
	}
	for _, s := range subjects() {
		switch g.against {
		case bestSQLite:
			if s.Kind != SQLitePeer {
				continue
			}
		case bestAny:
			if s.Kind != SQLitePeer && s.Kind != ServerPeer {
				continue
			}
		default:
			if s.Name != string(g.against) {
				continue
			}
		}
		theirs, measured := r.get(work, s.Name, metric)
		if !measured || incomplete(r, work, s.Name, metric) {
			continue
		}
		if better := theirs.Median > value; !ok || better != g.less {
			who, value, ok = s.Name, theirs.Median, true
		}
	}
	return who, value, ok
}

// incomplete says that a latency is one of the few jobs that arrived at all.
func incomplete(r *Report, work, subject, metric string) bool {
	where, _, found := strings.Cut(metric, "_p")
	if work != "W7" || !found {
		return false
	}
	delivered, ok := r.get(work, subject, where+"_delivered")
	return ok && delivered.Median < 99
}
