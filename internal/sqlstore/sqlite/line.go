package sqlite

import (
	"context"
	"slices"
	"sync"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// lane says how urgent a write is.
type lane int

const (
	ordinary lane = iota
	urgent        // heartbeats: a lease must not lapse because enqueues are waiting in line
	lanes
)

// most is how many rows the calls of one transaction may touch: enough to make the cost of a commit vanish, and few enough
// that a heartbeat which arrives just too late for one does not wait long for the next. A larger call is alone.
const most = 1000

// alone is the size of work that shares its transaction with no other.
const alone = most

// call is one write, from the moment it is asked for until it is done.
type call struct {
	ctx  context.Context // of the caller, who waits meanwhile: this is a function call in a queue
	size int             // rows that it touches
	work func(ctx context.Context, t *tx) error

	asks   bool // work asks for the time itself
	waives bool // it is not worth waiting for the lock of another process

	// Instead of work: new jobs, which are inserted together with those of other calls.
	jobs []sqlstore.NewJob
	ids  []int64 // of them, when it is done

	number int64         // in the order in which calls came to wait
	ready  chan struct{} // holds one element when the call is done or has to lead
	leads  bool          // set before ready
	err    error
	woke   []string

	lane   lane
	trusts bool    // returns before the disk has it: its caller awaits the commit
	commit int64   // that made it happen; zero: none
	owes   []*call // who are to be told when that is on the disk; set before ready
}

// alone says whether a call shares its transaction with no other: its work may not be run again for the sake of that.
func (c *call) alone() bool { return c.work != nil && c.size >= most }

// plain says whether a call is one new job for which one statement is enough, that need not know the time beforehand.
func (c *call) plain() bool {
	if c.work != nil || len(c.jobs) != 1 {
		return false
	}
	j := &c.jobs[0]
	return j.RunAt == nil && j.ExpiresS == nil && len(j.Payload) <= spillOver
}

// line lets one writer through at a time. Whoever comes first leads: it runs the calls that come while its transaction is
// open, its own included, tells the others what became of them, and hands over to the next in line. So while one
// transaction commits, the next one gathers, and a call that meets nobody waits for nobody.
//
// A pool of one connection would let the calls through one by one and in no particular order: every enqueue would pay a
// commit of its own, and a burst of them would starve the heartbeats.
//
// Many callers who come again as soon as they are told are told one after the other, and the first to come again would find
// nobody and be a transaction of its own, with the disk to wait for. So where there is a crowd, whoever comes first lets the
// others come that are about to. It does not lead meanwhile: what is urgent does not wait for it.
type line struct {
	mu      sync.Mutex
	led     bool
	taken   int  // calls of the transaction that is open
	crowd   int  // calls of a transaction: the most, less one for each since
	letting bool // somebody lets others come
	yield   func()
	came    int64 // how many calls have come to wait
	behind  int   // transactions whose calls wait for the disk
	held    bool  // back: nobody but the urgent may begin
	waiting [lanes][]*call
}

// ahead is how many transactions may wait for the disk while another one begins: with one that is being synced and one
// that will be, whoever comes would only make the next one smaller by not waiting. // It does not hold up the urgent.
const ahead = 1

// company is how many calls are a crowd.
const company = 8

// turns is how often at most one lets others come, as long as some do: each is one turn of all that can run.
const turns = 5

// join puts a call in line and says whether it leads at once.
func (q *line) join(c *call, l lane) (leads bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	free := !q.led && q.may(l)
	if free && (l == urgent || q.crowd < company) {
		q.led, q.taken = true, 1
		return true
	}
	q.came++
	c.number = q.came
	c.ready = make(chan struct{}, 1)
	q.waiting[l] = append(q.waiting[l], c)
	if !free || q.letting {
		return false
	}
	q.letCome()
	if q.led || !q.may(l) {
		return false
	}
	if i := slices.Index(q.waiting[l], c); i >= 0 {
		q.waiting[l] = slices.Delete(q.waiting[l], i, i+1)
		q.led, q.taken = true, 1
		return true
	}
	q.next() // somebody urgent has taken it along, but not all that have come since
	return false
}

// letCome lets others come until all have that did the last time, or no more do. q is locked, but not meanwhile.
func (q *line) letCome() {
	q.letting = true
	for range turns {
		n := len(q.waiting[ordinary])
		q.mu.Unlock()
		q.yield()
		q.mu.Lock()
		if now := len(q.waiting[ordinary]); now <= n || now >= q.crowd {
			break
		}
	}
	q.letting = false
}

// may says whether those of a lane may begin a transaction, once nobody leads. q is locked.
func (q *line) may(l lane) bool { return l == urgent || q.behind <= ahead && !q.held }

// hold holds back all but the urgent, or lets them go on.
func (q *line) hold(back bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held = back
	q.next()
}

// quit takes a call out of the line. False if its turn has come.
func (q *line) quit(c *call) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for l := range q.waiting {
		for i, w := range q.waiting[l] {
			if w == c {
				q.waiting[l] = slices.Delete(q.waiting[l], i, i+1)
				return true
			}
		}
	}
	return false
}

// busy says whether somebody leads.
func (q *line) busy() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.led
}

// last is the number of the call that came to wait last.
func (q *line) last() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.came
}

// deserted says whether nobody waits.
func (q *line) deserted() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, waiting := range q.waiting {
		if len(waiting) > 0 {
			return false
		}
	}
	return true
}

// gather takes those out of the line who may take part in a transaction with room for so many more rows: all that are
// urgent, and of the others those who fit.
func (q *line) gather(room int, may func(c *call) bool) []*call {
	q.mu.Lock()
	defer q.mu.Unlock()
	var batch []*call
	for l := lanes - 1; l >= 0; l-- {
		kept := q.waiting[l][:0]
		for _, c := range q.waiting[l] {
			if !may(c) || l != urgent && (c.size > room || q.held) {
				kept = append(kept, c)
				continue
			}
			room -= c.size
			batch = append(batch, c)
		}
		clear(q.waiting[l][len(kept):])
		q.waiting[l] = kept
	}
	q.taken += len(batch)
	return batch
}

// handOver makes the next in line lead: the most urgent that came first.
func (q *line) handOver() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.led = false
	q.crowd = max(q.taken, q.crowd-1)
	q.next()
}

// next lets somebody lead if nobody does or is about to.
func (q *line) next() {
	for l := lanes - 1; l >= 0 && !q.led; l-- {
		if len(q.waiting[l]) == 0 || !q.may(l) || l == ordinary && q.letting {
			continue
		}
		first := q.waiting[l][0]
		q.waiting[l] = slices.Delete(q.waiting[l], 0, 1)
		q.led, q.taken = true, 1
		first.leads = true
		first.ready <- struct{}{}
	}
}

// fallBehind counts a transaction whose calls wait for the disk, until caughtUp.
func (q *line) fallBehind() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.behind++
}

func (q *line) caughtUp() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.behind--
	q.next()
}
