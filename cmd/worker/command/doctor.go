package command

import (
	"context"
	"fmt"

	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/scheduler"
)

type doctorCommand struct {
	Repair bool `help:"Mend what can be mended without losing a job, then look."`
}

// Help is the second part of the command's help.
func (*doctorCommand) Help() string {
	return "Reads the whole database, which may take a while. Prints one line for each check and for each thing that is " +
		"wrong; exits with 1 if anything is a problem. Warnings alone are no problem. With --repair, stuck claims end, values " +
		"that cannot be are set to defaults, and what is left of jobs that are gone is deleted; a job may run once more. " +
		"Make a backup first if in doubt."
}

// The verdicts of a check.
const (
	verdictOK      = "ok"
	verdictWarning = "warning" // worth knowing; may be what was intended
	verdictProblem = "problem" // something is wrong
	verdictMended  = "mended"  // something was wrong
)

// checkJSON is one result of the doctor.
type checkJSON struct {
	Check    string  `json:"check"`
	Verdict  string  `json:"verdict"`
	Detail   string  `json:"detail"`
	JobID    *int64  `json:"job_id"`
	Queue    *string `json:"queue"`
	Schedule *string `json:"schedule"`
}

// diagnosis gathers results.
type diagnosis struct {
	results []checkJSON
	served  map[string]bool // queues that a running worker serves, once they were looked at
}

func (d *diagnosis) add(check, verdict, format string, args ...any) *checkJSON {
	d.results = append(d.results, checkJSON{Check: check, Verdict: verdict, Detail: fmt.Sprintf(format, args...)})
	return &d.results[len(d.results)-1]
}

// fine adds an ok unless something was found since the results were n.
func (d *diagnosis) fine(n int, check, format string, args ...any) {
	if len(d.results) == n {
		d.add(check, verdictOK, format, args...)
	}
}

// Run prints what was found even if a check could not be made; that is itself a problem.
func (c *doctorCommand) Run(ctx context.Context, e *env) error {
	dsn, err := e.dsn()
	if err != nil {
		return err
	}
	var d diagnosis
	err = e.with(ctx, e.open, func(client *queue.Client) error {
		d.add("open", verdictOK, "opened %s; its schema is up to date", shown(dsn))
		d.software(dsn)
		d.fileSystem(dsn)
		if c.Repair {
			if err := d.repair(ctx, client); err != nil {
				return err
			}
		}
		for _, check := range []func(context.Context, *queue.Client) error{d.rows, d.queues, d.schedules} {
			if err := check(ctx, client); err != nil {
				return err
			}
		}
		return nil
	})
	if statusOf(err) == ExitUsage {
		return err
	}
	if err != nil {
		d.add("database", verdictProblem, "%s", oneLine(err.Error()))
	}
	if err := printDiagnosis(e.out, d.results); err != nil {
		return err
	}
	wrong := 0
	for _, r := range d.results {
		if r.Verdict == verdictProblem {
			wrong++
		}
	}
	switch {
	case err != nil:
		return err
	case wrong > 0:
		return failedf("doctor: problems found: %d", wrong)
	}
	return nil
}

// software reports the versions. A version of SQLite that loses data is refused by opening already. // K48
func (d *diagnosis) software(dsn string) {
	if isPostgres(dsn) { // likewise a server that is too old
		return
	}
	v := versions()
	d.add("sqlite", verdictOK, "SQLite %s (%s %s)", v.SQLite, driverModule, v.Driver)
}

func (d *diagnosis) fileSystem(dsn string) {
	path, ok := filePath(dsn)
	if !ok {
		return
	}
	if name := networkFileSystem(path); name != "" {
		d.add("file system", verdictWarning, "%s is on a network file system (%s), where SQLite may lose data: "+
			"move it to a local disk", clean(path), name)
		return
	}
	d.add("file system", verdictOK, "not known to be a network file system")
}

// rows is what the store finds: integrity, and rows that no statement of ours can have left so.
func (d *diagnosis) rows(ctx context.Context, c *queue.Client) error {
	found, err := c.Check(ctx)
	if err != nil {
		return err
	}
	n := len(d.results)
	d.problems(verdictProblem, found)
	d.fine(n, "integrity", "every row is consistent")
	return nil
}

// repair mends what it can and says what it was.
func (d *diagnosis) repair(ctx context.Context, c *queue.Client) error {
	mended, err := c.Repair(ctx)
	d.problems(verdictMended, mended)
	return err
}

func (d *diagnosis) problems(verdict string, found []queue.Problem) {
	for _, p := range found {
		detail := p.Detail
		if p.JobID != 0 {
			detail = fmt.Sprintf("job %d %s", p.JobID, p.Detail)
		}
		r := d.add(p.Kind, verdict, "%s", detail)
		if p.JobID != 0 {
			r.JobID = &p.JobID
		}
		r.Queue = textOrNull(p.Queue)
	}
}

// queues finds jobs that wait for nobody. // K17
func (d *diagnosis) queues(ctx context.Context, c *queue.Client) error {
	stats, err := c.Stats(ctx)
	if err != nil {
		return err
	}
	n := len(d.results)
	d.served = make(map[string]bool)
	for _, s := range stats {
		d.served[s.Queue] = s.Workers > 0
		report := func(verdict, format string, args ...any) {
			d.add("queue", verdict, "queue %s %s", clean(s.Queue), fmt.Sprintf(format, args...)).Queue = &s.Queue
		}
		if err := queue.ValidateName(s.Queue); err != nil {
			report(verdictProblem, "has a name that no worker can serve: %v", err)
			continue
		}
		switch {
		case s.Workers == 0 && s.Ready > 0:
			report(verdictProblem, "has %d ready jobs, the oldest for %v, and no running worker serves it: "+
				"start one, or look for a misspelled name", s.Ready, s.OldestReady)
		case s.Workers == 0 && s.Delayed+s.Processing > 0:
			report(verdictWarning, "has %d delayed and %d processing jobs, and no running worker serves it", s.Delayed, s.Processing)
		}
		if s.Paused {
			report(verdictWarning, "is paused: it hands out nothing until it is resumed")
		}
	}
	d.fine(n, "queue", "no queue has jobs that nobody serves")
	return nil
}

// schedules finds those that cannot fire, and those that fire for nobody. // S2
func (d *diagnosis) schedules(ctx context.Context, c *queue.Client) error {
	all, err := scheduler.List(ctx, c)
	if err != nil {
		return err
	}
	n := len(d.results)
	for _, s := range all {
		report := func(verdict, format string, args ...any) {
			d.add("schedule", verdict, "schedule %s %s", clean(s.Name), fmt.Sprintf(format, args...)).Schedule = &s.Name
		}
		if _, err := scheduler.Parse(s.Spec); err != nil {
			report(verdictProblem, "never fires: %v: set it again, or remove it", err)
		}
		if err := queue.ValidateName(s.Queue); err != nil {
			report(verdictProblem, "fires into a queue that no worker can serve: %v", err)
		} else if !d.served[s.Queue] && !s.Paused {
			report(verdictWarning, "fires into queue %s, which no running worker serves", clean(s.Queue))
		}
	}
	d.fine(n, "schedule", "all schedules can fire: %d", len(all))
	return nil
}

func printDiagnosis(out *output, results []checkJSON) error {
	t := out.table()
	for _, r := range results {
		if out.json {
			if err := out.object(r); err != nil {
				return err
			}
			continue
		}
		t.row(r.Verdict, r.Check, clean(r.Detail))
	}
	if err := t.flush(); err != nil {
		return err
	}
	return out.flush()
}
