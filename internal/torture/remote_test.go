package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"os/exec"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// siteVariable makes a run of this test binary a process that serves a store to its parent: its value is a site as
// JSON.
const siteVariable = "ALKWORKER_TORTURE_SITE"

// site says where another process finds what the test works on.
type site struct {
	Store   string // its name in the list of stores
	Address string
	Clock   string // the file of a sharedClock
	Memory  bool   // the process trusts a processMemory
}

// remote is a store in another process. It has what is written below; all else panics.
//
// What is passed is JSON, because gob makes nothing of a pointer to zero. Any number of calls may be under way at once.
type remote struct {
	sqlstore.Store

	client *rpc.Client
	served atomic.Int64 // calls that were answered
}

// newRemote starts the process. It ends with the test, or when this process does, however that ends.
func newRemote(t *testing.T, at site) *remote {
	t.Helper()
	text, err := json.Marshal(at)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), siteVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	out, oerr := cmd.StdoutPipe()
	in, ierr := cmd.StdinPipe()
	if err := errors.Join(oerr, ierr, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	r := &remote{client: jsonrpc.NewClient(pipes{out, in})}
	t.Cleanup(func() {
		_ = r.client.Close() // by which the process ends; how it did is what Wait says
		stuck := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		defer stuck.Stop()
		if err := cmd.Wait(); err != nil {
			t.Errorf("process with a store: %v", err)
		}
	})
	if _, err := r.Now(t.Context()); err != nil { // it is up
		t.Fatal(err)
	}
	return r
}

// pipes are what two processes talk over. Close ends what this side says, and so tells the other one to end.
type pipes struct {
	io.Reader
	io.WriteCloser
}

// serveStore is that process, if this is one.
func serveStore() bool {
	text := os.Getenv(siteVariable)
	if text == "" {
		return false
	}
	if err := serve(text); err != nil {
		fmt.Fprintln(os.Stderr, "process with a store:", err)
		os.Exit(1)
	}
	return true
}

func serve(text string) error {
	var at site
	if err := json.Unmarshal([]byte(text), &at); err != nil {
		return err
	}
	clock, err := openSharedClock(at.Clock)
	if err != nil {
		return err
	}
	defer clock.file.Close()
	for _, s := range stores {
		if s.name != at.Store {
			continue
		}
		store, err := s.open(context.Background(), at.Address, clock.Now)
		if err != nil {
			return err
		}
		if at.Memory {
			store = newProcessMemory().over(store)
		}
		server := rpc.NewServer()
		if err := server.RegisterName("Store", served{store}); err != nil {
			return errors.Join(err, store.Close())
		}
		server.ServeCodec(jsonrpc.NewServerCodec(pipes{os.Stdin, os.Stdout})) // until the parent closes it, or is gone
		return store.Close()
	}
	return fmt.Errorf("no store is called %q", at.Store)
}

// served answers calls of a remote.
type served struct{ store sqlstore.Store }

// Call is one call of a store, without its context.
type Call struct {
	Method string
	Args   []json.RawMessage
}

// Answer is what the store has answered.
type Answer struct {
	Value json.RawMessage
	Error string // empty: none
	Kinds []int  // of the error, as ordinals in the list of kinds
}

// Do calls the store.
func (s served) Do(c Call, a *Answer) error {
	method := reflect.ValueOf(s.store).MethodByName(c.Method)
	in := []reflect.Value{reflect.ValueOf(context.Background())}
	for i, arg := range c.Args {
		v := reflect.New(method.Type().In(i + 1))
		if err := json.Unmarshal(arg, v.Interface()); err != nil {
			return err
		}
		in = append(in, v.Elem())
	}
	out := method.Call(in)
	if failure, ok := out[1].Interface().(error); ok {
		a.Error = failure.Error()
		for i, kind := range kinds {
			if errors.Is(failure, kind) {
				a.Kinds = append(a.Kinds, i)
			}
		}
		return nil
	}
	var err error
	a.Value, err = json.Marshal(out[0].Interface())
	return err
}

// remoteError is an error of the store in the other process: errors.Is finds the same kinds in it.
type remoteError struct {
	text  string
	kinds []error
}

func (e *remoteError) Error() string   { return e.text }
func (e *remoteError) Unwrap() []error { return e.kinds }

// ask calls a method of the store in the other process.
func ask[T any](r *remote, method string, args ...any) (v T, err error) {
	c := Call{Method: method}
	for _, arg := range args {
		text, err := json.Marshal(arg)
		if err != nil {
			return v, err
		}
		c.Args = append(c.Args, text)
	}
	var a Answer
	if err := r.client.Call("Store.Do", c, &a); err != nil {
		return v, fmt.Errorf("%s in another process: %w", method, err)
	}
	r.served.Add(1)
	if a.Error != "" {
		failure := &remoteError{text: a.Error}
		for _, k := range a.Kinds {
			failure.kinds = append(failure.kinds, kinds[k])
		}
		return v, failure
	}
	err = json.Unmarshal(a.Value, &v)
	return v, err
}

func (r *remote) Now(context.Context) (int64, error) { return ask[int64](r, "Now") }

func (r *remote) Enqueue(_ context.Context, jobs []sqlstore.NewJob) ([]int64, error) {
	return ask[[]int64](r, "Enqueue", jobs)
}

func (r *remote) GetJob(_ context.Context, id int64) (*sqlstore.Row, error) {
	return ask[*sqlstore.Row](r, "GetJob", id)
}

func (r *remote) Cancel(_ context.Context, ids []int64) ([]bool, error) {
	return ask[[]bool](r, "Cancel", ids)
}

func (r *remote) Requeue(_ context.Context, ids []int64) ([]bool, error) {
	return ask[[]bool](r, "Requeue", ids)
}

func (r *remote) Purge(_ context.Context, ids []int64) ([]bool, error) {
	return ask[[]bool](r, "Purge", ids)
}

func (r *remote) SweepExpired(_ context.Context, queue, text string) (sqlstore.Swept, error) {
	return ask[sqlstore.Swept](r, "SweepExpired", queue, text)
}

func (r *remote) ClaimBatch(_ context.Context, c sqlstore.Claim) ([]sqlstore.Row, error) {
	return ask[[]sqlstore.Row](r, "ClaimBatch", c)
}

func (r *remote) AckBatch(_ context.Context, handles []sqlstore.Handle) ([]bool, error) {
	return ask[[]bool](r, "AckBatch", handles)
}

func (r *remote) Heartbeat(_ context.Context, extensions []sqlstore.Extension) ([]bool, error) {
	return ask[[]bool](r, "Heartbeat", extensions)
}

func (r *remote) Retry(_ context.Context, retries []sqlstore.Retrial) ([]sqlstore.Verdict, error) {
	return ask[[]sqlstore.Verdict](r, "Retry", retries)
}

func (r *remote) Fail(_ context.Context, failures []sqlstore.Failing) ([]bool, error) {
	return ask[[]bool](r, "Fail", failures)
}

func (r *remote) Release(_ context.Context, releases []sqlstore.Releasing) ([]bool, error) {
	return ask[[]bool](r, "Release", releases)
}

// TestRemote proves that a store in another process goes by the clock of this one, and that arguments, answers and errors
// come through as they are: a fault of the messenger would look like one of the store.
func TestRemote(t *testing.T) {
	t.Parallel()
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			d, ok := s.create(t, nil)
			if !ok {
				return
			}
			clock := newSharedClock(t)
			d.clock = clock
			here, there := d.handle(t), newRemote(t, site{Store: s.name, Address: d.address, Clock: clock.file.Name()})
			for _, at := range []int64{1_700_000_000, 1_700_000_255, 1_700_000_256, 1_699_999_999} {
				clock.Set(at)
				if now, err := there.Now(t.Context()); now != at || err != nil {
					t.Errorf("Now: got %d, %v, want %d", now, err, at)
				}
			}
			job := sqlstore.NewJob{
				Queue: "q", Payload: []byte{0, 0xff, '"'}, ExpiresS: new(int64(0)), // not the same as none
				Stamps: sqlstore.Stamps{VisibilityTimeoutS: 7, MaxAttempts: 2, DeadLetterRetentionS: new(int64(0))},
			}
			ids, err := there.Enqueue(t.Context(), []sqlstore.NewJob{job, job})
			if err != nil || len(ids) != 2 {
				t.Fatalf("Enqueue: got %v, %v, want two ids", ids, err)
			}
			compare := func(id int64) *sqlstore.Row {
				t.Helper()
				got, err := there.GetJob(t.Context(), id)
				want, werr := here.GetJob(t.Context(), id)
				if err := errors.Join(err, werr); err != nil {
					t.Fatal(err)
				}
				if d := diff(want, got); d != "" {
					t.Errorf("GetJob (-here +there):\n%s", d)
				}
				return got
			}
			for _, id := range append(ids, ids[1]+1) {
				compare(id)
			}
			rows, err := there.ClaimBatch(t.Context(), claimOf("q", 2))
			if err != nil || len(rows) != 2 {
				t.Fatalf("ClaimBatch: got %+v, %v, want both jobs", rows, err)
			}
			held := sqlstore.Handle{ID: ids[0], Fence: rows[0].Fence}
			stale := sqlstore.Handle{ID: ids[1], Fence: rows[1].Fence + 1}
			beats, err := there.Heartbeat(t.Context(), []sqlstore.Extension{{Handle: stale}, {Handle: held, S: new(int64(0))}})
			if d := diff([]bool{false, true}, beats); d != "" || err != nil {
				t.Errorf("Heartbeat: %v (-want +got):\n%s", err, d)
			}
			if r := compare(ids[0]); value(r.ClaimExpiresAt) != clock.Now() {
				t.Errorf("deadline: got %d, want %d", value(r.ClaimExpiresAt), clock.Now())
			}

			job.RunAt = new(clock.Now() + 10)
			_, got := there.Enqueue(t.Context(), []sqlstore.NewJob{job})
			_, want := here.Enqueue(t.Context(), []sqlstore.NewJob{job})
			if !errors.Is(got, sqlstore.ErrExpiresFirst) || errors.Is(got, sqlstore.ErrBusy) || got.Error() != want.Error() {
				t.Errorf("Enqueue: got error %v, want %v", got, want)
			}
		})
	}
}
