package handlers

import (
	"errors"
	"fmt"
	"reflect"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/alkstore/alkworker/queue"
)

// Options say how the jobs of one queue are run. The zero value is a good start.
type Options struct {
	// Concurrency is how many jobs of the queue one worker runs at the same time at most. Zero means as many as the
	// worker has slots.
	Concurrency int

	// Timeout is how long one attempt may take before its context is cancelled with [ErrTimeout]. Zero means no limit:
	// heartbeats keep the job ours for as long as the handler runs.
	Timeout time.Duration

	// Stamps are the options of jobs that are enqueued by the name of the queue alone, for instance on the command line.
	// They change nothing for jobs that exist. Zero fields mean the defaults. With [Handle] they come from the queue.
	Stamps queue.Options

	// Middleware goes around the handler of this queue only, outermost first, and inside that of [Registry.Use].
	Middleware []Middleware
}

func (o Options) validate() error {
	var errs []error
	if o.Concurrency < 0 {
		errs = append(errs, fmt.Errorf("negative concurrency %d", o.Concurrency))
	}
	if o.Timeout < 0 {
		errs = append(errs, fmt.Errorf("negative timeout %v", o.Timeout))
	}
	if slices.ContainsFunc(o.Middleware, func(mw Middleware) bool { return mw == nil }) {
		errs = append(errs, errors.New("nil middleware"))
	}
	return errors.Join(append(errs, o.Stamps.Validate())...)
}

// Registration is one queue with the handler that does its jobs.
type Registration struct {
	Name    string
	Handler Handler // wrapped in all middleware, whose panics are errors already
	Options Options
}

// Registry maps the names of queues to handlers. The zero value is empty and ready to use. All methods may be called
// from any number of goroutines.
//
// A worker reads the registry once, when it is made: what is registered later is served by workers made later.
type Registry struct {
	mu         sync.RWMutex
	middleware []Middleware
	entries    map[string]entry
}

type entry struct {
	handler Handler
	options Options
	site    string // file:line of the registration
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry { return &Registry{} }

// Use adds middleware around the handlers of all queues, those registered before as well as those that follow. The
// first middleware is the outermost. A nil middleware panics.
func (r *Registry) Use(mw ...Middleware) {
	for _, m := range mw {
		if m == nil {
			panic(fmt.Sprintf("handlers: nil middleware in Use at %s", callSite()))
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.middleware = append(r.middleware, mw...)
}

// Register makes h the handler of a queue. Each queue has one handler. A second one for the same name, a nil handler, an
// invalid name or invalid options are mistakes of the program: Register panics with all that is wrong and with the file
// and line of the call, and of the first registration if there was one. The registry is then as it was before.
func (r *Registry) Register(name string, h Handler, o Options) {
	r.register(name, h, o, nil)
}

// register adds the problems that its caller found to its own.
func (r *Registry) register(name string, h Handler, o Options, problems []error) {
	site := callSite()
	problems = append(problems, queue.ValidateName(name))
	if isNil(h) {
		problems = append(problems, errors.New("nil handler"))
	}
	problems = append(problems, o.validate())
	o.Middleware = slices.Clone(o.Middleware)

	r.mu.Lock()
	defer r.mu.Unlock()
	if first, ok := r.entries[name]; ok {
		problems = append(problems, fmt.Errorf("already registered at %s", first.site))
	}
	if err := errors.Join(problems...); err != nil {
		panic(fmt.Sprintf("handlers: register queue %q at %s: %v", name, site, err))
	}
	if r.entries == nil {
		r.entries = make(map[string]entry)
	}
	r.entries[name] = entry{handler: h, options: o, site: site}
}

// Queues returns the names of all registered queues in order.
func (r *Registry) Queues() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	names := make([]string, 0, len(r.entries))
	for name := range r.entries {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Options returns the options that a queue was registered with, and false if it was not. Unlike Lookup it wraps nothing.
func (r *Registry) Options(name string) (Options, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	e, ok := r.entries[name]
	e.options.Middleware = slices.Clone(e.options.Middleware)
	return e.options, ok
}

// Lookup returns the registration of a queue, and false if there is none. Its handler is wrapped in the middleware known
// at this moment: first that of Use, then that of the queue's options, outermost first. A middleware that returns nil
// makes Lookup panic.
func (r *Registry) Lookup(name string) (Registration, bool) {
	r.mu.RLock()
	e, ok := r.entries[name]
	middleware := slices.Concat(r.middleware, e.options.Middleware)
	r.mu.RUnlock()
	if !ok {
		return Registration{}, false
	}
	// Outside the lock: middleware is the user's code.
	h := guard(e.handler)
	for _, mw := range slices.Backward(middleware) {
		next := mw(h)
		if isNil(next) {
			panic(fmt.Sprintf("handlers: a middleware of queue %q, registered at %s, returned nil", name, e.site))
		}
		h = guard(next)
	}
	e.options.Middleware = slices.Clone(e.options.Middleware)
	return Registration{Name: name, Handler: h, Options: e.options}, true
}

// isNil also catches the nil function in a HandlerFunc, which would fail only when a job comes.
func isNil(h Handler) bool {
	if h == nil {
		return true
	}
	v := reflect.ValueOf(h)
	return v.Kind() == reflect.Func && v.IsNil()
}

// callSite returns file:line of the nearest caller outside this package.
func callSite() string {
	own := reflect.TypeFor[Registry]().PkgPath() + "."
	pcs := make([]uintptr, 16)
	frames := goruntime.CallersFrames(pcs[:goruntime.Callers(2, pcs)])
	for {
		f, more := frames.Next()
		if f.Function != "" && !strings.HasPrefix(f.Function, own) {
			return fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		if !more {
			return "unknown place"
		}
	}
}
