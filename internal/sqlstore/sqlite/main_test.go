package sqlite_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"

	"go.uber.org/goleak"
)

// childVariable turns a run of this test binary into a child process. SQLite's locks, and what a kill leaves behind, are
// matters between processes.
const childVariable = "ALKWORKER_SQLITE_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		serve(os.Stdin, os.Stdout)
		return
	}
	goleak.VerifyTestMain(m)
}

// request is one line on the standard input of a child, reply one on its output.
type request struct {
	Command string
	Args    []string
}

type reply struct{ Text, Err string }

// serve runs commands until its input ends.
func serve(in io.Reader, out io.Writer) {
	lines, answers := json.NewDecoder(bufio.NewReader(in)), json.NewEncoder(out)
	for {
		var q request
		if err := lines.Decode(&q); err != nil {
			return
		}
		var a reply
		text, err := commands[q.Command](context.Background(), q.Args)
		if a.Text = text; err != nil {
			a.Err = err.Error()
		}
		if err := answers.Encode(a); err != nil {
			return
		}
	}
}

// child is a child process that waits for commands.
type child struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

// startChild ends with the test. The environment is that of the test and what is given.
func startChild(t *testing.T, environment ...string) *child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(append(os.Environ(), environment...), childVariable+"=1")
	cmd.Stderr = os.Stderr
	in, ierr := cmd.StdinPipe()
	out, oerr := cmd.StdoutPipe()
	if err := errors.Join(ierr, oerr, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // some children are killed
	})
	return &child{t: t, cmd: cmd, in: in, out: json.NewDecoder(out)}
}

func startChildren(t *testing.T, n int) []*child {
	t.Helper()
	children := make([]*child, n)
	for i := range children {
		children[i] = startChild(t)
	}
	for _, c := range children {
		c.must("ping") // all are up: what they are told next they begin together
	}
	return children
}

// tell sends a command without waiting for the answer.
func (c *child) tell(command string, args ...string) {
	c.t.Helper()
	if err := json.NewEncoder(c.in).Encode(request{Command: command, Args: args}); err != nil {
		c.t.Fatalf("tell child to %s: %v", command, err)
	}
}

// answer waits for the answer to the oldest command that has none. died says that the process ended instead.
func (c *child) answer() (text string, died bool, err error) {
	var a reply
	if died = c.out.Decode(&a) != nil; !died && a.Err != "" {
		err = errors.New(a.Err)
	}
	return a.Text, died, err
}

func (c *child) ask(command string, args ...string) (string, error) {
	c.t.Helper()
	c.tell(command, args...)
	text, died, err := c.answer()
	if died {
		c.t.Fatalf("child died of %s %q", command, args)
	}
	return text, err
}

func (c *child) must(command string, args ...string) string {
	c.t.Helper()
	text, err := c.ask(command, args...)
	if err != nil {
		c.t.Fatalf("child: %s %q: %v", command, args, err)
	}
	return text
}
