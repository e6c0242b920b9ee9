package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// print writes the report for people.
func (r *Report) print(out io.Writer) error {
	p := &printer{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0), nil}
	p.line("%s", r.Machine)
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		p.line("%s %s", name, r.Versions[name])
	}
	p.line("rounds %d, scale %g, slots %d; medians, and the spread (max - min) / median",
		r.Options.Rounds, r.Options.Scale, r.Options.Slots)
	if r.Options.Scale < 1 || r.Options.Rounds < 5 {
		p.line("TOO SHORT TO MEAN ANYTHING: conclusions need -scale 1 and at least -rounds 5")
	}
	for _, w := range works() {
		r.printWork(p, w)
	}
	r.printReached(p)
	r.printOmissions(p)
	p.line("")
	p.line("settings")
	for _, s := range subjects() {
		if text, ok := r.Settings[s.Name]; ok {
			p.line("%s\t%s", s.Name, text)
		}
	}
	p.flush()
	return p.err
}

// printer writes tables and remembers the first error.
type printer struct {
	*tabwriter.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if _, err := fmt.Fprintf(p.Writer, format+"\n", args...); err != nil && p.err == nil {
		p.err = err
	}
}

func (p *printer) flush() {
	if err := p.Flush(); err != nil && p.err == nil {
		p.err = err
	}
}

func (r *Report) printWork(p *printer, w work) {
	var names []string
	for _, s := range subjects() {
		if len(r.of(w.id, s.Name)) > 0 {
			names = append(names, s.Name)
		}
	}
	failed := r.failures(w.id)
	if len(names)+len(failed) == 0 {
		return
	}
	p.flush()
	p.line("")
	p.line("%s  %s", w.id, w.title)
	if len(w.columns) > widest {
		r.printTall(p, w, names)
	} else {
		r.printWide(p, w, names)
	}
	p.flush()
	for _, text := range failed {
		p.line("  FAILED: %s", text)
	}
	for _, note := range r.notes(w.id) {
		p.line("  %s", note)
	}
	p.flush()
}

// widest is how many columns a line has room for.
const widest = 10

// printWide has one line for each subject.
func (r *Report) printWide(p *printer, w work, names []string) {
	titles := []string{"  subject"}
	for i, c := range w.columns {
		titles = append(titles, c.title)
		if i == 0 {
			titles = append(titles, "spread", "to ours")
		}
	}
	p.line("%s", strings.Join(titles, "\t"))
	ours, haveOurs := r.get(w.id, "alkworker", w.columns[0].metric)
	if !haveOurs {
		ours, haveOurs = r.get(w.id, "alkworker-pg", w.columns[0].metric)
	}
	for _, name := range names {
		cells := []string{"  " + name}
		for i, c := range w.columns {
			s, ok := r.get(w.id, name, c.metric)
			cells = append(cells, c.format(s, ok))
			if i > 0 {
				continue
			}
			spread, ratio := "-", "-"
			if ok && s.Rounds > 1 {
				spread = fmt.Sprintf("%.0f%%", 100*s.spread())
			}
			if ok && haveOurs && ours.Median != 0 {
				ratio = fmt.Sprintf("%.3g", s.Median/ours.Median)
			}
			cells = append(cells, spread, ratio)
		}
		p.line("%s", strings.Join(cells, "\t"))
	}
}

// printTall has one line for each metric.
func (r *Report) printTall(p *printer, w work, names []string) {
	p.line("  \t%s", strings.Join(names, "\t"))
	for _, c := range w.columns {
		cells := []string{"  " + c.title}
		for _, name := range names {
			s, ok := r.get(w.id, name, c.metric)
			text := c.format(s, ok)
			if ok && s.Rounds > 1 {
				text += fmt.Sprintf(" (%.0f%%)", 100*s.spread())
			}
			cells = append(cells, text)
		}
		p.line("%s", strings.Join(cells, "\t"))
	}
}

func (c column) format(s Summary, ok bool) string {
	if !ok {
		return "-"
	}
	return fmt.Sprintf("%.*f", c.digits, s.Median)
}

func (r *Report) failures(work string) []string {
	var all []string
	for _, result := range r.Results {
		if result.Work == work && result.Error != "" {
			all = append(all, fmt.Sprintf("%s, round %d: %s", result.Subject, result.Round,
				strings.ReplaceAll(result.Error, "\n", "\n    ")))
		}
	}
	return all
}

// notes are those of the last round.
func (r *Report) notes(work string) []string {
	byName := make(map[string]string)
	var order []string
	for _, result := range r.Results {
		if result.Work != work || len(result.Notes) == 0 {
			continue
		}
		if _, ok := byName[result.Subject]; !ok {
			order = append(order, result.Subject)
		}
		byName[result.Subject] = strings.Join(result.Notes, "; ")
	}
	for i, name := range order {
		order[i] = name + ": " + byName[name]
	}
	return order
}

func (r *Report) printReached(p *printer) {
	if len(r.Reached) == 0 {
		return
	}
	p.flush()
	p.line("")
	p.line("what must be reached")
	p.line("  \twhat\tours\tagainst\tratio\twanted\t")
	for _, g := range r.Reached {
		verdict := "NOT REACHED"
		switch {
		case g.Missing != "":
			p.line("  %s\t%s\t-\t-\t-\t%s\t%s", g.Work, g.What, g.Wanted, g.Missing)
			continue
		case g.OK:
			verdict = "ok"
		}
		p.line("  %s\t%s\t%s\t%s\t%.3g\t%s\t%s", g.Work, g.What, number(g.Ours), number(g.Against), g.Ratio, g.Wanted, verdict)
	}
	p.flush()
}

// number has four digits or more.
func number(v float64) string {
	if math.Abs(v) >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.4g", v)
}

func (r *Report) printOmissions(p *printer) {
	if len(r.Omissions) == 0 {
		return
	}
	p.flush()
	p.line("")
	p.line("not measured")
	for _, o := range r.Omissions {
		work := o.Work
		if work == "" {
			work = "all"
		}
		p.line("  %s\t%s\t%s", o.Subject, work, o.Reason)
	}
	p.flush()
}
