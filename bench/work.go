package main

import (
	"context"
	"fmt"
	"maps"
	"time"
)

// work is one thing that is measured.
type work struct {
	id    string
	title string
	// columns are the metrics of the table, the one that decides first.
	columns []column
	run     func(ctx context.Context, b *bench, s *Spec) (answer, error)
}

// column is one metric in the table.
type column struct {
	metric, title string
	digits        int // after the point
}

// The columns that several have.
var (
	rateColumn   = column{"rate", "jobs/s", 0}
	memoryColumn = column{"rss_mb", "peak RSS MB", 0}
	cpuColumns   = []column{{"cpu_us", "CPU us/job", 1}, {"server_us", "server us/job", 1}}
	callColumns  = []column{{"p50_ms", "p50 ms", 3}, {"p99_ms", "p99 ms", 3}, {"max_ms", "max ms", 1}}
)

func columns(first column, groups ...[]column) []column {
	all := []column{first}
	for _, g := range groups {
		all = append(all, g...)
	}
	return all
}

// works are all there is, in the order of the report.
func works() []work {
	return []work{
		{"W1", "enqueue one by one from one goroutine", columns(rateColumn, callColumns, cpuColumns), enqueueWork(1, 1)},
		{"W2", "enqueue from 64 goroutines, one job a call", columns(rateColumn, callColumns, cpuColumns), enqueueWork(64, 1)},
		{"W3", "enqueue a thousand a call", columns(rateColumn, callColumns, cpuColumns), enqueueWork(1, bulk)},
		{"W4", "drain 50,000 no-op jobs", columns(rateColumn, cpuColumns, []column{memoryColumn, {"duplicates", "run twice", 0}}),
			drainWork(50_000)},
		{"W5", "drain with a million waiting", columns(rateColumn, cpuColumns, []column{memoryColumn, {"seconds", "seconds", 1}}),
			drainWork(1_000_000)},
		{"W6", "64 producers and the workers at once, two processes, 10 s", columns(rateColumn, []column{
			{"producer_rate", "enqueued/s", 0}, {"during_rate", "handled/s meanwhile", 0}, {"backlog", "backlog", 0},
			{"cpu_us", "worker CPU us/job", 1}, {"server_us", "server us/job", 1},
			{"duplicates", "run twice", 0}}), bothWork},
		{"W7", "from enqueue to handler start on an idle worker", []column{
			{"same_p50_ms", "same process p50 ms", 2}, {"same_p99_ms", "p99", 2},
			{"second_p50_ms", "second process p50 ms", 2}, {"second_p99_ms", "p99", 2},
			{"second_delivered", "delivered %", 0}}, latencyWork},
		{"W8", "idle worker with ten queues", []column{
			{"cpu_ms_per_s", "CPU ms/s", 3}, {"server_ms_per_s", "server CPU ms/s", 3},
			{"disk_bytes", "bytes to disk", 0}}, idleWork},
		{"W9", "peak memory of the worker in W4", []column{
			{"rss_mb", "MB", 1}, {"start_mb", "before it begins", 1}}, drainWork(50_000)},
		{"W10", "claim time by what else is in the database", claimColumns(), claimWork},
		{"W11", "log bytes over the life of a 1 MiB job", []column{
			{"log_ratio", "x payload", 3}, {"heartbeats", "heartbeats", 0}}, writeWork},
		{"W12", "steady 500 jobs/s, handlers of 5 ms", []column{
			{"last_p99_ms", "last p99 ms", 2}, {"first_p99_ms", "first p99 ms", 2}, {"last_p50_ms", "last p50 ms", 2},
			{"max_ms", "max ms", 1}, {"first_wal_mb", "first WAL MB", 1}, {"last_wal_mb", "last WAL MB", 1},
			{"first_rss_mb", "first RSS MB", 0}, {"last_rss_mb", "last RSS MB", 0}}, steadyWork},
		{"W13", "drain 50,000 no-op jobs by 1, 2, 4 and 8 worker processes", crowdColumns(), crowdWork},
	}
}

func enqueueWork(routines, batch int) func(context.Context, *bench, *Spec) (answer, error) {
	return func(ctx context.Context, b *bench, s *Spec) (a answer, err error) {
		err = b.at(ctx, s, func(p Place) error {
			a, err = runStep(ctx, order{
				Subject: s.Name, Step: stepEnqueue, Place: p, Routines: routines, Batch: batch, Duration: b.span(3 * time.Second),
			})
			return err
		})
		return a, err
	}
}

func drainWork(jobs int) func(context.Context, *bench, *Spec) (answer, error) {
	return func(ctx context.Context, b *bench, s *Spec) (a answer, err error) {
		fill := order{Step: stepSeed, Jobs: b.jobs(jobs)}
		err = b.atSeeded(ctx, s, fill, func(p Place) error {
			a, err = runStep(ctx, order{
				Subject: s.Name, Step: stepDrain, Place: p, Jobs: fill.Jobs, Slots: b.Slots, Limit: b.Limit,
			})
			return err
		})
		return a, err
	}
}

// mostJobs is more than any subject can enqueue in W6.
const mostJobs = 10_000_000

func bothWork(ctx context.Context, b *bench, s *Spec) (a answer, err error) {
	err = b.at(ctx, s, func(p Place) error {
		o := order{
			Subject: s.Name, Place: p, Jobs: mostJobs, Routines: 64, Slots: b.Slots, Limit: b.Limit,
			Duration: b.span(10 * time.Second),
		}
		worker, producers := o, o
		worker.Step, producers.Step = stepConsume, stepProduce
		worked, produced, err := runPair(ctx, worker, producers)
		if err != nil {
			return err
		}
		a = worked
		maps.Copy(a.Metrics, produced.Metrics)
		return nil
	})
	return a, err
}

func latencyWork(ctx context.Context, b *bench, s *Spec) (a answer, err error) {
	o := order{Subject: s.Name, Jobs: b.jobs(500), Every: 20 * time.Millisecond, Settle: b.span(time.Second)}
	a.Metrics = Metrics{}
	take := func(where string, from answer) {
		for _, name := range []string{"p50_ms", "p99_ms", "max_ms", "duplicates"} {
			if v, ok := from.Metrics[name]; ok {
				a.Metrics[where+"_"+name] = v
			}
		}
		a.Metrics[where+"_delivered"] = 100 * from.Metrics["handled"] / from.Metrics["jobs"]
		a.Notes = append(a.Notes, from.Notes...)
	}
	err = b.at(ctx, s, func(p Place) error {
		o.Step, o.Place = stepLatency, p
		got, err := runStep(ctx, o)
		if err == nil {
			take("same", got)
		}
		return err
	})
	if err != nil {
		return a, err
	}
	err = b.at(ctx, s, func(p Place) error {
		worker, producer := o, o
		worker.Step, producer.Step = stepReceive, stepSender
		worker.Place, producer.Place = p, p
		got, _, err := runPair(ctx, worker, producer)
		if err == nil {
			take("second", got)
		}
		return err
	})
	return a, err
}

func idleWork(ctx context.Context, b *bench, s *Spec) (a answer, err error) {
	err = b.at(ctx, s, func(p Place) error {
		a, err = runStep(ctx, order{
			Subject: s.Name, Step: stepIdle, Place: p, Queues: 10,
			Duration: b.span(20 * time.Second), Settle: b.span(6 * time.Second),
		})
		return err
	})
	return a, err
}

// claimCases are what is in the database in W10 beside the jobs to claim.
var claimCases = []struct {
	state string
	jobs  int
}{
	{caseReady, 100_000},
	{caseReady, 1_000_000},
	{caseDelayed, 1_000_000},
	{caseDead, 1_000_000},
	{casePriority, 1_000_000},
	{caseProcessing, 10_000},
}

func claimColumns() []column {
	var all []column
	for i, c := range claimCases {
		for _, batch := range claimBatches {
			for _, p := range claimPercentiles {
				all = append(all,
					column{caseMetric(i, claimMetric(batch, p)), fmt.Sprintf("%d %s, %d jobs, p%d us", c.jobs, c.state, batch, p), 0},
					column{caseMetric(i, aloneMetric(batch, p)), fmt.Sprintf("in turn with nothing else, %d jobs, p%d us", batch, p), 0})
			}
		}
	}
	return all
}

func caseMetric(i int, metric string) string { return fmt.Sprintf("case%d_%s", i, metric) }

func claimWork(ctx context.Context, b *bench, s *Spec) (a answer, err error) {
	a.Metrics = Metrics{}
	for i, c := range claimCases {
		err := b.at(ctx, s, func(beside Place) error {
			return b.atSeeded(ctx, s, order{Step: stepFill, Case: c.state, Jobs: b.jobs(c.jobs)}, func(p Place) error {
				got, err := runStep(ctx, order{
					Subject: s.Name, Step: stepClaim, Place: p, Beside: beside, Jobs: max(b.jobs(1000), 20), Limit: b.Limit,
				})
				for metric, value := range got.Metrics {
					a.Metrics[caseMetric(i, metric)] = value
				}
				return err
			})
		})
		if err != nil {
			return a, fmt.Errorf("%d %s: %w", c.jobs, c.state, err)
		}
	}
	return a, nil
}

func writeWork(ctx context.Context, b *bench, s *Spec) (a answer, err error) {
	err = b.at(ctx, s, func(p Place) error {
		a, err = runStep(ctx, order{Subject: s.Name, Step: stepWrite, Place: p, Jobs: 3, Size: 1 << 20})
		return err
	})
	return a, err
}

func steadyWork(ctx context.Context, b *bench, s *Spec) (a answer, err error) {
	const every = 2 * time.Millisecond
	length := b.span(b.Steady)
	err = b.at(ctx, s, func(p Place) error {
		a, err = runStep(ctx, order{
			Subject: s.Name, Step: stepSteady, Place: p, Jobs: max(int(length/every), windows), Every: every, Duration: length,
			Work: 5 * time.Millisecond, Settle: b.span(time.Second),
		})
		return err
	})
	return a, err
}

// crowds are how many processes work in W13.
var crowds = []int{1, 2, 4, 8}

func crowdMetric(processes int, metric string) string {
	return fmt.Sprintf("by%d_%s", processes, metric)
}

func crowdColumns() []column {
	var rates []column
	for _, n := range crowds {
		rates = append(rates, column{crowdMetric(n, "rate"), fmt.Sprintf("jobs/s by %d", n), 0})
	}
	most := crowds[len(crowds)-1]
	return append(rates,
		column{crowdMetric(most, "cpu_us"), fmt.Sprintf("CPU us/job by %d", most), 1},
		column{crowdMetric(most, "server_us"), fmt.Sprintf("server us/job by %d", most), 1},
		column{"duplicates", "run twice", 0})
}

func crowdWork(ctx context.Context, b *bench, s *Spec) (a answer, err error) {
	fill := order{Step: stepSeed, Jobs: b.jobs(50_000)}
	a.Metrics = Metrics{}
	for _, n := range crowds {
		err := b.atSeeded(ctx, s, fill, func(p Place) error {
			got, err := runCrowd(ctx, order{Subject: s.Name, Place: p, Jobs: fill.Jobs, Slots: b.Slots, Limit: b.Limit}, n)
			if err != nil {
				return err
			}
			for _, name := range []string{"rate", "seconds", "cpu_us", "server_us"} {
				a.Metrics[crowdMetric(n, name)] = got.Metrics[name]
			}
			for _, name := range []string{"jobs", "handled", "duplicates", "left", "capped"} {
				a.Metrics[name] += got.Metrics[name]
			}
			a.Notes = append(a.Notes, got.Notes...)
			return nil
		})
		if err != nil {
			return a, fmt.Errorf("%d processes: %w", n, err)
		}
	}
	return a, nil
}
