package storetest

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

func raceRules() []rule {
	return []rule{
		{name: "C7_ack_against_reclaim_ends_one_way", test: ackAgainstReclaim},
		{name: "K1_ack_against_sweep_ends_one_way", test: ackAgainstSweep},
		{name: "K1_claim_against_sweep_ends_one_way", test: claimAgainstSweep},
		{name: "H1_one_claim_ends_once", test: endsOnce},
		{name: "H8_cancel_against_ack_ends_one_way", test: cancelAgainstAck},
		{name: "D4_requeue_against_purge_ends_one_way", test: requeueAgainstPurge},
	}
}

// together runs the functions at the same moment and fails the test if one does.
func (e *env) together(fs ...func(ctx context.Context) error) {
	e.Helper()
	var group errgroup.Group
	begin := make(chan struct{})
	for _, f := range fs {
		group.Go(func() error {
			<-begin
			return f(e.Context())
		})
	}
	close(begin)
	e.ok(group.Wait())
}

func ackAgainstReclaim(e *env) {
	stores := e.handles(2)
	for range 20 {
		r, h := e.hold(newJob("mail"))
		e.h.Clock.Set(*r.ClaimExpiresAt)
		var acked []bool
		var reclaimed []sqlstore.Row
		e.together(
			func(ctx context.Context) (err error) {
				acked, err = stores[0].AckBatch(ctx, []sqlstore.Handle{h})
				return err
			},
			func(ctx context.Context) (err error) {
				e.h.Clock.Set(*r.ClaimExpiresAt + 1)
				reclaimed, err = stores[1].ClaimBatch(ctx, claimOf("mail", 1))
				return err
			},
		)
		if acked[0] != (len(reclaimed) == 0) {
			e.Fatalf("ack %v and %d jobs reclaimed: want one or the other", acked[0], len(reclaimed))
		}
		if !acked[0] {
			same(e, "ack by the new holder", e.ack(handle(reclaimed[0])), []bool{true})
		}
		e.gone(h.ID)
	}
}

func ackAgainstSweep(e *env) {
	stores := e.handles(2)
	for range 20 {
		j := newJob("mail")
		j.ExpiresS = new(int64(5))
		_, h := e.hold(j)
		e.advance(6)
		fresh := e.enqueueOne(newJob("mail"))
		_, err := stores[1].ClaimBatch(e.Context(), claimOf("mail", 1))
		e.ok(err)
		var acked []bool
		var swept sqlstore.Swept
		e.together(
			func(ctx context.Context) (err error) {
				acked, err = stores[0].AckBatch(ctx, []sqlstore.Handle{h})
				return err
			},
			func(ctx context.Context) (err error) {
				swept, err = stores[1].SweepExpired(ctx, "mail", expiredText)
				return err
			},
		)
		if acked[0] != (swept.Expired == 0) {
			e.Fatalf("ack %v and %d jobs expired: want one or the other", acked[0], swept.Expired)
		}
		if acked[0] {
			e.gone(h.ID)
		} else {
			e.states(sqlstore.Dead, h.ID)
			same(e, "purge", e.purge(h.ID), []bool{true})
		}
		same(e, "ack of the other claim", e.ack(sqlstore.Handle{ID: fresh, Fence: 1}), []bool{true})
	}
}

func claimAgainstSweep(e *env) {
	stores := e.handles(2)
	for range 20 {
		j := newJob("mail")
		j.ExpiresS = new(int64(5))
		id := e.enqueueOne(j)
		e.advance(5)
		last := e.now()
		var claimed []sqlstore.Row
		e.together(
			func(ctx context.Context) (err error) {
				claimed, err = stores[0].ClaimBatch(ctx, claimOf("mail", 1))
				return err
			},
			func(ctx context.Context) error {
				e.h.Clock.Set(last + 1)
				return second(stores[1].SweepExpired(ctx, "mail", expiredText))
			},
		)
		r := e.get(id)
		if r.State != sqlstore.Dead || r.Fence != int64(len(claimed)) {
			e.Fatalf("%d claimed: got a %s job with fence %d, want a dead one", len(claimed), r.State, r.Fence)
		}
		same(e, "purge", e.purge(id), []bool{true})
	}
}

func endsOnce(e *env) {
	stores := e.handles(4)
	for range 15 {
		_, h := e.hold(newJob("mail"))
		var held atomic.Int64
		count := func(ok bool, err error) error {
			if ok {
				held.Add(1)
			}
			return err
		}
		first := func(answers []bool, err error) error { return count(err == nil && answers[0], err) }
		e.together(
			func(ctx context.Context) error { return first(stores[0].AckBatch(ctx, []sqlstore.Handle{h})) },
			func(ctx context.Context) error { return first(stores[1].Fail(ctx, []sqlstore.Failing{{Handle: h}})) },
			func(ctx context.Context) error {
				return first(stores[2].Release(ctx, []sqlstore.Releasing{{Handle: h, DelayS: 9}}))
			},
			func(ctx context.Context) error {
				v, err := stores[3].Retry(ctx, []sqlstore.Retrial{{Handle: h, DelayS: 9}})
				return count(err == nil && v[0] != sqlstore.Refused, err)
			},
		)
		if n := held.Load(); n != 1 {
			e.Fatalf("one claim was ended %d times", n)
		}
	}
}

func cancelAgainstAck(e *env) {
	stores := e.handles(2)
	for range 15 {
		_, h := e.hold(newJob("mail"))
		var acked, cancelled []bool
		e.together(
			func(ctx context.Context) (err error) {
				acked, err = stores[0].AckBatch(ctx, []sqlstore.Handle{h})
				return err
			},
			func(ctx context.Context) (err error) {
				cancelled, err = stores[1].Cancel(ctx, []int64{h.ID})
				return err
			},
		)
		if acked[0] == cancelled[0] {
			e.Fatalf("ack %v and cancel %v: want one or the other", acked[0], cancelled[0])
		}
	}
}

func requeueAgainstPurge(e *env) {
	stores := e.handles(2)
	for range 15 {
		id := e.buryOne(newJob("mail"))
		var requeued, purged []bool
		e.together(
			func(ctx context.Context) (err error) {
				requeued, err = stores[0].Requeue(ctx, []int64{id})
				return err
			},
			func(ctx context.Context) (err error) {
				purged, err = stores[1].Purge(ctx, []int64{id})
				return err
			},
		)
		if requeued[0] == purged[0] {
			e.Fatalf("requeue %v and purge %v: want one or the other", requeued[0], purged[0])
		}
		e.cancel(id)
	}
}
