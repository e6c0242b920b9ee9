//go:build unix

package torture

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/sqlite"
)

// writerVariable makes a run of this test binary the process that writes: its value is the path.
const writerVariable = "ALKWORKER_TORTURE_WRITER"

// synchronousVariable is how that process writes; unset: as by default.
const synchronousVariable = "ALKWORKER_TORTURE_SYNCHRONOUS"

// serveChild is that process, if this is one. It says on its standard output what was acknowledged, a line for each call:
// "+1,2,3" for enqueued jobs, "-1,2" for jobs that it is about to ack, "=1,2" for those that are acked.
func serveChild() bool {
	if serveMachine() {
		return true
	}
	path := os.Getenv(writerVariable)
	if path == "" {
		return false
	}
	if err := write(context.Background(), path, os.Stdout); err != nil {
		fmt.Println("!" + strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return true
}

// write enqueues and works off jobs from several goroutines until its parent has had enough.
func write(ctx context.Context, path string, out io.Writer) error {
	s, err := sqlite.Open(ctx, path, sqlite.Options{Synchronous: os.Getenv(synchronousVariable)})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	say := func(mark string, ids []int64) error {
		mu.Lock()
		defer mu.Unlock()
		_, err := fmt.Fprintln(out, mark+strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", ","), "[]"))
		return err
	}
	var group errgroup.Group
	for i := range 3 {
		random := rand.New(rand.NewPCG(uint64(os.Getpid()), uint64(i)))
		group.Go(func() error {
			for {
				batch := make([]sqlstore.NewJob, 1+random.IntN(20))
				for j := range batch {
					batch[j] = sqlstore.NewJob{Queue: "q", Payload: make([]byte, random.IntN(4000)), Stamps: sqlstore.Stamps{
						VisibilityTimeoutS: 1000, MaxAttempts: 1 + random.Int64N(2),
					}}
				}
				ids, err := s.Enqueue(ctx, batch)
				if err != nil {
					return err
				}
				if err := say("+", ids); err != nil {
					return err
				}
				if err := workOff(ctx, s, random, say); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}

func workOff(ctx context.Context, s sqlstore.Store, random *rand.Rand, say func(string, []int64) error) error {
	c := claimOf("q", random.Int64N(20))
	c.Kind = sqlstore.OnlyProven // no claim lapses here
	rows, err := claimed(ctx, s, c)
	if err != nil || len(rows) == 0 {
		return err
	}
	var done []sqlstore.Handle
	var failed []sqlstore.Retrial
	var ids []int64
	for _, r := range rows {
		h := sqlstore.Handle{ID: r.ID, Fence: r.Fence}
		if random.IntN(3) > 0 {
			done, ids = append(done, h), append(ids, r.ID)
		} else {
			failed = append(failed, sqlstore.Retrial{Handle: h, DelayS: random.Int64N(2), Error: "again", DeadText: "dead"})
		}
	}
	if err := say("-", ids); err != nil { // before: what may be gone
		return err
	}
	acked, err := s.AckBatch(ctx, done)
	if err != nil {
		return err
	}
	if slices.Contains(acked, false) {
		return errors.New("an ack was refused")
	}
	if err := say("=", ids); err != nil {
		return err
	}
	_, err = s.Retry(ctx, failed)
	return err
}

// TestPowerLoss stops a process that writes at random instants, copies its files, and looks at what a machine would find
// in them that lost its power then: everything that was acknowledged is there, once. The copies are made by this process,
// which never opens the files of the other one through SQLite.
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "queue.db")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	writer := exec.Command(self)
	writer.Env = append(os.Environ(), writerVariable+"="+path)
	writer.Stderr = os.Stderr
	out, err := writer.StdoutPipe()
	if err := errors.Join(err, writer.Start()); err != nil {
		t.Fatal(err)
	}
	l := newAcknowledged()
	read := make(chan struct{})
	go func() {
		defer close(read)
		l.read(out)
	}()
	defer func() {
		_ = writer.Process.Kill()
		<-read
		_ = writer.Wait()
	}()
	<-l.first
	jobs := 0
	n := rounds(t, 20, func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 0))
		<-time.After(time.Duration(random.IntN(60_000)) * time.Microsecond)
		was := l.now() // before the copy: what comes later may be missing
		if err := stop(writer.Process.Pid); err != nil {
			t.Fatal(err)
		}
		folder := t.TempDir()
		defer os.RemoveAll(folder) // now: there are many
		copied := filepath.Join(folder, "copy.db")
		err := errors.Join(copyFile(path, copied), copyFile(path+"-wal", copied+"-wal"))
		if err := errors.Join(err, writer.Process.Signal(syscall.SIGCONT)); err != nil {
			t.Fatal(err)
		}
		jobs += len(was.enqueued)
		missing, back := was.compare(t, copied)
		if len(missing) > 0 {
			l.more(t) // what is missing may have been acked, and the word of it be on its way
			gone := l.now().gone
			missing = slices.DeleteFunc(missing, func(id int64) bool { return gone[id] })
		}
		if len(missing) > 0 {
			t.Errorf("%d of %d acknowledged jobs are missing in the copy: %v", len(missing), len(was.enqueued), missing)
		}
		if len(back) > 0 {
			t.Errorf("%d of %d jobs that were done are back in the copy: %v", len(back), len(was.done), back)
		}
	})
	if l.trouble != "" {
		t.Errorf("the writer: %s", l.trouble)
	}
	t.Logf("%d copies with %d acknowledged jobs in all", n, jobs)
}

// stop returns when every thread of a child stands still. The signal alone does not say so: a thread that runs on another
// processor goes on for a while, long enough to start the WAL anew between the copies of the two files.
func stop(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("wait until process %d stands still: %w", pid, err)
		case !status.Stopped():
			return fmt.Errorf("process %d ended: %v", pid, status)
		}
		return nil
	}
}

// compare opens a copy and looks for enqueued jobs that are missing and for done ones that are back.
func (w word) compare(t *testing.T, path string) (missing, back []int64) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	problems, err := s.Check(t.Context())
	if err != nil || len(problems) > 0 {
		t.Errorf("Check of the copy: %+v, %v", problems, err)
	}
	there := make(map[int64]bool)
	f := sqlstore.Filter{Limit: 1000}
	for {
		page, err := s.ListJobs(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			if there[r.ID] {
				t.Errorf("job %d is there twice", r.ID)
			}
			there[r.ID] = true
		}
		f.Before = page[len(page)-1].ID
	}
	for _, id := range w.enqueued {
		if !there[id] && !w.gone[id] {
			missing = append(missing, id)
		}
	}
	for id := range w.done {
		if there[id] {
			back = append(back, id)
		}
	}
	return missing, back
}

// acknowledged is what the writer has said.
type acknowledged struct {
	heard   sync.Once
	first   chan struct{} // closed then
	mu      sync.Mutex
	there   map[int64]bool // false: may have been acked
	done    map[int64]bool // acked
	cut     bool           // the power is gone: what is acknowledged from here on counts no more
	late    int            // how many were
	trouble string
	lines   int
}

func newAcknowledged() *acknowledged {
	return &acknowledged{there: make(map[int64]bool), done: make(map[int64]bool), first: make(chan struct{})}
}

func (l *acknowledged) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		l.line(lines.Text())
		l.heard.Do(func() { close(l.first) })
	}
}

func (l *acknowledged) line(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines++
	switch {
	case text[0] == '!':
		l.trouble = text
		return
	case text == cutMark:
		l.cut = true
		return
	}
	for _, field := range strings.Split(text[1:], ",") {
		id, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			continue
		}
		if l.cut && text[0] != '-' {
			l.late++
			continue
		}
		if text[0] == '=' {
			l.done[id] = true
			continue
		}
		// The goroutine that acks a job may say so before the one that enqueued it has said that: gone stays gone.
		if there, known := l.there[id]; !known || there {
			l.there[id] = text[0] == '+'
		}
	}
}

// word is what was acknowledged up to a moment.
type word struct {
	enqueued   []int64
	gone, done map[int64]bool // of those: which may be, and which are
}

func (l *acknowledged) now() word {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := word{gone: make(map[int64]bool), done: maps.Clone(l.done)}
	for id, there := range l.there {
		w.enqueued = append(w.enqueued, id)
		if !there {
			w.gone[id] = true
		}
	}
	return w
}

// more waits until the writer has said so much more that everything from before it was stopped has arrived.
func (l *acknowledged) more(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	until := l.lines + 500
	l.mu.Unlock()
	for deadline := time.Now().Add(time.Minute); ; {
		l.mu.Lock()
		enough := l.lines > until || l.trouble != ""
		l.mu.Unlock()
		if enough {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the writer says nothing any more")
		}
		<-time.After(time.Millisecond)
	}
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	file, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, in)
	return errors.Join(err, file.Close())
}
