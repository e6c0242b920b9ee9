// Package exec does jobs by running a program for each, so that a handler can be written in any language.
//
// The payload is the program's standard input, byte for byte; it may be left unread. It is whole even if the worker dies,
// from a nameless file in the directory for temporary files. The environment is that of the worker and, always set,
//
//	JOB_ID JOB_QUEUE JOB_ATTEMPT JOB_MAX_ATTEMPTS JOB_FENCE JOB_SCHEDULE JOB_SCHEDULED_FOR
//
// where the last two are empty unless a schedule fired the job, and the last is in Unix seconds. JOB_ID with JOB_FENCE
// names the attempt, and never comes twice.
//
// The exit status is the answer: 0 acknowledges the job, [ExitFail] fails it for good, and everything else, a signal as
// well, is a failed attempt that is retried. It counts even if the context had ended before. The last 4 KiB of standard
// error, as valid UTF-8 and without trailing white space, are the error text; if there is none, the exit status is.
//
// The program runs in a process group of its own. When the context of the attempt ends, the whole group gets SIGTERM,
// and SIGKILL after [Options.KillAfter] if any of it is left; the error text then begins with the cause. When the program
// ends by itself, processes that it left in the background are not touched, but can no longer write to its output. A
// process that moved to another group is out of reach, and a worker that dies itself signals nothing.
//
// On Windows the group gets CTRL_BREAK instead of SIGTERM, and is killed as the tree of processes below the program.
package exec

import (
	"errors"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/kballard/go-shellquote"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
)

// ExitFail is the exit status by which a program fails its job for good.
const ExitFail = 100

// DefaultKillAfter is [Options.KillAfter] when it is zero.
const DefaultKillAfter = 5 * time.Second

// Options say how programs are run. The zero value is what the command line uses.
type Options struct {
	// Stdout gets the standard output of the programs. Nil discards it. If jobs of the queue run at the same time, Write
	// is called at the same time, unless Stdout is an *os.File, which the programs write to directly. A Write that blocks
	// keeps the attempt from ending. What it returns is ignored.
	Stdout io.Writer

	// KillAfter is how long a program that got SIGTERM has before SIGKILL. Zero means [DefaultKillAfter]; a negative
	// value is an error. A worker lets go of a handler ten seconds after its context has ended: give less than that.
	KillAfter time.Duration
}

// New returns a handler that runs command for each job. The command is split into words like a shell would, with quotes
// and backslashes, and run without a shell: nothing is expanded, and a pipe needs sh -c '…'. On Windows, too, a backslash
// outside single quotes is an escape.
//
// The program is looked up once, now: in PATH, or, if its name has a slash, from the working directory. New fails if it
// is not there, and if the command is empty or has an unfinished quote. One handler runs any number of jobs at a time.
func New(command string, o Options) (handlers.Handler, error) {
	if o.KillAfter < 0 {
		return nil, fmt.Errorf("command %q: negative KillAfter %v", command, o.KillAfter)
	}
	if o.KillAfter == 0 {
		o.KillAfter = DefaultKillAfter
	}
	words, err := shellquote.Split(command)
	if err != nil {
		return nil, fmt.Errorf("split command %q into words: %w", command, err)
	}
	if len(words) == 0 || words[0] == "" {
		return nil, fmt.Errorf("command %q: %w", command, errEmpty)
	}
	path, err := osexec.LookPath(words[0])
	if err == nil {
		path, err = filepath.Abs(path) // a later change of the working directory must not matter
	}
	if err != nil {
		// The reason alone: the error around it repeats the name.
		if e, ok := errors.AsType[*osexec.Error](err); ok {
			err = e.Err
		}
		return nil, fmt.Errorf("command %q: program %q: %w", command, words[0], err)
	}
	return &program{path: path, words: words, stdout: o.Stdout, killAfter: o.KillAfter}, nil
}

var errEmpty = errors.New("names no program")

// environ adds what is known of the job to the worker's environment. Every variable is always set, so that none is
// inherited from a job that the worker itself may be running in.
func environ(job *queue.Job) []string {
	scheduledFor := ""
	if !job.ScheduledFor.IsZero() {
		scheduledFor = strconv.FormatInt(job.ScheduledFor.Unix(), 10)
	}
	return append(os.Environ(),
		"JOB_ID="+strconv.FormatInt(job.ID, 10),
		"JOB_QUEUE="+job.Queue,
		"JOB_ATTEMPT="+strconv.Itoa(job.Attempt),
		"JOB_MAX_ATTEMPTS="+strconv.Itoa(job.MaxAttempts),
		"JOB_FENCE="+strconv.FormatInt(job.Fence, 10),
		"JOB_SCHEDULE="+job.Schedule,
		"JOB_SCHEDULED_FOR="+scheduledFor,
	)
}
