// Command bench runs this project and its peers on the same work, in turn and several rounds, and prints medians, spreads
// and ratios, and the same as JSON. README.md says what is measured and how to read it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := start(ctx)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func start(ctx context.Context) error {
	if text := childOrder(); text != "" {
		return runChild(ctx, text, os.Stdin, os.Stdout)
	}
	return run(ctx, os.Args[1:], os.Stdout, os.Stderr)
}

// selection is what to run.
type selection struct {
	works    []work
	subjects []*Spec
}

func run(ctx context.Context, args []string, out, notes io.Writer) (err error) {
	progress := log.New(notes, "", 0)
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(notes)
	var o Options
	flags.IntVar(&o.Rounds, "rounds", 5, "how often to measure everything")
	flags.Float64Var(&o.Scale, "scale", 1, "multiplies sizes and times; anything below 1 only shows that it runs")
	flags.IntVar(&o.Slots, "slots", 1000, "concurrency of our worker in W4 to W6 and W13")
	flags.DurationVar(&o.Limit, "limit", time.Minute, "when a drain is given up; its rate is that of what was handled by then")
	flags.DurationVar(&o.Steady, "w12", 10*time.Second, "length of W12; docs/performance.md has 10m")
	workList := flags.String("work", "all", "comma-separated, W1 to W13")
	peerList := flags.String("peers", "all", "comma-separated names, each with its variants, or none; "+
		"ours on a file run as well, unless only ours are named; alkworker-pg like a peer")
	dir := flags.String("dir", "", "where to put databases, on the disk to be measured; empty: the temporary directory")
	jsonPath := flags.String("json", "",
		"file for the report as JSON, written after each measurement; -: to standard output at the end")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen, err := choose(*workList, *peerList)
	if err != nil {
		return err
	}
	if flags.NArg() > 0 || o.Rounds < 1 || o.Scale <= 0 || o.Slots < 1 || o.Limit <= 0 || o.Steady <= 0 {
		return fmt.Errorf("arguments %q: rounds, scale, slots, limit and w12 must be positive, and nothing may follow", args)
	}
	root, err := os.MkdirTemp(*dir, "alkbench")
	if err != nil {
		return err
	}
	b := newBench(o, root)
	defer func() { err = errors.Join(err, b.close()) }()
	if err := openToAll(root); err != nil {
		return err
	}
	report := &Report{
		Started: time.Now().UTC(), Command: append([]string{"bench"}, args...), Options: o, Versions: make(map[string]string),
		Settings: make(map[string]string),
	}
	if report.Machine, err = describeMachine(root); err != nil {
		return err
	}
	if report.Machine.FileSystem == memoryFileSystem {
		progress.Print("WARNING: the databases are in memory, where FULL costs nothing; choose a disk with -dir")
	}
	failed := b.measure(ctx, chosen, report, *jsonPath, progress)
	if err := report.print(out); err != nil {
		return err
	}
	if *jsonPath == "-" {
		err = report.write(out)
	}
	return errors.Join(failed, err)
}

// choose reads the two lists.
func choose(workList, peerList string) (s selection, err error) {
	known := works()
	for id := range strings.SplitSeq(workList, ",") {
		id = strings.ToUpper(strings.TrimSpace(id))
		i := slices.IndexFunc(known, func(w work) bool { return w.id == id })
		switch {
		case id == "ALL":
			s.works = known
		case i < 0:
			err = errors.Join(err, fmt.Errorf("there is no work %q", id))
		default:
			s.works = append(s.works, known[i])
		}
	}
	wanted := make(map[string]bool)
	for name := range strings.SplitSeq(peerList, ",") {
		found := name == "none"
		for _, p := range subjects() {
			if name == "all" || p.Name == name || strings.HasPrefix(p.Name, name+"-") {
				wanted[p.Name], found = true, true
			}
		}
		if !found {
			err = errors.Join(err, fmt.Errorf("there is no peer %q", name))
		}
	}
	oursAlone := len(wanted) > 0 && !slices.ContainsFunc(subjects(), func(p *Spec) bool { return wanted[p.Name] && p.Kind != Ours })
	for _, p := range subjects() {
		if p.Kind == Ours && p.Server == NoServer && !oursAlone || wanted[p.Name] {
			s.subjects = append(s.subjects, p)
		}
	}
	return s, err
}

// measure makes all measurements, round by round, and returns an error if any failed.
func (b *bench) measure(ctx context.Context, s selection, report *Report, path string, progress *log.Logger) error {
	report.prepare(ctx, b, &s, progress)
	failed := 0
	for round := 1; round <= b.Rounds; round++ {
		for _, w := range s.works {
			if w.id == "W9" && slices.ContainsFunc(s.works, func(w work) bool { return w.id == "W4" }) {
				continue // W4 measures it as well
			}
			for i := range s.subjects {
				// Each round begins with another one: what comes first may fare better or worse.
				spec := s.subjects[(i+round-1)%len(s.subjects)]
				if spec.why(w.id) != "" {
					continue
				}
				began := time.Now()
				a, err := w.run(ctx, b, spec)
				if ctx.Err() != nil {
					return ctx.Err()
				}
				result := Result{Work: w.id, Subject: spec.Name, Round: round, Metrics: a.Metrics, Series: a.Series, Notes: a.Notes}
				summary := w.columns[0].format(Summary{Median: a.Metrics[w.columns[0].metric]}, true) + " " + w.columns[0].title
				if err != nil {
					failed++
					result.Error, summary = err.Error(), "FAILED: "+err.Error()
				}
				progress.Printf("round %d %-3s %-20s %s (took %.1fs)", round, w.id, spec.Name, summary,
					time.Since(began).Seconds())
				report.Results = append(report.Results, result)
				report.summarize()
				if path != "" && path != "-" {
					if err := report.save(path); err != nil {
						return err
					}
				}
			}
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d measurements failed", failed)
	}
	return nil
}

// prepare starts the servers, notes what is left out, and which versions there are. Subjects whose server is missing are
// taken out of the selection.
func (r *Report) prepare(ctx context.Context, b *bench, s *selection, progress *log.Logger) {
	r.Versions = versions(ctx)
	var able []*Spec
	for _, spec := range s.subjects {
		h, err := b.host(ctx, spec.Server)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			progress.Printf("%s is left out: %v", spec.Name, err)
			r.Omissions = append(r.Omissions, Omission{Subject: spec.Name, Reason: err.Error()})
			continue
		}
		able = append(able, spec)
		if v := h.version(); v != "" {
			name, version, _ := strings.Cut(v, " ")
			r.Versions[name] = version
		}
		for _, w := range s.works {
			why := spec.why(w.id)
			if why == "" {
				r.Settings[spec.Name] = spec.Settings
			} else if why != onlyElsewhere {
				r.Omissions = append(r.Omissions, Omission{Work: w.id, Subject: spec.Name, Reason: why})
			}
		}
	}
	s.subjects = able
}

// versions are those of the modules that the subjects are made of, as they were built in.
func versions(ctx context.Context) map[string]string {
	found := make(map[string]string)
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return found
	}
	found["go"] = info.GoVersion
	wanted := make(map[string]bool)
	for _, s := range subjects() {
		for _, m := range s.Modules {
			wanted[m] = true
		}
	}
	for _, m := range info.Deps {
		if !wanted[m.Path] {
			continue
		}
		found[m.Path] = m.Version
		if m.Replace != nil {
			found[m.Path] = revision(ctx, m.Replace.Path)
		}
	}
	return found
}

// revision is that of the working copy that a module was built from.
func revision(ctx context.Context, dir string) string {
	out, err := exec.CommandContext(ctx, "git", "-C", dir, "describe", "--always", "--dirty", "--tags").Output()
	if err != nil {
		return "working copy"
	}
	return "working copy " + strings.TrimSpace(string(out))
}
