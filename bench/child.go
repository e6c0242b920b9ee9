package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// Metrics are the numbers of one measurement, by name.
type Metrics map[string]float64

// orderVariable tells a process that it is a child, and what to do.
const orderVariable = "ALKWORKER_BENCH_ORDER"

// order is what one child process does.
type order struct {
	Subject string `json:"subject"`
	Step    string `json:"step"`
	Place   Place  `json:"place"`

	Jobs     int           `json:"jobs"`     // how many
	Size     int           `json:"size"`     // of a payload in bytes, where it is not the usual one
	Batch    int           `json:"batch"`    // jobs a call
	Routines int           `json:"routines"` // that enqueue
	Slots    int           `json:"slots"`    // of our worker
	Queues   int           `json:"queues"`   // of the worker
	Case     string        `json:"case"`     // of W10
	Beside   Place         `json:"beside"`   // where W10 claims in turn, with nothing else in it
	Duration time.Duration `json:"duration"` // how long to go on
	Every    time.Duration `json:"every"`    // between two jobs
	Work     time.Duration `json:"work"`     // of a handler
	Settle   time.Duration `json:"settle"`   // before the measurement begins
	Limit    time.Duration `json:"limit"`    // when to give up
	Foreign  bool          `json:"foreign"`  // another process enqueues
}

// answer is what a child reports.
type answer struct {
	Metrics Metrics   `json:"metrics,omitempty"`
	Notes   []string  `json:"notes,omitempty"`
	Series  []Metrics `json:"series,omitempty"` // of work that is looked at over time
	Seen    []uint32  `json:"seen,omitempty"`   // one bit a job that was handled, of work that several share
	Error   string    `json:"error,omitempty"`
}

// child is a process that carries out one order.
type child struct {
	order
	spec   *Spec
	notes  []string
	series []Metrics
	seen   []uint32
	in     *bufio.Reader
	out    io.Writer
}

// The lines that parent and child exchange. A child says ready once it is set up and measures after go.
const (
	lineReady   = "ready"
	lineGo      = "go"
	lineHandled = "handled " // with a number, before the answer
	lineStop    = "stop"     // all is done
	lineGiveUp  = "give up"  // not all is done
	lineAnswer  = "answer "
)

// runChild is the main function of a child. It answers in one line.
func runChild(ctx context.Context, text string, in io.Reader, out io.Writer) error {
	c := &child{in: bufio.NewReader(in), out: out}
	metrics, err := c.run(ctx, text)
	a := answer{Metrics: metrics, Notes: c.notes, Series: c.series, Seen: c.seen}
	if err != nil {
		a.Error = err.Error()
	}
	line, err := json.Marshal(a)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s%s\n", lineAnswer, line)
	return err
}

func (c *child) run(ctx context.Context, text string) (Metrics, error) {
	err := json.Unmarshal([]byte(text), &c.order)
	if err != nil {
		return nil, fmt.Errorf("order: %w", err)
	}
	if c.spec, err = subject(c.Subject); err != nil {
		return nil, err
	}
	if step, ok := c.spec.Steps[c.Step]; ok {
		return step(ctx, c)
	}
	step, ok := map[string]func(context.Context, *child, Subject) (Metrics, error){
		stepSeed:    seed,
		stepEnqueue: enqueue,
		stepDrain:   drain,
		stepProduce: produce,
		stepConsume: consume,
		stepLatency: latency,
		stepSender:  sender,
		stepReceive: receive,
		stepIdle:    idle,
		stepFill:    fillCase,
		stepClaim:   claimCase,
		stepWrite:   write,
		stepSteady:  steady,
		stepShare:   share,
		stepAwait:   await,
	}[c.Step]
	if !ok {
		return nil, fmt.Errorf("there is no step %q", c.Step)
	}
	s, err := c.spec.Open(ctx, c.spec, c.Place)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	m, err := step(ctx, c, s)
	if err := errors.Join(err, s.Close()); err != nil {
		return m, err
	}
	return m, nil
}

// The steps.
const (
	stepSeed    = "seed"
	stepEnqueue = "enqueue"
	stepDrain   = "drain"
	stepProduce = "produce"
	stepConsume = "consume"
	stepLatency = "latency"
	stepSender  = "send"
	stepReceive = "receive"
	stepIdle    = "idle"
	stepFill    = "fill"
	stepClaim   = "claim"
	stepWrite   = "write"
	stepSteady  = "steady"
	stepShare   = "share"
	stepAwait   = "await"
)

// ready tells the parent that the measurement can begin, and waits for its word.
func (c *child) ready() error {
	if _, err := fmt.Fprintln(c.out, lineReady); err != nil {
		return err
	}
	line, err := c.in.ReadString('\n')
	if err != nil {
		return fmt.Errorf("wait for the word to begin: %w", err)
	}
	if strings.TrimSpace(line) != lineGo {
		return fmt.Errorf("got %q, want %q", line, lineGo)
	}
	return nil
}

// stopTimeout is how long a worker has to stop in good order.
const stopTimeout = 30 * time.Second

// pause waits for a while or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// childOrder is the order of this process; empty unless it is a child.
func childOrder() string { return os.Getenv(orderVariable) }
