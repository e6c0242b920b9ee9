package main

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"time"
)

// Result is one measurement.
type Result struct {
	Work    string    `json:"work"`
	Subject string    `json:"subject"`
	Round   int       `json:"round"` // from one
	Metrics Metrics   `json:"metrics,omitempty"`
	Series  []Metrics `json:"series,omitempty"`
	Notes   []string  `json:"notes,omitempty"`
	Error   string    `json:"error,omitempty"`
}

// Omission is work that a subject does not do.
type Omission struct {
	Work    string `json:"work,omitempty"` // empty: all
	Subject string `json:"subject"`
	Reason  string `json:"reason"`
}

// Report is all that is known about a run. It is written as JSON.
type Report struct {
	Started   time.Time         `json:"started"`
	Command   []string          `json:"command"`
	Machine   Machine           `json:"machine"`
	Options   Options           `json:"options"`
	Versions  map[string]string `json:"versions"`
	Settings  map[string]string `json:"settings"` // by subject
	Omissions []Omission        `json:"omissions"`
	Reached   []Reached         `json:"reached"`
	Summary   []Summary         `json:"summary"`
	Results   []Result          `json:"results"`
}

// Summary is one metric of one subject over all rounds.
type Summary struct {
	Work    string  `json:"work"`
	Subject string  `json:"subject"`
	Metric  string  `json:"metric"`
	Rounds  int     `json:"rounds"`
	Median  float64 `json:"median"`
	Min     float64 `json:"min"`
	Max     float64 `json:"max"`
}

// spread is how far the rounds are apart, as a part of the median.
func (s Summary) spread() float64 {
	if s.Median == 0 {
		return 0
	}
	return (s.Max - s.Min) / math.Abs(s.Median)
}

// summarize fills in everything that follows from the results.
func (r *Report) summarize() {
	r.Summary = nil
	for _, w := range works() {
		for _, s := range subjects() {
			values := make(map[string][]float64)
			for _, result := range r.of(w.id, s.Name) {
				for name, v := range result.Metrics {
					values[name] = append(values[name], v)
				}
			}
			names := make([]string, 0, len(values))
			for name := range values {
				names = append(names, name)
			}
			slices.Sort(names)
			for _, name := range names {
				v := values[name]
				r.Summary = append(r.Summary, Summary{Work: w.id, Subject: s.Name, Metric: name, Rounds: len(v),
					Median: median(v), Min: slices.Min(v), Max: slices.Max(v)})
			}
		}
	}
	r.Reached = reach(r)
}

// of returns the results of one work and subject that did not fail. W9 is a look at W4 if that was measured.
func (r *Report) of(work, subject string) []Result {
	var found []Result
	for _, result := range r.Results {
		if result.Work == work && result.Subject == subject && result.Error == "" {
			found = append(found, result)
		}
	}
	if len(found) == 0 && work == "W9" {
		return r.of("W4", subject)
	}
	return found
}

// get returns the summary of one metric. False if there is none.
func (r *Report) get(work, subject, metric string) (Summary, bool) {
	for _, s := range r.Summary {
		if s.Work == work && s.Subject == subject && s.Metric == metric {
			return s, true
		}
	}
	return Summary{}, false
}

// save writes the report to a file, all of it or nothing, so that a run that is cut short leaves its last state.
func (r *Report) save(path string) (err error) {
	f, err := os.Create(path + ".tmp")
	if err != nil {
		return err
	}
	if err := errors.Join(r.write(f), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func (r *Report) write(out io.Writer) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
