package runtime_test

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/runtime"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	c := queue.NewClient(nil, nil)

	t.Run("K42_everything_that_is_wrong_is_reported_together", func(t *testing.T) {
		t.Parallel()
		w, err := runtime.New(nil, nil, runtime.Config{
			Name: "a\nb", Concurrency: -1, Drain: -2, PollInterval: -1, SweepInterval: time.Microsecond,
		})
		if w != nil || err == nil {
			t.Fatalf("got %v, %v, want an error", w, err)
		}
		for _, want := range []string{
			"name", "concurrency -1", "drain -2ns", "poll interval -1ns", "sweep interval 1µs", "client is nil", "registry is nil",
		} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q is not in:\n%v", want, err)
			}
		}
	})

	for name, bad := range map[string]runtime.Config{
		"concurrency_over_the_limit": {Concurrency: 100_001},
		"poll_below_a_millisecond":   {PollInterval: time.Millisecond - 1},
		"negative_sweep":             {SweepInterval: -time.Second},
		"name_too_long":              {Name: strings.Repeat("x", 257)},
		"name_no_UTF-8":              {Name: "\xff"},
		"name_with_NUL":              {Name: "a\x00"},
	} {
		t.Run("K42_"+name, func(t *testing.T) {
			t.Parallel()
			if _, err := runtime.New(c, handlers.NewRegistry(), bad); err == nil {
				t.Errorf("%+v was accepted", bad)
			}
		})
	}

	for name, good := range map[string]runtime.Config{
		"zero":     {},
		"smallest": {Concurrency: 1, Drain: 1, PollInterval: time.Millisecond, SweepInterval: time.Millisecond},
		"largest": {
			Name: strings.Repeat("x", 256), Concurrency: 100_000, Drain: 1<<63 - 1, PollInterval: 1<<63 - 1, SweepInterval: 1<<63 - 1,
		},
		"no_drain": {Drain: runtime.NoDrain},
	} {
		bubble(t, "K42_"+name+"_works", func(w *world) {
			good.NoScheduler = true
			p := w.start(good, serve("q", w.ledger.taking(time.Millisecond), handlers.Options{}))
			ids := w.enqueue("q", 3, queue.EnqueueOptions{})
			w.pass(2 * time.Second)
			w.wantState(gone, ids...)
			w.ledger.wantOnce(w.T, ids...)
			w.stop(p)
		})
	}

	bubble(t, "K42_a_drain_without_end_waits_for_the_last_handler", func(w *world) {
		ids := w.enqueue("q", 1, queue.EnqueueOptions{})
		p := w.start(runtime.Config{Drain: 1<<63 - 1}, serve("q", w.ledger.taking(10*time.Hour), handlers.Options{}))
		synctest.Wait()
		w.stop(p)
		w.wantState(gone, ids...)
	})

	t.Run("a_worker_is_named_after_host_and_process_unless_told", func(t *testing.T) {
		t.Parallel()
		host, err := os.Hostname()
		must(t, err)
		for prefix, config := range map[string]runtime.Config{host + "-": {}, "mine-": {Name: "mine"}} {
			w, err := runtime.New(c, handlers.NewRegistry(), config)
			must(t, err)
			if !strings.HasPrefix(w.Name(), prefix) || w.Name() == prefix {
				t.Errorf("name %q, want %q and something random", w.Name(), prefix)
			}
		}
	})

	bubble(t, "a_registry_is_read_when_the_worker_is_made", func(w *world) {
		r := serve("early", w.ledger.taking(0), handlers.Options{})
		p := w.prepare(runtime.Config{NoScheduler: true}, r)
		r.Register("late", w.ledger.taking(0), handlers.Options{})
		early, late := w.enqueue("early", 1, queue.EnqueueOptions{}), w.enqueue("late", 1, queue.EnqueueOptions{})
		w.run(p)
		synctest.Wait()
		w.wantState(gone, early...)
		w.wantState(queue.Pending, late...)
		w.stop(p)
	})
}
