package sqlite

import (
	"context"
	"database/sql"
)

// reserve is a run of ids that no other connection gives away: the sequence of AUTOINCREMENT is already behind them. An
// insert with one of them does not write the page of the sequence, a fifth of a lone enqueue.
//
// They are good until anybody else gives ids away, which moves the sequence on: jobs are in the order of their ids to
// those who enqueue one after the other, whichever processes they are. So they are used only where an insert finds the
// sequence as it was left, and what is left of them is given back if nobody has come in between. A process that is killed
// leaves a gap, as does a transaction that fails. The zero value has none.
type reserve struct{ next, last int64 }

const (
	// reserved is how many ids are reserved at once.
	reserved = 32

	// shy is for how many transactions none are reserved once others were found to give ids away: each reservation that
	// comes to nothing is a gap.
	shy = 200
)

func (r *reserve) left() bool { return r.next < r.last }

// take is the next id, and what the sequence is if it may be used.
func (r *reserve) take() (id, last int64) {
	r.next++
	return r.next, r.last
}

// reserve reserves ids behind those that were given away.
func (t *tx) reserve(ctx context.Context) (r reserve, err error) {
	_, err = t.one(ctx, "reserve_ids", []any{&r.next, &r.last}, sql.Named("ids", reserved))
	return r, err
}

// giveBack undoes a reservation as far as it was not used.
func (t *tx) giveBack(ctx context.Context) error {
	if t.ids == nil || !t.ids.left() {
		return nil
	}
	r := *t.ids
	*t.ids = reserve{}
	_, err := t.exec(ctx, "return_ids", sql.Named("next", r.next), sql.Named("last", r.last))
	return err
}

// giveBack is that of a transaction, for a writer that is done, if its connection has ever got that far. What goes wrong is
// a gap and no more.
func (w *writer) giveBack() {
	if !w.ids.left() || w.on == nil || w.seen == nil || w.usable() != nil || w.files.look(w.seen) != nil {
		return
	}
	_ = (&tx{session: w.on, ids: &w.ids}).giveBack(context.Background())
}

// calmed is after how many transactions in a row for one call each a lone call does without: of many callers, one is
// always the first to come again, and its commit would be one more for the disk and the others to wait for.
const calmed = 8

// insert is all that there is to do for a plain call that meets nobody, as long as there are reserved ids. A statement is a
// transaction by itself, and costs a fifth less than one between BEGIN and COMMIT. False if the ids are not to be used any
// more; then nothing has happened.
func (w *writer) insert(c *call) (done bool) {
	if c.err = w.usable(); c.err != nil {
		return true
	}
	t := &tx{}
	id, last := w.ids.take()
	c.err = w.locked(c, func() error {
		if err := w.files.glance(w.seen); err != nil {
			return err
		}
		t.session = w.on
		err := w.tell(context.Background(), t, []*call{c})
		if err == nil {
			done, err = t.enqueueAs(context.Background(), id, last, &c.jobs[0])
		}
		return err
	})
	if c.err == nil && !done {
		w.ids, w.quiet = reserve{}, calmed-shy
		return false
	}
	if c.err == nil {
		c.err = w.files.look(w.seen) // see finish
	}
	if c.err == nil {
		c.ids, c.woke = []int64{id}, t.woke
		w.disk.committed([]*call{c})
	}
	return true
}
