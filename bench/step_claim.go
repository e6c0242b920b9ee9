package main

import (
	"context"
	"errors"
	"fmt"
	"time"
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

// claimCase is one case of W10. The claims take turns with claims beside it, where there is nothing else: minutes before or
// after, the same claim takes half as long again, for what else the machine does.
func claimCase(ctx context.Context, c *child, s Subject) (m Metrics, err error) {
	a, err := ours(s)
	if err != nil {
		return nil, err
	}
	other, err := c.spec.Open(ctx, c.spec, c.Beside)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	defer func() { err = errors.Join(err, other.Close()) }()
	beside, err := ours(other)
	if err == nil {
		err = c.ready()
	}
	if err != nil {
		return nil, err
	}
	m = Metrics{}
	for _, batch := range claimBatches {
		// The first claims read what the others find in memory.
		if _, _, err := inTurn(ctx, a, beside, batch, max(c.Jobs/20, 2)); err != nil {
			return nil, err
		}
		took, alone, err := inTurn(ctx, a, beside, batch, c.Jobs)
		if err != nil {
			return nil, err
		}
		for _, p := range claimPercentiles {
			m[claimMetric(batch, p)] = microseconds(percentile(took, float64(p)))
			m[aloneMetric(batch, p)] = microseconds(percentile(alone, float64(p)))
		}
	}
	return m, nil
}

func inTurn(ctx context.Context, a, b *alkworker, batch, rounds int) (ofA, ofB []time.Duration, err error) {
	for range rounds {
		for _, each := range []struct {
			subject *alkworker
			took    *[]time.Duration
		}{{a, &ofA}, {b, &ofB}} {
			took, err := each.subject.timeClaim(ctx, batch)
			if err != nil {
				return nil, nil, err
			}
			*each.took = append(*each.took, took)
		}
	}
	return ofA, ofB, nil
}

// claimPercentiles are what W10 reports.
var claimPercentiles = []int{50, 99}

func claimMetric(batch, percentile int) string {
	return fmt.Sprintf("claim%d_p%d_us", batch, percentile)
}

func aloneMetric(batch, percentile int) string {
	return fmt.Sprintf("alone%d_p%d_us", batch, percentile)
}
