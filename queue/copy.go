package queue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"math"
	"slices"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// The most that one transaction of Copy moves, in jobs and in bytes of payload.
const (
	copyJobs  = 500
	copyBytes = 16 << 20
)

// Copied is what Copy has made sure of.
type Copied struct {
	Pending, Processing, Dead int
	Failures                  int // of the history of all jobs
	Schedules                 int
	Already                   int    // jobs that an earlier, interrupted Copy had brought
	Checksum                  string // over all jobs and schedules, the same in both databases
}

// Copy brings all jobs, live and dead, with their ids, claims and failed attempts, all schedules and all pauses to another
// database, and then compares the two: counts, and a checksum over everything. The jobs of from stay where they are; no
// worker must run on them any more.
//
// Both databases have to be at rest: it is refused if a worker is announced or holds a claim in either, if from has
// problems that Check names, or if to has anything that is not in from. An interrupted Copy is continued by another one,
// unless to was used in between. Whatever happens, from is not changed.
//
// ErrUnsupported unless to is on PostgreSQL.
func Copy(ctx context.Context, from, to *Client) (Copied, error) {
	c, err := copyAll(ctx, from, to)
	if err != nil {
		return Copied{}, failed("copy", "", 0, err)
	}
	return c, nil
}

func copyAll(ctx context.Context, from, to *Client) (Copied, error) {
	origin, ok := from.store.(sqlstore.Origin)
	target, into := to.store.(sqlstore.Target)
	if !ok || !into {
		return Copied{}, fmt.Errorf("%w: jobs are copied to PostgreSQL; for a copy of a file there is Backup", ErrUnsupported)
	}
	if err := errors.Join(atRest(ctx, "origin", origin), atRest(ctx, "target", target)); err != nil {
		return Copied{}, err
	}
	if found, err := origin.Check(ctx); err != nil || len(found) > 0 {
		return Copied{}, errors.Join(err, problemsIn("origin", found))
	}
	m := mover{origin: origin, target: target}
	if err := m.survey(ctx); err != nil {
		return Copied{}, err
	}
	if err := m.move(ctx); err != nil {
		return Copied{}, err
	}
	return m.compare(ctx)
}

// atRest is an error if somebody works on the jobs of a store.
func atRest(ctx context.Context, which string, s sqlstore.Store) error {
	stats, err := s.Stats(ctx)
	if err != nil {
		return err
	}
	now, err := s.Now(ctx)
	if err != nil {
		return err
	}
	var problems []error
	for _, q := range stats {
		if q.Workers > 0 {
			problems = append(problems, fmt.Errorf("the %s is in use: %d workers serve queue %q: stop them", which, q.Workers, q.Queue))
		}
	}
	running, err := s.ListJobs(ctx, sqlstore.Filter{State: sqlstore.Processing, Limit: math.MaxInt32})
	if err != nil {
		return err
	}
	for _, r := range running {
		if r.ClaimExpiresAt != nil && *r.ClaimExpiresAt >= now {
			problems = append(problems, fmt.Errorf("the %s is in use: job %d is held by %q for another %d s",
				which, r.ID, r.Claimant, *r.ClaimExpiresAt-now+1))
			break
		}
	}
	return errors.Join(problems...)
}

func problemsIn(which string, found []sqlstore.Problem) error {
	if len(found) == 0 {
		return nil
	}
	first := found[0].Detail
	if id := found[0].JobID; id != 0 {
		first = fmt.Sprintf("job %d %s", id, first)
	}
	return fmt.Errorf("the %s has %d problems, such as: %s; repair it first", which, len(found), first)
}

// mover is one Copy. Jobs go in the order of their ids, and after each part the target's sequence of ids is moved to where
// the part ended: up to there, every job of the origin has to be in the target already.
type mover struct {
	origin sqlstore.Origin
	target sqlstore.Target

	jobs      []sized // of the origin
	schedules []sqlstore.Schedule
	pauses    []string
	already   int // so many of the first jobs are in the target
	whole     bool
}

// sized is a job and the bytes of its payload.
type sized struct{ id, bytes int64 }

// survey finds out what there is to do, and refuses a target that has anything of its own.
func (m *mover) survey(ctx context.Context) (err error) {
	if m.jobs, err = allJobs(ctx, m.origin); err != nil {
		return err
	}
	if m.schedules, err = schedulesOf(ctx, m.origin); err != nil {
		return err
	}
	there, err := allJobs(ctx, m.target)
	if err != nil {
		return err
	}
	last, err := m.target.LastID(ctx)
	if err != nil {
		return err
	}
	if n := len(there); n > 0 {
		last = max(last, there[n-1].id) // jobs come first, and the sequence after them
	}
	for m.already < len(m.jobs) && m.jobs[m.already].id <= last {
		m.already++
	}
	if !slices.Equal(there, m.jobs[:m.already]) {
		return fmt.Errorf("the target is in use: it has %d jobs, where an interrupted copy would have left %d", len(there), m.already)
	}
	for _, part := range parts(m.jobs[:m.already]) {
		a, err := wholeJobs(ctx, m.origin, part)
		if err != nil {
			return err
		}
		b, err := wholeJobs(ctx, m.target, part)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(a, func(r sqlstore.Row) bool { return !slices.ContainsFunc(b, same(r)) }); i >= 0 {
			return fmt.Errorf("the target is in use: its job %d is another one, or has changed", a[i].ID)
		}
	}
	have, err := schedulesOf(ctx, m.target)
	if err != nil {
		return err
	}
	m.whole = len(have) > 0
	if m.whole && text(have) != text(m.schedules) {
		return errors.New("the target is in use: it has schedules of its own")
	}
	theirs, err := pausesOf(ctx, m.target)
	if err != nil {
		return err
	}
	if m.pauses, err = pausesOf(ctx, m.origin); err != nil {
		return err
	}
	for _, queue := range theirs {
		if !slices.Contains(m.pauses, queue) {
			return fmt.Errorf("the target is in use: its queue %q is paused, and that of the origin is not: resume it", queue)
		}
	}
	if err := m.checkNames(ctx); err != nil {
		return err
	}
	highest, err := m.origin.LastID(ctx)
	if err == nil && last > highest {
		err = fmt.Errorf("the target is in use: it has given away ids up to %d, the origin only up to %d", last, highest)
	}
	return err
}

// checkNames refuses names that the engine would not have stored, and no server takes. Of the server's own error nobody
// could tell which row it is about. // K3
func (m *mover) checkNames(ctx context.Context) error {
	queues, err := m.origin.Queues(ctx)
	if err != nil {
		return err
	}
	var problems []error
	refuse := func(what, name, instead string, err error) {
		if err != nil {
			problems = append(problems, fmt.Errorf("%s %.64q of the origin has a name that none may have, %s: %s",
				what, name, err.Error(), instead))
		}
	}
	for _, q := range queues {
		refuse("queue", q, "set another one for its jobs", ValidateName(q))
	}
	for _, q := range m.pauses {
		if !slices.Contains(queues, q) {
			refuse("queue", q, "delete its row of __alkstore_queues", ValidateName(q))
		}
	}
	for _, s := range m.schedules {
		refuse("schedule", s.Name, "set another one, or remove it", ValidateName(s.Name))
		if err := ValidateName(s.Queue); err != nil {
			problems = append(problems, fmt.Errorf("schedule %.64q of the origin: %s: set it again, or remove it", s.Name, err.Error()))
		}
	}
	return errors.Join(problems...)
}

// move brings what is not there yet. Schedules and pauses come last.
func (m *mover) move(ctx context.Context) error {
	for _, part := range parts(m.jobs[m.already:]) {
		rows, err := wholeJobs(ctx, m.origin, part)
		if err != nil {
			return err
		}
		if err := m.target.Import(ctx, sqlstore.Moved{Jobs: rows, LastID: part[len(part)-1].id}); err != nil {
			return err
		}
	}
	last, err := m.origin.LastID(ctx)
	if err != nil {
		return err
	}
	rest := sqlstore.Moved{LastID: last}
	if !m.whole {
		rest.Schedules = m.schedules
	}
	for _, queue := range m.pauses {
		if err := m.target.SetPaused(ctx, queue, true); err != nil {
			return err
		}
	}
	return m.target.Import(ctx, rest)
}

// compare reads everything in both databases once more.
func (m *mover) compare(ctx context.Context) (c Copied, err error) {
	c, want, err := account(ctx, m.origin)
	if err != nil {
		return c, err
	}
	got, sum, err := account(ctx, m.target)
	if err != nil {
		return c, err
	}
	if got != c || sum != want {
		return c, fmt.Errorf("the copy differs from the origin: %+v with checksum %s, want %+v with %s: was one of them in use?",
			got, sum, c, want)
	}
	if found, err := m.target.Check(ctx); err != nil || len(found) > 0 {
		return c, errors.Join(err, problemsIn("target", found))
	}
	c.Already, c.Checksum = m.already, want
	return c, nil
}

// account counts everything in a store, and sums it up.
func account(ctx context.Context, s sqlstore.Store) (c Copied, checksum string, err error) {
	jobs, err := allJobs(ctx, s)
	if err != nil {
		return c, "", err
	}
	sum := sha256.New()
	for _, part := range parts(jobs) {
		rows, err := wholeJobs(ctx, s, part)
		if err != nil {
			return c, "", err
		}
		for _, r := range rows {
			switch r.State {
			case sqlstore.Pending:
				c.Pending++
			case sqlstore.Processing:
				c.Processing++
			case sqlstore.Dead:
				c.Dead++
			}
			c.Failures += len(r.Failures)
			add(sum, r)
		}
	}
	schedules, err := schedulesOf(ctx, s)
	if err != nil {
		return c, "", err
	}
	c.Schedules = len(schedules)
	add(sum, schedules)
	pauses, err := pausesOf(ctx, s)
	add(sum, pauses)
	return c, hex.EncodeToString(sum.Sum(nil)), err
}

func add(sum hash.Hash, v any) { _, _ = sum.Write([]byte(text(v))) } // a hash takes everything

// text is a value as it is compared.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // rows have numbers, texts and bytes only
	}
	return string(b)
}

func same(r sqlstore.Row) func(sqlstore.Row) bool {
	want := text(r)
	return func(o sqlstore.Row) bool { return o.ID == r.ID && text(o) == want }
}

// allJobs are the jobs of a store by ascending id.
func allJobs(ctx context.Context, s sqlstore.Store) ([]sized, error) {
	f := sqlstore.Filter{Limit: 10_000}
	var all []sized
	for {
		page, err := s.ListJobs(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, r := range page {
			all = append(all, sized{r.ID, r.PayloadSize})
		}
		// Ids begin at 1. From one below it, which a row that was inserted by hand may have, there is no way on: before 0 is
		// before nothing, and all would come again. Check names such rows.
		if len(page) == 0 || page[len(page)-1].ID <= 1 {
			slices.Reverse(all)
			return all, nil
		}
		f.Before = page[len(page)-1].ID
	}
}

// parts cuts jobs into what fits into memory and one transaction.
func parts(jobs []sized) (cut [][]sized) {
	start, bytes := 0, int64(0)
	for i, j := range jobs {
		if i > start && (i-start == copyJobs || bytes+j.bytes > copyBytes) {
			cut = append(cut, jobs[start:i])
			start, bytes = i, 0
		}
		bytes += j.bytes
	}
	if start < len(jobs) {
		cut = append(cut, jobs[start:])
	}
	return cut
}

// wholeJobs are jobs that follow one another, with payloads and failures, by ascending id.
func wholeJobs(ctx context.Context, s sqlstore.Store, part []sized) ([]sqlstore.Row, error) {
	f := sqlstore.Filter{Limit: int64(len(part)), PayloadLimit: math.MaxInt32}
	if last := part[len(part)-1].id; last < math.MaxInt64 {
		f.Before = last + 1
	}
	rows, err := s.ListJobs(ctx, f)
	if err != nil {
		return nil, err
	}
	slices.Reverse(rows)
	for i := range rows {
		if r := &rows[i]; r.Fence > 0 { // otherwise nobody has tried it yet
			whole, err := s.GetJob(ctx, r.ID)
			if err != nil {
				return nil, err
			}
			if whole != nil && len(whole.Failures) > 0 {
				r.Failures = whole.Failures
			}
		}
		plain(&rows[i])
	}
	return rows, nil
}

// plain makes of the texts of a job what they are in any database. An older file, or one that was edited, may have some
// that a server does not take. // K88
func plain(r *sqlstore.Row) {
	clean := func(text *string) { *text = cleanText(*text, math.MaxInt) }
	clean(&r.Claimant)
	clean(&r.Schedule)
	if r.LastError != nil {
		text := *r.LastError
		clean(&text)
		r.LastError = &text
	}
	for i := range r.Failures {
		clean(&r.Failures[i].Error)
		clean(&r.Failures[i].Stack)
	}
}

// pausesOf are the queues that are paused.
func pausesOf(ctx context.Context, s sqlstore.Store) ([]string, error) {
	stats, err := s.Stats(ctx)
	paused := []string{}
	for _, q := range stats {
		if q.Paused {
			paused = append(paused, q.Queue)
		}
	}
	slices.Sort(paused)
	return paused, err
}

func schedulesOf(ctx context.Context, s sqlstore.Store) ([]sqlstore.Schedule, error) {
	all, err := s.ListSchedules(ctx)
	for i := range all {
		if all[i].Payload == nil {
			all[i].Payload = []byte{}
		}
		all[i].Spec = cleanText(all[i].Spec, math.MaxInt) // like the texts of jobs
	}
	if all == nil {
		all = []sqlstore.Schedule{}
	}
	return all, err
}
