// Package command is the command line of a worker.
//
// A program with handlers of its own gets every command by calling [Main] with its registry:
//
//	func main() {
//		reg := handlers.NewRegistry()
//		handlers.Handle(reg, emails, send, handlers.Options{})
//		command.Main(reg)
//	}
//
// Results go to standard output, as text for people or, with --json, as one JSON object a line; logs and errors go to
// standard error. The exit status is [ExitDone], [ExitFailed], [ExitUsage] or [ExitNothing].
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/alkstore/alkworker/handlers"
)

// Main runs the command of os.Args with the handlers of reg, and exits the process with its status. Nil is an empty
// registry.
//
// SIGINT or SIGTERM stops the command: a worker lets running jobs finish first, for at most the time given with --drain.
// A second signal exits at once with ExitFailed; what was running then is run again by another worker once its claim has
// lapsed.
func Main(reg *handlers.Registry) {
	ctx, stop := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		stop(fmt.Errorf("stopped by signal: %v", <-signals))
		_, _ = fmt.Fprintf(os.Stderr, "worker: second signal (%v): exiting at once; "+
			"jobs that were running run again when their claims lapse\n", <-signals)
		os.Exit(ExitFailed)
	}()
	// A closed pipe is then an error of the write, which a worker survives, and not the end of the process.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	os.Exit(Run(ctx, reg, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Run runs one command and returns its exit status. args are without the name of the program; a nil reg is an empty
// registry. The end of ctx stops the command as the first signal does in [Main]. Run looks at the environment variables
// WORKER_DB and NO_COLOR and at the working directory, and changes nothing of the process.
//
// What a worker runs with --exec or a configuration file is registered in reg, so that its middleware goes around those
// programs as well: give each Run a registry of its own.
//
// A read of stdin that is in progress when ctx ends is left behind, and ends when stdin does.
func Run(ctx context.Context, reg *handlers.Registry, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if reg == nil {
		reg = handlers.NewRegistry()
	}
	err := run(ctx, reg, args, stdin, stdout, stderr)
	report(stderr, err)
	return statusOf(err)
}

func run(
	ctx context.Context, reg *handlers.Registry, args []string, stdin io.Reader, stdout, stderr io.Writer,
) (err error) {
	var line commandLine
	parser, err := newParser(&line, stdout, stderr)
	if err != nil {
		return err
	}
	defer func() {
		// Kong ends the process after --help; here it only ends the parsing.
		if r := recover(); r != nil {
			if r != helpShown {
				panic(r)
			}
			err = nil
		}
	}()
	selected, err := parser.Parse(args)
	if err != nil {
		return withHelpHint(err)
	}
	e := &env{
		registry: reg,
		global:   line.global,
		stdin:    interruptible(ctx, stdin),
		out:      newOutput(stdout, line.JSON),
		stdout:   stdout,
		stderr:   stderr,
	}
	selected.BindTo(ctx, (*context.Context)(nil))
	err = selected.Run(e)
	if ferr := e.out.flush(); err == nil {
		err = ferr
	}
	var told *statusError
	if ctx.Err() != nil && errors.Is(err, context.Canceled) && !errors.As(err, &told) {
		return failedf("%w", context.Cause(ctx))
	}
	return err
}

// global are the flags that every command takes.
type global struct {
	DB     *string `placeholder:"DSN" help:"The database: the path of an SQLite file, sqlite:PATH, or postgres://USER:PASSWORD@HOST/DATABASE?NAME=VALUE; schema=NAME says where its tables are. Without it $$WORKER_DB says, then db in the file of --config, then it is alkworker.db in the working directory. enqueue, run and schedule set create a file that is not there; tables that are missing on PostgreSQL are always created."`
	Config *string `placeholder:"FILE" help:"Configuration file, such as worker.toml, with the database, options of queues, and what run needs."`
	JSON   bool    `name:"json" help:"Print one JSON object a line, and nothing else of its own, on standard output. The logs of run become JSON as well."`
}

// commandLine is everything that can be said on the command line.
type commandLine struct {
	global

	Run      runCommand      `cmd:"" help:"Run handlers and fire schedules until SIGINT or SIGTERM."`
	Enqueue  enqueueCommand  `cmd:"" help:"Enqueue one job, or one for each line of a file."`
	Get      getCommand      `cmd:"" help:"Show one job with its failed attempts."`
	List     listCommand     `cmd:"" help:"List jobs, newest first."`
	Stats    statsCommand    `cmd:"" help:"Count the jobs of each queue."`
	Cancel   cancelCommand   `cmd:"" help:"Delete pending and processing jobs; a handler that runs one is told to stop."`
	Requeue  requeueCommand  `cmd:"" help:"Make dead jobs pending again, with all their attempts."`
	Purge    purgeCommand    `cmd:"" help:"Delete dead jobs."`
	Pause    pauseCommand    `cmd:"" help:"Stop new claims of a queue by every worker; running jobs go on."`
	Resume   resumeCommand   `cmd:"" help:"End the pause of a queue."`
	Schedule scheduleCommand `cmd:"" help:"Set, list and change schedules."`
	Sweep    sweepCommand    `cmd:"" help:"Bury what has expired and drop what is past its retention, in every queue, once."`
	Doctor   doctorCommand   `cmd:"" help:"Check the database and tell what is wrong."`
	Backup   backupCommand   `cmd:"" help:"Write a consistent copy of a live SQLite file."`
	Copy     copyCommand     `cmd:"" help:"Bring all jobs and schedules to a PostgreSQL database."`
	Version  versionCommand  `cmd:"" help:"Print the versions of this program, Go and SQLite."`
}

const description = "Enqueues, inspects and runs jobs that are kept in one SQLite file or PostgreSQL database."

// helpShown is what the parser panics with after it has printed help.
const helpShown = "help shown"

func newParser(line *commandLine, stdout, stderr io.Writer) (*kong.Kong, error) {
	options := append(mappers(),
		kong.Name("worker"),
		kong.Description(description),
		kong.Writers(stdout, stderr),
		kong.Exit(func(int) { panic(helpShown) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
	)
	return kong.New(line, options...)
}

// withHelpHint makes an error of the parser say where to read on.
func withHelpHint(err error) error {
	command := "worker"
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil {
		if node := parse.Context.Selected(); node != nil {
			command = node.FullPath()
		}
	}
	return usagef("%w; see %s --help", err, command)
}
