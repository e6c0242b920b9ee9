package postgres

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// A job that has been claimed leaves a dead entry at the front of the ready index, and one that has ended leaves one at the
// front of the leases. They stay until a vacuum, so that each claim passes over all that was claimed since; and while some
// transaction on the server stays open, a vacuum can take none of them away. So a store remembers per queue and priority
// up to where everything has been claimed, and enters the index there.
//
// That is a hint. What may be behind it after all, such as a job of a transaction that took long to commit, or one that
// was handed back, is found by a look from the beginning: at once when somebody says that there is such a job, when a
// claim finds less than it asked for, and from time to time anyway. So the hint costs nobody a job; at worst it costs
// one its place in the order for a moment, while there are others to run.

const (
	// lookShare bounds the part of the time that looks from the beginning may take: one in so many.
	lookShare = 20
	// soonestLook is how soon the next look from the beginning may come while claims find what they ask for.
	soonestLook = 50 * time.Millisecond
	// dearLook is what a look from the beginning may cost and still be made whenever a claim finds less than it asked for.
	dearLook = 20 * time.Millisecond
	// maxMarks bounds how many priorities of a queue are remembered.
	maxMarks = 32
	// leaseMargin is in seconds, and longer than any statement that sets a deadline may take (see leastPatience): none
	// of them waits for a locked row.
	leaseMargin = 15
)

// mark is the place in the claim order of one priority before which nothing is left.
type mark struct{ runAt, id int64 }

func (m mark) before(o mark) bool {
	return cmp.Or(cmp.Compare(m.runAt, o.runAt), cmp.Compare(m.id, o.id)) < 0
}

// nowhere is before every mark.
var nowhere = mark{math.MinInt64, 0}

// pace says when it is time for another look from the beginning.
type pace struct {
	last time.Time
	cost time.Duration
}

func (p pace) due(now time.Time, soonest time.Duration) bool {
	return now.Sub(p.last) >= max(lookShare*p.cost, soonest)
}

// frontier is what is known of one queue.
type frontier struct {
	marks     map[int64]mark // by priority
	doubts    int            // how often it was said that something may be behind a mark
	settled   int            // as many doubts were there when the last look from the beginning began
	looked    pace
	short     bool  // the last claim found less than it asked for, as the next one may
	leaseFrom int64 // no deadline of a claim is earlier
	leases    pace
}

// frontiers are all queues of a store.
type frontiers struct {
	exact  bool // no hint is ever used: see Options
	mu     sync.Mutex
	queues map[string]*frontier
	now    int64 // the latest that the store's clock has shown
	resets int   // how often it was set back since
	ready  pace  // of NextReady
}

// hint is where to enter the indexes of one queue.
type hint struct {
	priorities, runAts, ids []int64
	taken                   []int64 // jobs to leave out; never nil
	leaseFrom               int64
	now                     int64 // the store's clock is not earlier, unless it is set back
	resets, doubts          int
	whole                   bool // from the beginning of every priority
	wholeLeases             bool // from the beginning of the deadlines
}

// beginning is the hint that knows nothing.
func beginning() hint {
	return hint{
		priorities: []int64{math.MinInt64}, runAts: []int64{nowhere.runAt}, ids: []int64{nowhere.id},
		taken: []int64{}, leaseFrom: math.MinInt64, whole: true, wholeLeases: true,
	}
}

func (f *frontier) hint() hint {
	h := beginning()
	h.whole, h.wholeLeases, h.leaseFrom, h.doubts = false, false, f.leaseFrom, f.doubts
	for priority, m := range f.marks {
		if priority == math.MinInt64 {
			h.runAts[0], h.ids[0] = m.runAt, m.id
			continue
		}
		h.priorities, h.runAts, h.ids = append(h.priorities, priority), append(h.runAts, m.runAt), append(h.ids, m.id)
	}
	return h
}

// behind is the hint for a look from the beginning of every priority.
func (h hint) behind() hint {
	b := beginning()
	b.leaseFrom, b.wholeLeases, b.doubts, b.now, b.resets = h.leaseFrom, h.wholeLeases, h.doubts, h.now, h.resets
	return b
}

// of is the frontier of a queue, made when it is first asked for.
func (fs *frontiers) of(queue string) *frontier {
	f := fs.queues[queue]
	if f == nil {
		if fs.queues == nil {
			fs.queues = make(map[string]*frontier)
		}
		f = &frontier{marks: make(map[int64]mark), doubts: 1, leaseFrom: math.MinInt64}
		fs.queues[queue] = f
	}
	return f
}

// forClaim is where a claim enters.
func (fs *frontiers) forClaim(queue string) hint {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.exact {
		return beginning()
	}
	f, now := fs.of(queue), time.Now()
	h := f.hint()
	h.now, h.resets = fs.now, fs.resets
	// A claim that expects to find too little looks from the beginning at once, and need not look again.
	if f.doubts > f.settled || f.looked.due(now, soonestLook) || f.short && f.looked.cost <= dearLook {
		h = h.behind()
	}
	if f.leases.due(now, time.Second) {
		h.leaseFrom, h.wholeLeases = math.MinInt64, true
	}
	return h
}

// lookAgain says whether a claim that entered by a hint and found too little may look from the beginning. If it found
// anything, then only while that is cheap: what it found is waiting to be run, and its leases are running.
func (fs *frontiers) lookAgain(queue string, found bool) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	p := fs.of(queue).looked
	return p.cost <= dearLook || !found && p.due(time.Now(), soonestLook)
}

// gaveUp learns from a look from the beginning that was cut short: it costs as much at least.
func (fs *frontiers) gaveUp(queue string, began time.Time) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.of(queue).looked = pace{time.Now(), time.Since(began)}
}

// claimed learns from a claim that began at the given time: what it found, and what the store's clock was.
func (fs *frontiers) claimed(c sqlstore.Claim, h hint, began time.Time, now int64, rows []sqlstore.Row) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if h.resets == fs.resets && now < h.now { // the clock was set back, and deadlines with it
		fs.forget()
		fs.now = now
	}
	if h.resets != fs.resets {
		return // what it saw was from before that, and its doubts are not those of now
	}
	fs.now = max(fs.now, now)
	f := fs.of(c.Queue)
	took := time.Since(began)
	enough := int64(len(rows)) >= c.Limit
	if c.Kind != sqlstore.OnlyProven && h.wholeLeases {
		f.leases = pace{time.Now(), took}
	}
	if c.Kind != sqlstore.OnlyProven && !enough {
		f.leaseFrom = max(f.leaseFrom, now-leaseMargin) // whatever had lapsed by now has been claimed, or is being
	}
	if c.Kind == sqlstore.OnlySuspects {
		return
	}
	f.short = !enough
	lowest := int64(math.MaxInt64)
	reached := make(map[int64]mark)
	for _, r := range rows {
		lowest = min(lowest, r.Priority)
		if r.LapsedFence == 0 { // a suspect has a place of its own
			at := mark{r.RunAt, r.ID}
			if m, ok := reached[r.Priority]; !ok || m.before(at) {
				reached[r.Priority] = at
			}
		}
	}
	for priority, m := range reached {
		f.marks[priority] = m
	}
	if h.whole {
		f.looked = pace{time.Now(), took}
		f.settled = max(f.settled, h.doubts)
		if enough { // it did not come to the end of the lowest priority, nor to those below
			for priority := range f.marks {
				if _, ok := reached[priority]; priority < lowest || priority == lowest && !ok {
					delete(f.marks, priority)
				}
			}
		}
	}
	if len(f.marks) > maxMarks {
		clear(f.marks)
	}
}

// forReady is where a look for the next ready jobs enters each of the queues. It looks from the beginning unless that is
// dear and was done not long ago.
func (fs *frontiers) forReady(queues []string) (hints []hint, whole bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	whole = fs.exact || fs.ready.cost <= dearLook || fs.ready.due(time.Now(), soonestLook)
	for _, queue := range queues {
		f := fs.of(queue)
		if whole || f.doubts > f.settled {
			hints = append(hints, beginning())
		} else {
			hints = append(hints, f.hint())
		}
	}
	return hints, whole
}

// sawReady learns from a look from the beginning.
func (fs *frontiers) sawReady(began time.Time, whole bool) {
	if !whole {
		return
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.ready = pace{time.Now(), time.Since(began)}
}

// doubt says that a job may have come to lie behind a mark. An empty name means any queue.
func (fs *frontiers) doubt(queue string) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f, ok := fs.queues[queue]; ok {
		f.doubts++
	}
	if queue == "" {
		for _, f := range fs.queues {
			f.doubts++
		}
	}
}

func (fs *frontiers) forget() {
	fs.resets++
	clear(fs.queues)
	fs.ready = pace{}
}

// inOrder sorts jobs as they are claimed (C2).
func inOrder(rows []sqlstore.Row) {
	slices.SortFunc(rows, func(a, b sqlstore.Row) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.RunAt, b.RunAt), cmp.Compare(a.ID, b.ID))
	})
}
