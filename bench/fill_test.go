package main

import (
	"testing"

	"github.com/alkstore/alkworker/queue"
)

// TestFill sees that the database of W10 holds what its name says, wherever the jobs were made.
func TestFill(t *testing.T) {
	const n = 7
	b := newTestBench(t)
	for _, name := range []string{"alkworker-normal", "alkworker-pg"} {
		s, err := subject(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			if _, err := b.host(t.Context(), s.Server); err != nil {
				t.Logf("left out: %v", err)
				return
			}
			for state, want := range map[string]queue.Stats{
				caseReady:      {Ready: n},
				caseDelayed:    {Delayed: n},
				casePriority:   {Delayed: n},
				caseProcessing: {Processing: n},
				caseDead:       {Dead: n},
			} {
				err := b.at(t.Context(), s, func(p Place) error {
					if _, err := runStep(t.Context(), order{Subject: name, Step: stepFill, Case: state, Jobs: n, Place: p}); err != nil {
						return err
					}
					opened, err := openAlkworker(t.Context(), s, p)
					if err != nil {
						return err
					}
					stats, err := opened.(*alkworker).client.Stats(t.Context())
					if err != nil {
						return err
					}
					got := stats[0]
					if len(stats) != 1 || got.Ready != want.Ready || got.Delayed != want.Delayed || got.Processing != want.Processing ||
						got.Dead != want.Dead {
						t.Errorf("%s: got %+v, want %+v", state, stats, want)
					}
					return opened.Close()
				})
				if err != nil {
					t.Fatalf("%s: %v", state, err)
				}
			}
		})
	}
}
