package storetest

import (
	"slices"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

func readRules() []rule {
	return []rule{
		{name: "D3_list_is_newest_first_in_pages", test: listPages},
		{name: "D3_list_by_queue_and_state", test: listFilters},
		{name: "K94_list_finds_what_is_rare_among_the_newest", test: listRare},
		{name: "D3_a_page_does_not_move_when_jobs_come_and_go", test: listStable},
		{name: "K92_list_shows_the_beginning_of_a_payload", test: listPreview},
		{name: "D3_listed_rows_have_every_field_but_the_history", test: listFields},
		{name: "K17_stats_count_each_queue", test: statsCount},
		{name: "K17_stats_tell_the_age_of_the_longest_ready_job", test: statsOldest},
		{name: "K17_stats_name_queues_that_only_have_a_worker_or_a_pause", test: statsEmptyQueues},
		{name: "D2_queues_are_those_with_jobs_of_any_state", test: queuesNamed},
	}
}

func (e *env) list(f sqlstore.Filter) []sqlstore.Row {
	e.Helper()
	page, err := e.store.ListJobs(e.Context(), f)
	e.ok(err)
	return page
}

// mixture makes jobs of two queues in all three states, interleaved, and returns all ids, newest first.
func (e *env) mixture() []int64 {
	e.Helper()
	var ids []int64
	for i := range 12 {
		queue := []string{"mail", "other"}[i%2]
		j := newJob(queue)
		j.Priority = int64(i)
		id := e.enqueueOne(j)
		ids = append(ids, id)
		switch i % 3 {
		case 1:
			e.claim(queue, 1) // the newest, by its priority
		case 2:
			e.fail(handle(e.claim(queue, 1)[0]))
		}
	}
	slices.Reverse(ids)
	return ids
}

func listPages(e *env) {
	ids := e.mixture()
	same(e, "all in one page", rowIDs(e.list(sqlstore.Filter{Limit: 100})), ids)
	for _, size := range []int64{1, 5, 12} {
		got := []int64{}
		f := sqlstore.Filter{Limit: size}
		for {
			page := rowIDs(e.list(f))
			if len(page) == 0 {
				break
			}
			if int64(len(page)) > size || (f.Before != 0 && page[0] >= f.Before) {
				e.Fatalf("page of %d before %d: got %v", size, f.Before, page)
			}
			got = append(got, page...)
			f.Before = page[len(page)-1]
		}
		same(e, "all pages", got, ids)
	}
	same(e, "before the first", len(e.list(sqlstore.Filter{Limit: 5, Before: 1})), 0)
	same(e, "before an id that is not there", rowIDs(e.list(sqlstore.Filter{Limit: 3, Before: 1 << 40})), ids[:3])
}

func listFilters(e *env) { e.filtered(e.mixture(), "", "mail", "other", "none") }

// filtered fails unless lists of these queues, by state or not, are what there is of these jobs.
func (e *env) filtered(ids []int64, queues ...string) {
	e.Helper()
	for _, queue := range queues {
		for _, state := range []sqlstore.State{"", sqlstore.Pending, sqlstore.Processing, sqlstore.Dead} {
			want := []int64{}
			for _, id := range ids {
				r := e.get(id)
				if (queue == "" || r.Queue == queue) && (state == "" || r.State == state) {
					want = append(want, id)
				}
			}
			for _, size := range []int64{1, 2, 100} {
				got := []int64{}
				f := sqlstore.Filter{Queue: queue, State: state, Limit: size}
				for page := e.list(f); len(page) > 0 && len(got) <= len(want); page = e.list(f) {
					got = append(got, rowIDs(page)...)
					f.Before = got[len(got)-1]
				}
				same(e, "list of queue "+queue+" state "+string(state), got, want)
			}
		}
	}
}

// listRare looks for jobs that have a crowd of newer ones before them, all of which are in process, and for some that are
// newer still.
func listRare(e *env) {
	const crowd = 2500
	ids := e.mixture()
	e.enqueue(jobs(crowd, newJob("crowd"))...)
	e.claim("crowd", crowd)
	e.filtered(ids, "mail", "other", "none")
	pending := func() {
		e.Helper()
		want := []int64{}
		for _, id := range ids {
			if e.get(id).State == sqlstore.Pending {
				want = append(want, id)
			}
		}
		for n := range want {
			page := e.list(sqlstore.Filter{State: sqlstore.Pending, Limit: int64(n + 1)})
			same(e, "pending jobs of all queues", rowIDs(page), want[:n+1])
		}
	}
	pending()
	ids = append(e.mixture(), ids...)
	e.filtered(ids, "mail", "other")
	pending()
}

func listStable(e *env) {
	ids := e.mixture()
	first := rowIDs(e.list(sqlstore.Filter{Limit: 4}))
	e.cancel(ids[0], ids[1], ids[3])
	e.purge(ids[0], ids[1], ids[3])
	e.enqueue(jobs(3, newJob("mail"))...)
	same(e, "second page after changes to the first", rowIDs(e.list(sqlstore.Filter{Limit: 4, Before: first[3]})), ids[4:8])
}

func listPreview(e *env) {
	for name, payload := range payloads() {
		j := newJob(name)
		j.Payload = payload
		live := e.enqueueOne(j)
		dead := e.enqueueOne(j)
		_, err := e.store.ClaimBatch(e.Context(), claimOf(name, 1))
		e.ok(err)
		e.fail(sqlstore.Handle{ID: live, Fence: 1})
		for _, limit := range []int64{1, 256, 1024, 70_000} {
			page := e.list(sqlstore.Filter{Queue: name, Limit: 10, PayloadLimit: limit})
			same(e, "listed", rowIDs(page), []int64{dead, live})
			for _, r := range page {
				want := payload[:min(int64(len(payload)), limit)]
				if r.Payload == nil || !slices.Equal(r.Payload, want) || r.PayloadSize != int64(len(payload)) {
					e.Fatalf("payload %s of a %s job cut at %d: got %d bytes of %d, want %d of %d",
						name, r.State, limit, len(r.Payload), r.PayloadSize, len(want), len(payload))
				}
			}
		}
	}
}

func listFields(e *env) {
	e.enqueue(fullJob("pending"))
	e.hold(fullJob("held"))
	e.buryOne(fullJob("dead"))
	for _, r := range e.list(sqlstore.Filter{Limit: 10, PayloadLimit: 1000}) {
		want := e.get(r.ID)
		want.Failures = nil
		same(e, "listed row", r, want)
	}
}

func (e *env) stats() []sqlstore.QueueStats {
	e.Helper()
	stats, err := e.store.Stats(e.Context())
	e.ok(err)
	return stats
}

func statsCount(e *env) {
	same(e, "stats of an empty database", len(e.stats()), 0)
	delayed := newJob("b")
	delayed.DelayS = 100
	e.enqueue(jobs(3, delayed)...)
	e.enqueue(jobs(4, newJob("b"))...)
	e.claim("b", 2)
	e.buryOne(newJob("a"))
	e.hold(newJob("c"))
	want := []sqlstore.QueueStats{
		{Queue: "a", Dead: 1},
		{Queue: "b", Ready: 2, Delayed: 3, Processing: 2, OldestReadyS: new(int64(0))},
		{Queue: "c", Processing: 1},
	}
	for _, s := range e.handles(2) {
		got, err := s.Stats(e.Context())
		e.ok(err)
		same(e, "stats", got, want)
	}
	e.advance(visibility + 1) // a lapsed job is still in the hands of whoever claimed it, as far as anybody knows
	want[1].OldestReadyS = new(int64(visibility + 1))
	same(e, "stats after the claims lapsed", e.stats(), want)
}

func statsOldest(e *env) {
	j := newJob("mail")
	j.DelayS = 10
	e.enqueue(j)
	j.DelayS = 20
	j.Priority = 1
	e.enqueue(j)
	oldest := func(want *int64) {
		e.Helper()
		same(e, "oldest ready", e.stats()[0].OldestReadyS, want)
	}
	oldest(nil)
	e.advance(10)
	oldest(new(int64(0)))
	e.advance(15)
	oldest(new(int64(15)))
	e.claim("mail", 1) // the more urgent one, which is younger
	oldest(new(int64(15)))
	e.claim("mail", 1)
	oldest(nil)
}

func statsEmptyQueues(e *env) {
	ctx := e.Context()
	e.ok(e.store.Announce(ctx, "w1", []string{"mail", "idle"}, 60))
	e.ok(e.store.SetPaused(ctx, "stopped", true))
	e.ok(e.store.SetPaused(ctx, "mail", true))
	e.ok(e.store.SetPaused(ctx, "never", false))
	e.enqueue(newJob("unserved"))
	same(e, "stats", e.stats(), []sqlstore.QueueStats{
		{Queue: "idle", Workers: 1},
		{Queue: "mail", Workers: 1, Paused: true},
		{Queue: "stopped", Paused: true},
		{Queue: "unserved", Ready: 1, OldestReadyS: new(int64(0))},
	})
	e.ok(e.store.SetPaused(ctx, "stopped", false))
	same(e, "number of queues after resuming", len(e.stats()), 3)
}

func queuesNamed(e *env) {
	queues := func(want ...string) {
		e.Helper()
		got, err := e.store.Queues(e.Context())
		e.ok(err)
		if !slices.Equal(got, want) {
			e.Fatalf("queues: got %q, want %q", got, want)
		}
	}
	queues()
	e.ok(e.store.SetPaused(e.Context(), "paused", true))
	e.ok(e.store.Announce(e.Context(), "w", []string{"served"}, 60))
	queues()
	e.enqueue(newJob("b"), newJob("c"), newJob("b"))
	_, h := e.hold(newJob("a"))
	dead := e.buryOne(newJob("d"))
	queues("a", "b", "c", "d")
	_, held := e.hold(newJob("aa"))
	another := e.buryOne(newJob("dd"))
	queues("a", "aa", "b", "c", "d", "dd")
	e.ack(h, held)
	e.purge(dead, another)
	queues("b", "c")
}
