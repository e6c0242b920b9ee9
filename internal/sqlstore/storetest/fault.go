package storetest

import (
	"context"
	"fmt"
	"strings"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

func faultRules() []rule {
	var rules []rule
	for _, site := range deathSites() {
		for _, step := range []DeathStep{InsertDead, DeleteLive} {
			rules = append(rules, rule{
				name:  fmt.Sprintf("H9_%s_with_a_failing_%s_changes_nothing", site.name, step),
				test:  func(e *env) { faultAt(e, site, step) },
				needs: hasFault,
			})
		}
	}
	return rules
}

// deathSite is one operation that moves jobs to the dead letters. prepare makes jobs, among them those that call will
// bury when it works; these are returned.
type deathSite struct {
	name    string
	prepare func(e *env) (doomed []int64, call func(ctx context.Context) error)
}

func deathSites() []deathSite {
	return []deathSite{
		{"claim_of_exhausted", faultClaim},
		{"retry_of_exhausted", faultRetry},
		{"fail", faultFail},
		{"sweep_of_pending", faultSweepPending},
		{"sweep_of_processing", faultSweepProcessing},
	}
}

// faultAt makes one half of the move fail, many times over, and proves that the error arrived and nothing else did.
func faultAt(e *env, site deathSite, step DeathStep) {
	doomed, call := site.prepare(e)
	bystander := e.enqueueOne(newJob("bystander"))
	restore := e.h.FailDeath(e.T, step)
	e.unchanged("the injected fault", func() {
		for range 30 { // K39: nothing stays in use
			err := call(e.Context())
			if err == nil || !strings.Contains(err.Error(), Injected) {
				e.Fatalf("got %v, want the injected error", err)
			}
		}
	})
	same(e, "an unrelated claim meanwhile", e.claimOne("bystander").ID, bystander)
	for _, id := range doomed {
		if e.get(id).State == sqlstore.Dead {
			e.Fatalf("job %d is dead in spite of the fault", id)
		}
	}
	restore()
	e.ok(call(e.Context()))
	e.states(sqlstore.Dead, doomed...)
}

func faultClaim(e *env) ([]int64, func(ctx context.Context) error) {
	doomed := e.enqueue(jobs(3, oneShot("mail"))...)
	e.claim("mail", 3)
	e.enqueue(jobs(2, newJob("mail"))...)
	e.claim("mail", 1)
	e.advance(visibility + 1) // three exhausted, one lapsed, one pending: none may be handed out halfway
	return doomed, func(ctx context.Context) error {
		rows, err := e.store.ClaimBatch(ctx, claimOf("mail", 10))
		if err != nil && len(rows) > 0 {
			e.Errorf("claim with an error: got %d jobs as well", len(rows))
		}
		return err
	}
}

func faultRetry(e *env) ([]int64, func(ctx context.Context) error) {
	e.enqueue(newJob("mail"), oneShot("mail"), newJob("mail"), oneShot("mail"))
	var retries []sqlstore.Retrial
	for _, r := range e.claim("mail", 4) {
		retries = append(retries, sqlstore.Retrial{Handle: handle(r), Error: "again", DeadText: deadText})
	}
	return []int64{retries[1].ID, retries[3].ID}, func(ctx context.Context) error {
		return second(e.store.Retry(ctx, retries))
	}
}

func faultFail(e *env) ([]int64, func(ctx context.Context) error) {
	doomed := e.enqueue(jobs(3, newJob("mail"))...)
	var failures []sqlstore.Failing
	for _, r := range e.claim("mail", 3) {
		failures = append(failures, sqlstore.Failing{Handle: handle(r), Error: "bad", Stack: "stack"})
	}
	return doomed, func(ctx context.Context) error { return second(e.store.Fail(ctx, failures)) }
}

func faultSweepPending(e *env) ([]int64, func(ctx context.Context) error) {
	e.buryOne(newJob("mail"))
	e.advance(1000)
	j := newJob("mail")
	j.ExpiresS = new(int64(5))
	doomed := e.enqueue(jobs(3, j)...)
	e.advance(6) // the dead one is past its retention as well
	return doomed, func(ctx context.Context) error { return second(e.store.SweepExpired(ctx, "mail", expiredText)) }
}

func faultSweepProcessing(e *env) ([]int64, func(ctx context.Context) error) {
	j := newJob("mail")
	j.ExpiresS = new(int64(5))
	doomed := e.enqueue(jobs(3, j)...)
	e.claim("mail", 3)
	e.advance(6)
	return doomed, func(ctx context.Context) error { return second(e.store.SweepExpired(ctx, "mail", expiredText)) }
}
