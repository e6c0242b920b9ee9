package exec

import (
	"context"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"time"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
)

const (
	// outputDelay is how long the output of a program that has ended is still read if somebody else, such as a process
	// it left in the background, holds the pipe open. What the program itself wrote is in the pipe by then.
	outputDelay = time.Second

	// firstPause to lastPause, doubling, is how often a group that was told to end is looked at. Nobody reports the end
	// of processes that are not our children.
	firstPause, lastPause = time.Millisecond, 100 * time.Millisecond
)

// program is a Handler that runs one command.
type program struct {
	path      string
	words     []string
	stdout    io.Writer
	killAfter time.Duration
}

// Handle runs the program for one job, as told in the package comment. It returns when the program has ended and, if ctx
// has, when its process group is gone or was killed.
func (p *program) Handle(ctx context.Context, job *queue.Job) error {
	if ctx.Err() != nil {
		return fmt.Errorf("not started: %w", context.Cause(ctx))
	}
	stdin, err := input(job.Payload)
	if err != nil {
		return fmt.Errorf("hand over the payload: %w", err)
	}
	defer stdin.discard()
	stderr := &tail{}
	// Not CommandContext, which knows the one process only.
	cmd := &osexec.Cmd{
		Path:      p.path,
		Args:      p.words,
		Env:       environ(job),
		Stdin:     stdin.File,
		Stdout:    output(p.stdout),
		Stderr:    stderr,
		WaitDelay: outputDelay,
	}
	ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start program: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()

	var cause error
	select {
	case err = <-done:
	case <-ctx.Done():
		cause = context.Cause(ctx)
		err = p.stop(cmd, done)
	}
	return answer(cmd, err, cause, stderr)
}

// payload is a file that one program reads.
type payload struct {
	*os.File
	named bool // it still has a name
}

// input is all of a payload before the program starts. Through a pipe it would end early if the worker died, and the
// program, which lives on, would take a part of it for the whole.
func input(bytes []byte) (p payload, err error) {
	if p.File, err = os.CreateTemp("", "alkworker-payload-*"); err != nil { // 0600
		return p, err
	}
	// No trace of it is left even if the worker dies. Where an open file cannot be removed, discard does it.
	p.named = os.Remove(p.Name()) != nil
	_, err = p.Write(bytes)
	if err == nil {
		_, err = p.Seek(0, io.SeekStart)
	}
	if err != nil {
		p.discard()
	}
	return p, err
}

func (p payload) discard() {
	_ = p.Close() // written by us alone, and read
	if p.named {
		_ = os.Remove(p.Name())
	}
}

// output is what to give to a command as its standard output.
func output(w io.Writer) io.Writer {
	switch w.(type) {
	case nil, *os.File: // which the command deals with itself
		return w
	}
	return deaf{w}
}

// deaf does not hear of failed writes: they would break the pipe and kill the program.
type deaf struct{ to io.Writer }

func (d deaf) Write(p []byte) (int, error) {
	_, _ = d.to.Write(p)
	return len(p), nil
}

// stop ends the whole process group of cmd and returns what its Wait returned.
func (p *program) stop(cmd *osexec.Cmd, done <-chan error) error {
	terminate(cmd)
	timer := time.NewTimer(p.killAfter)
	defer timer.Stop()

	var err error
	select {
	case err = <-done:
	case <-timer.C:
		kill(cmd)
		return <-done
	}
	// The program is gone, others of its group may not be.
	for pause := firstPause; alive(cmd); pause = min(2*pause, lastPause) {
		select {
		case <-time.After(pause):
		case <-timer.C:
			kill(cmd)
			return err
		}
	}
	return err
}

// answer makes the handler's answer of the exit status. cause is set if the program was told to end.
func answer(cmd *osexec.Cmd, err, cause error, stderr *tail) error {
	if cmd.ProcessState == nil {
		return fmt.Errorf("wait for program: %w", err)
	}
	// The status and not err, which may as well tell of the pipes: input that nobody read is no failure.
	status := cmd.ProcessState.ExitCode()
	if status == 0 {
		return nil
	}
	failed := &failure{text: stderr.text(), exit: &osexec.ExitError{ProcessState: cmd.ProcessState}, cause: cause}
	if status == ExitFail {
		return handlers.Fail(failed)
	}
	return failed
}

// failure is an attempt whose program ended with another status than 0. It wraps the *os/exec.ExitError, and the cause
// if the program was told to end.
type failure struct {
	text  string // what the program had to say
	exit  *osexec.ExitError
	cause error
}

func (f *failure) Error() string {
	text := f.text
	if text == "" {
		text = f.exit.Error()
	}
	if f.cause != nil {
		return f.cause.Error() + ": " + text
	}
	return text
}

func (f *failure) Unwrap() []error {
	if f.cause != nil {
		return []error{f.cause, f.exit}
	}
	return []error{f.exit}
}
