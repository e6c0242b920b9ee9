package main

import (
	"context"
	"errors"
	"fmt"
)

// claimBatches are the batches of W10. A claim is compared only with claims of as many jobs.
var claimBatches = []int{10, 100}

func ours(s Subject) (*alkworker, error) {
	a, ok := s.(*alkworker)
	if !ok {
		return nil, errors.New(noBatchClaim)
	}
	return a, nil
}

// fillCase prepares one case of W10.
func fillCase(ctx context.Context, c *child, s Subject) (Metrics, error) {
	a, err := ours(s)
	if err == nil {
		err = c.ready()
	}
	if err != nil {
		return nil, err
	}
	return Metrics{}, a.fill(ctx, c.Case, c.Jobs)
}

// claimCase is one case of W10.
func claimCase(ctx context.Context, c *child, s Subject) (Metrics, error) {
	a, err := ours(s)
	if err == nil {
		err = c.ready()
	}
	if err != nil {
		return nil, err
	}
	m := Metrics{}
	for _, batch := range claimBatches {
		// The first claims read what the others find in memory.
		if _, err := a.timeClaims(ctx, batch, max(c.Jobs/20, 2)); err != nil {
			return nil, err
		}
		took, err := a.timeClaims(ctx, batch, c.Jobs)
		if err != nil {
			return nil, err
		}
		m[claimMetric(batch, "p50")] = microseconds(percentile(took, 50))
		m[claimMetric(batch, "p99")] = microseconds(percentile(took, 99))
	}
	return m, nil
}

func claimMetric(batch int, percentile string) string {
	return fmt.Sprintf("claim%d_%s_us", batch, percentile)
}
