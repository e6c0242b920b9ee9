package command

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/handlers/exec"
	"github.com/alkstore/alkworker/queue"
)

// programs gathers the commands that a worker runs, each with where it was given.
type programs struct {
	own    []string // queues that the program has handlers of its own for
	stdout io.Writer
	byName map[string]program
}

type program struct {
	handler handlers.Handler
	place   string
}

// add checks one command. A queue has one handler: a second one is an error that names both places.
func (p *programs) add(name, command, place string) error {
	switch first, taken := p.byName[name]; {
	case slices.Contains(p.own, name):
		return fmt.Errorf("queue %q has two handlers: that of the program itself and %s", name, place)
	case taken:
		return fmt.Errorf("queue %q has two handlers: %s and %s", name, first.place, place)
	}
	h, err := exec.New(command, exec.Options{Stdout: p.stdout})
	p.byName[name] = program{handler: h, place: place} // also a bad one, so that nobody misses it
	return err
}

// serve makes the registry that a worker runs: the handlers of the program, the commands of the configuration file and
// those of --exec, with the options of the file. It says all that is wrong, with the file itself as well, and registers
// nothing then.
func serve(e *env, file *config, flags []string) (*handlers.Registry, problems) {
	p := &programs{own: e.registry.Queues(), stdout: programOutput(e.stdout), byName: make(map[string]program)}
	found := slices.Clone(file.found)
	report := func(q queueConfig, line int, err error) {
		err = fmt.Errorf("%s: %w", keyText([]string{"queues", q.name}), err)
		found = append(found, finding{path: file.path, line: line, err: err})
	}
	for _, q := range file.queues {
		if q.exec == "" {
			continue
		}
		if err := p.add(q.name, q.exec, fmt.Sprintf("exec in %s:%d", file.path, q.execLine)); err != nil {
			report(q, q.execLine, err)
		}
	}
	var wrong problems
	for _, flag := range flags {
		name, command, ok := strings.Cut(flag, "=")
		if !ok {
			wrong = append(wrong, fmt.Errorf("--exec=%q: want QUEUE=COMMAND", flag))
			continue
		}
		err := queue.ValidateName(name)
		if err == nil {
			err = p.add(name, command, fmt.Sprintf("--exec=%q", flag))
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("--exec=%q: %w", flag, err))
		}
	}
	options := make(map[string]handlers.Options)
	for _, q := range file.queues {
		options[q.name] = handlers.Options{Concurrency: q.concurrency, Timeout: q.timeout, Stamps: q.stamps}
		written := q.execLine != 0 // if it is wrong, that is said already
		if _, ok := p.byName[q.name]; !ok && !written && !slices.Contains(p.own, q.name) {
			report(q, q.line, fmt.Errorf("has no handler: set exec, or correct the name; the program itself handles %s", listed(p.own)))
		}
	}
	if wrong = append(found.errors(), wrong...); len(wrong) > 0 {
		return nil, wrong
	}
	for _, name := range slices.Sorted(maps.Keys(p.byName)) {
		e.registry.Register(name, p.byName[name].handler, handlers.Options{})
	}
	return withOptions(e.registry, options), nil
}

// withOptions are the handlers of from, in the middleware they have there, with those of the given options that are set.
func withOptions(from *handlers.Registry, options map[string]handlers.Options) *handlers.Registry {
	to := handlers.NewRegistry()
	for _, name := range from.Queues() {
		r, ok := from.Lookup(name)
		if !ok {
			continue // cannot happen: nothing is ever unregistered
		}
		o := r.Options
		o.Middleware = nil // around the handler already
		if by := options[name]; by.Concurrency != 0 {
			o.Concurrency = by.Concurrency
		}
		if by := options[name]; by.Timeout != 0 {
			o.Timeout = by.Timeout
		}
		o.Stamps = overridden(o.Stamps, options[name].Stamps)
		to.Register(name, r.Handler, o)
	}
	return to
}

func listed(names []string) string {
	if len(names) == 0 {
		return "no queue"
	}
	return strings.Join(names, ", ")
}

// programOutput is where programs write their standard output: that of the worker. Only a file may be written to by many
// at the same time.
func programOutput(w io.Writer) io.Writer {
	if f, ok := w.(*os.File); ok {
		return f
	}
	return &lockedWriter{w: w}
}

type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
