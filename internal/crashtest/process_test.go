//go:build unix

package crashtest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
	"github.com/alkstore/alkworker/queue"
)

// patience is how long to wait for something that must happen. Only a failing test waits that long.
const patience = slowness * time.Minute

// scene is a database, a ledger and the processes around them.
type scene struct {
	*testing.T
	client *queue.Client // of the test itself
	dir    string        // of all files but the database, which may be elsewhere
	db     string
	ledger *ledger // in which the test notes whom it has killed
	path   string  // of the ledger
	casts  int
	kept   bool // as files, if the test fails
}

// stager makes an empty database for one test.
type stager func(t *testing.T) *scene

// everywhere runs a proof over both kinds of databases.
func everywhere(t *testing.T, proof func(t *testing.T, newScene stager)) {
	t.Run("file", func(t *testing.T) { proof(t, newScene) })
	t.Run("server", func(t *testing.T) {
		if _, ok := pgtest.New(t); !ok {
			return
		}
		proof(t, func(t *testing.T) *scene {
			t.Helper()
			db, _ := pgtest.New(t)
			return newSceneOn(t, db)
		})
	})
}

// newSceneOn is newScene on a server.
func newSceneOn(t *testing.T, db pgtest.Database) *scene {
	t.Helper()
	s := newSceneIn(t, "", t.TempDir())
	s.db = db.DSN()
	s.open()
	return s
}

func newScene(t *testing.T) *scene {
	t.Helper()
	dir := t.TempDir()
	s := newSceneIn(t, dir, dir)
	s.open()
	return s
}

// newSceneIn has its database and all else in folders of their own, and does not open it.
func newSceneIn(t *testing.T, db, dir string) *scene {
	t.Helper()
	s := &scene{T: t, dir: dir, db: filepath.Join(db, "jobs.db"), path: filepath.Join(dir, "ledger")}
	var err error
	if s.ledger, err = openLedger(s.path, "test"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.ledger.file.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// open opens the database for the test itself, until the end of the test.
func (s *scene) open() {
	s.Helper()
	var err error
	if s.client, err = queue.Open(s.Context(), s.db, part{}.config()); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := s.client.Close(); err != nil {
			s.Error(err)
		}
	})
}

// process is one process that plays a part.
type process struct {
	scene *scene
	part  part
	cmd   *exec.Cmd
	in    io.WriteCloser
	errs  string        // the file with its standard error
	ended chan struct{} // closed when the process is gone and all it said is there

	mu    sync.Mutex
	said  []string
	fresh chan struct{} // closed at the next line
}

// start starts a process. It is killed at the end of the test unless it has ended before.
func (s *scene) start(p part) *process {
	s.Helper()
	s.casts++
	p.DB, p.Ledger = s.db, s.path
	p.Name = fmt.Sprintf("%s%d", p.Role, s.casts)
	text, err := json.Marshal(p)
	if err != nil {
		s.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		s.Fatal(err)
	}
	one := &process{scene: s, part: p, cmd: exec.Command(self), fresh: make(chan struct{}), ended: make(chan struct{})}
	one.cmd.Env = append(os.Environ(), partVariable+"="+string(text))
	one.errs = filepath.Join(s.dir, p.Name+".err")
	errs, err := os.Create(one.errs)
	if err != nil {
		s.Fatal(err)
	}
	defer errs.Close()
	one.cmd.Stderr = errs
	out, oerr := one.cmd.StdoutPipe()
	in, ierr := one.cmd.StdinPipe()
	if err := errors.Join(oerr, ierr, one.cmd.Start()); err != nil {
		s.Fatal(err)
	}
	one.in = in
	go one.listen(out)
	s.Cleanup(func() {
		_ = one.cmd.Process.Kill() // does nothing to a process that has ended
		<-one.ended
		if s.Failed() && !s.kept {
			s.Logf("standard error of %s:\n%s", p.Name, one.complaints())
		}
	})
	return one
}

// complaints is what it has written to its standard error.
func (p *process) complaints() string {
	text, err := os.ReadFile(p.errs)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (p *process) listen(out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		p.mu.Lock()
		p.said = append(p.said, lines.Text())
		close(p.fresh)
		p.fresh = make(chan struct{})
		p.mu.Unlock()
	}
	_ = p.cmd.Wait() // its state says how it ended
	close(p.ended)
}

// heard is what the process has said that begins with a word, and what is closed when it says more.
func (p *process) heard(word string) (lines []string, more chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range p.said {
		if strings.HasPrefix(line, word+" ") || line == word {
			lines = append(lines, line)
		}
	}
	return lines, p.fresh
}

// await waits until the process has said n lines that begin with a word and returns them.
func (p *process) await(word string, n int) []string {
	p.scene.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		ended := false
		select {
		case <-p.ended:
			ended = true
		default:
		}
		lines, more := p.heard(word)
		if len(lines) >= n {
			return lines
		}
		if ended {
			p.scene.Fatalf("%s ended (%v) after %d times %q, want %d", p.part.Name, p.cmd.ProcessState, len(lines), word, n)
		}
		select {
		case <-more:
		case <-p.ended:
		case <-timeout.C:
			p.scene.Fatalf("%s said %d times %q in %v, want %d", p.part.Name, len(lines), word, patience, n)
		}
	}
}

// tell sends a line to the process.
func (p *process) tell(line string) {
	p.scene.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.scene.Fatalf("tell %s: %v", p.part.Name, err)
	}
}

func (p *process) signal(s syscall.Signal) {
	p.scene.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.scene.Fatalf("signal %v to %s: %v", s, p.part.Name, err)
	}
}

// freeze stops the process in its tracks, but not while it holds the lock of the database: nothing could be done about
// that but to wait.
func (p *process) freeze() {
	p.scene.Helper()
	if !p.stop() {
		p.scene.Fatalf("%s has ended", p.part.Name)
	}
}

// stop is freeze. False if the process has ended meanwhile.
func (p *process) stop() (still bool) {
	p.scene.Helper()
	if !strings.HasPrefix(p.scene.db, "postgres:") { // a server finishes what it was sent
		defer p.scene.lock()()
	}
	p.note(stopped)
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return false
	}
	// The signal alone does not say that it stands still.
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		if !errors.Is(err, syscall.EINTR) {
			return err == nil && status.Stopped()
		}
	}
}

// resume lets the process go on.
func (p *process) resume() {
	p.scene.Helper()
	p.signal(syscall.SIGCONT)
	p.note(resumed)
}

// kill kills the process, as a crash would, and notes it in the ledger.
func (p *process) kill() {
	p.scene.Helper()
	p.signal(syscall.SIGKILL)
	<-p.ended
	p.note(killed)
}

// note writes down what was done to the process.
func (p *process) note(what string) {
	p.scene.ledger.add(entry{what: what, worker: p.part.Name, at: time.Now()})
}

// runs says whether the process has not ended yet.
func (p *process) runs() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// finish waits for the process to end by itself, in good order.
func (p *process) finish() {
	p.scene.Helper()
	if state := p.wait(); !state.Success() {
		p.scene.Fatalf("%s: %v", p.part.Name, state)
	}
}

// wait waits for the process to end, in whatever way.
func (p *process) wait() *os.ProcessState {
	p.scene.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case <-p.ended:
	case <-timeout.C:
		p.scene.Fatalf("%s is still there after %v", p.part.Name, patience)
	}
	return p.cmd.ProcessState
}

// term ends a worker as an operator would.
func (p *process) term() {
	p.scene.Helper()
	p.await("up", 1)
	p.signal(syscall.SIGTERM)
	p.finish()
}
