package command_test

import (
	"database/sql"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/rogpeppe/go-internal/testscript"
	_ "modernc.org/sqlite"

	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
)

// patience is how long a script waits for an event that has to come.
const patience = 60 * time.Second

// TestScript runs the scripts of testdata/script. Besides the commands of testscript they have these:
//
//	status N program args…        the program exits with N
//	golden stdout|FILE FILE       like cmp, with times and random names written as T and R
//	start NAME program args…      in the background, with output in NAME.out and NAME.err
//	signal INT|TERM|… NAME        sends a signal to it
//	finish NAME N                 waits for its end: it exits with N
//	await file FILE               waits until the file exists
//	await grep PATTERN FILE       waits until the file matches
//	await stdout PATTERN program… waits until the output of the program matches
//	capture VAR PATTERN FILE      sets a variable to what the pattern's first group matches
//	sql FILE STATEMENT            edits a database by hand: that of WORKER_DB if it is on a server, else the file
//	http N METHOD URL             the URL answers with status N; the body goes to standard output
func TestScript(t *testing.T) { runScripts(t, testscript.Params{Dir: "testdata/script"}, onFile) }

// TestScriptPostgres runs the scripts that are about PostgreSQL, and those that need not know where their jobs are.
func TestScriptPostgres(t *testing.T) {
	if _, ok := pgtest.New(t); !ok {
		return
	}
	files := []string{}
	for _, name := range []string{
		"cancel", "dead", "enqueue", "enqueue_lines", "get", "list", "pause", "registry", "stats", "sweep",
	} {
		files = append(files, "testdata/script/"+name+".txtar")
	}
	runScripts(t, testscript.Params{Files: files, Dir: "testdata/script/postgres"}, onServer(t))
}

// onServer gives each script a schema of its own.
func onServer(t *testing.T) func() (worker, beside string) {
	return func() (worker, beside string) {
		db, _ := pgtest.New(t)
		return db.DSN(), db.SearchPath()
	}
}

func onFile() (worker, beside string) { return "", "" }

// runScripts runs scripts, each on a database of its own: that of the worker, and the same for edits by hand.
func runScripts(t *testing.T, p testscript.Params, database func() (worker, beside string)) {
	testscript.Run(t, testscript.Params{
		Dir:   p.Dir,
		Files: p.Files,
		Setup: func(env *testscript.Env) error {
			// A program under the race detector sleeps a second before it exits, and each script runs dozens.
			race := "GORACE=atexit_sleep_ms=50 " + os.Getenv("GORACE")
			worker, beside := database()
			env.Vars = append(env.Vars, "WORKER_DB="+worker, "BESIDE_DB="+beside, "NO_COLOR=", "TZ=UTC", race)
			env.Values["processes"] = make(map[string]*process)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status":  cmdStatus,
			"golden":  cmdGolden,
			"start":   cmdStart,
			"signal":  cmdSignal,
			"finish":  cmdFinish,
			"await":   cmdAwait,
			"capture": cmdCapture,
			"sql":     cmdSQL,
			"http":    cmdHTTP,
		},
	})
}

// usage stops a script that uses a command wrongly.
func usage(ts *testscript.TestScript, neg bool, ok bool, text string) {
	if neg || !ok {
		ts.Fatalf("usage: %s", text)
	}
}

func cmdStatus(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) >= 2, "status N program args...")
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if got := exitStatus(ts, ts.Exec(args[1], args[2:]...)); got != want {
		ts.Fatalf("%s exited with %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}

func exitStatus(ts *testscript.TestScript, err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	ts.Check(err)
	return 0
}

// volatile is what differs from run to run: times in seconds and in RFC 3339, random suffixes of workers.
var volatile = []struct {
	re *regexp.Regexp
	by string
}{
	{regexp.MustCompile(`\b1[0-9]{9}\b`), "T"},
	{regexp.MustCompile(`\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ`), "T                   "},
	{regexp.MustCompile(`\btester-[A-Z2-7]{6}\b`), "tester-R"},
}

func cmdGolden(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 2, "golden stdout|FILE FILE")
	got, want := ts.ReadFile(args[0]), ts.ReadFile(args[1])
	for _, v := range volatile {
		got = v.re.ReplaceAllString(got, v.by)
	}
	if got != want {
		ts.Fatalf("%s and %s differ\ngot:\n%s\nwant:\n%s", args[0], args[1], got, want)
	}
}

// process is a program in the background.
type process struct {
	cmd   *exec.Cmd
	ended chan error
}

func processes(ts *testscript.TestScript) map[string]*process {
	return ts.Value("processes").(map[string]*process)
}

func find(ts *testscript.TestScript, name string) *process {
	p := processes(ts)[name]
	if p == nil {
		ts.Fatalf("no program %q was started", name)
	}
	return p
}

func cmdStart(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) >= 2, "start NAME program args...")
	name := args[0]
	path, err := exec.LookPath(args[1])
	ts.Check(err)
	stdout, err := os.Create(ts.MkAbs(name + ".out"))
	ts.Check(err)
	defer stdout.Close()
	stderr, err := os.Create(ts.MkAbs(name + ".err"))
	ts.Check(err)
	defer stderr.Close()
	p := &process{cmd: exec.Command(path, args[2:]...), ended: make(chan error, 1)}
	p.cmd.Dir = ts.MkAbs(".")
	p.cmd.Env = scriptEnv(ts)
	p.cmd.Stdout, p.cmd.Stderr = stdout, stderr
	ts.Check(p.cmd.Start())
	go func() { p.ended <- p.cmd.Wait() }()
	processes(ts)[name] = p
	ts.Defer(func() {
		if processes(ts)[name] == p {
			_ = p.cmd.Process.Kill()
			<-p.ended
			ts.Logf("[%s.err]\n%s", name, ts.ReadFile(name+".err"))
		}
	})
}

// scriptEnv is the environment of the script: a TestScript does not hand out all of it.
func scriptEnv(ts *testscript.TestScript) []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "WORK", "WORKER_DB", "NO_COLOR", "TZ", "GORACE", "GOCOVERDIR", "SYSTEMROOT"} {
		env = append(env, name+"="+ts.Getenv(name))
	}
	return env
}

func cmdSignal(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 2, "signal INT|TERM|KILL NAME")
	signals := map[string]os.Signal{"INT": os.Interrupt, "TERM": syscall.SIGTERM, "KILL": os.Kill}
	s, ok := signals[args[0]]
	usage(ts, neg, ok, "signal INT|TERM|KILL NAME")
	ts.Check(find(ts, args[1]).cmd.Process.Signal(s))
}

func cmdFinish(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 2, "finish NAME N")
	p := find(ts, args[0])
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	select {
	case err = <-p.ended:
	case <-time.After(patience):
		ts.Fatalf("%s did not end within %v", args[0], patience)
	}
	delete(processes(ts), args[0])
	ts.Logf("[%s.err]\n%s", args[0], ts.ReadFile(args[0]+".err"))
	if got := exitStatus(ts, err); got != want {
		ts.Fatalf("%s exited with %d, want %d", args[0], got, want)
	}
}

func cmdAwait(ts *testscript.TestScript, neg bool, args []string) {
	const text = "await file FILE | grep PATTERN FILE | stdout PATTERN program args..."
	usage(ts, neg, len(args) >= 2, text)
	var holds func() bool
	switch what := args[0]; {
	case what == "file" && len(args) == 2:
		holds = func() bool { _, err := os.Stat(ts.MkAbs(args[1])); return err == nil }
	case what == "grep" && len(args) == 3:
		re := regexp.MustCompile("(?m)" + args[1])
		holds = func() bool {
			content, err := os.ReadFile(ts.MkAbs(args[2]))
			return err == nil && re.Match(content)
		}
	case what == "stdout" && len(args) >= 3:
		re := regexp.MustCompile("(?m)" + args[1])
		holds = func() bool {
			_ = ts.Exec(args[2], args[3:]...) // what counts is the output
			return re.MatchString(ts.ReadFile("stdout"))
		}
	default:
		usage(ts, neg, false, text)
	}
	deadline := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			ts.Fatalf("waited %v in vain", patience)
		}
	}
}

func cmdCapture(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 3, "capture VAR PATTERN FILE")
	found := regexp.MustCompile(args[1]).FindStringSubmatch(ts.ReadFile(args[2]))
	if len(found) < 2 {
		ts.Fatalf("no match for %q", args[1])
	}
	ts.Setenv(args[0], found[1])
}

func cmdSQL(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 2, "sql FILE STATEMENT")
	driver, dsn := "sqlite", "file:"+ts.MkAbs(args[0])+"?_pragma=busy_timeout(10000)"
	if beside := ts.Getenv("BESIDE_DB"); beside != "" {
		driver, dsn = "pgx", beside
	}
	db, err := sql.Open(driver, dsn)
	ts.Check(err)
	_, err = db.Exec(args[1])
	ts.Check(errors.Join(err, db.Close()))
}

func cmdHTTP(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 3, "http N METHOD URL")
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	req, err := http.NewRequest(args[1], args[2], nil)
	ts.Check(err)
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	body, err := io.ReadAll(resp.Body)
	ts.Check(errors.Join(err, resp.Body.Close()))
	_, err = ts.Stdout().Write(body)
	ts.Check(err)
	if resp.StatusCode != want {
		ts.Fatalf("%s %s answered %d, want %d", args[1], args[2], resp.StatusCode, want)
	}
}
