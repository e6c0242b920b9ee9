package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// process is a running child, seen from its parent.
type process struct {
	order  order
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr *tail
	cancel context.CancelFunc
}

// startProcess starts a child, a copy of this program, so that every measurement begins with an empty heap, counts its
// own memory and leaves nothing behind.
func startProcess(ctx context.Context, o order) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	// Beyond its own limit, a child hangs.
	ctx, cancel := context.WithTimeout(ctx, o.Limit+o.Duration+2*time.Minute)
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), orderVariable+"="+string(text))
	p := &process{order: o, cmd: cmd, stderr: &tail{}, cancel: cancel}
	cmd.Stderr = p.stderr
	endWithParent(cmd)
	var stdout io.ReadCloser
	if p.stdin, err = cmd.StdinPipe(); err == nil {
		if stdout, err = cmd.StdoutPipe(); err == nil {
			err = cmd.Start()
		}
	}
	if err != nil {
		cancel()
		return nil, err
	}
	p.stdout = bufio.NewReaderSize(stdout, 1<<16)
	return p, nil
}

// ready waits until the child has set itself up. A child that fails to says so in an answer.
func (p *process) ready() error {
	line, err := p.stdout.ReadString('\n')
	if err == nil && strings.TrimSpace(line) == lineReady {
		return nil
	}
	a, err := parseAnswer(line, err)
	if err == nil {
		err = fmt.Errorf("answered before it was ready: %s", a.Error)
	}
	return p.explain(errors.Join(err, p.end()))
}

// begin gives the word.
func (p *process) begin() error { return p.say(lineGo) }

// say writes one line to the child.
func (p *process) say(word string) error {
	_, err := fmt.Fprintln(p.stdin, word)
	return p.explain(err)
}

// answer waits for the result and the end of the child.
func (p *process) answer() (answer, error) {
	return p.last(p.stdout.ReadString('\n'))
}

// last reads the last line of a child, and waits for its end.
func (p *process) last(line string, err error) (answer, error) {
	a, err := parseAnswer(line, err)
	ended := p.end()
	if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	if err == nil {
		err = ended
	}
	return a, p.explain(err)
}

func parseAnswer(line string, err error) (a answer, _ error) {
	text, ok := strings.CutPrefix(line, lineAnswer)
	if !ok {
		return a, errors.Join(err, fmt.Errorf("no answer but %q", line))
	}
	err = json.Unmarshal([]byte(text), &a)
	return a, err
}

func (p *process) end() error {
	_ = p.stdin.Close() // it may have ended by itself
	err := p.cmd.Wait()
	p.cancel()
	return err
}

// kill ends a child whose partner has failed.
func (p *process) kill() {
	p.cancel()
	_ = p.end() // killed
}

func (p *process) explain(err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s, %s: %w", p.order.Subject, p.order.Step, err)
	if said := p.stderr.String(); said != "" {
		err = fmt.Errorf("%w\n%s", err, said)
	}
	return err
}

// runStep runs one child from begin to end.
func runStep(ctx context.Context, o order) (answer, error) {
	p, err := startProcess(ctx, o)
	if err != nil {
		return answer{}, err
	}
	if err := p.ready(); err != nil {
		return answer{}, err
	}
	if err := p.begin(); err != nil {
		p.kill()
		return answer{}, err
	}
	return p.answer()
}

// runPair runs two children that begin at the same time. The first is ready before the second starts, so that it may
// create the schema. It is told how many jobs the second has enqueued, if that says so.
func runPair(ctx context.Context, first, second order) (a, b answer, err error) {
	one, err := startProcess(ctx, first)
	if err != nil {
		return a, b, err
	}
	if err := one.ready(); err != nil {
		return a, b, err
	}
	two, err := startProcess(ctx, second)
	if err != nil {
		one.kill()
		return a, b, err
	}
	if err := two.ready(); err != nil {
		one.kill()
		return a, b, err
	}
	if err := errors.Join(one.begin(), two.begin()); err != nil {
		one.kill()
		two.kill()
		return a, b, err
	}
	b, err = two.answer()
	if err != nil {
		one.kill()
		return a, b, err
	}
	if jobs, ok := b.Metrics["enqueued"]; ok {
		if err := one.say(fmt.Sprintf("%.0f", jobs)); err != nil {
			one.kill()
			return a, b, err
		}
	}
	a, err = one.answer()
	return a, b, err
}

// tail keeps the last lines of what a child wrote to standard error.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

const tailBytes = 2000

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - tailBytes; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

// String is what is kept: all that there will be, once the child has ended.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.kept))
}
