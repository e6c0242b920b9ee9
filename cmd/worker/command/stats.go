package command

import (
	"context"
	"strconv"

	"github.com/alkstore/alkworker/queue"
)

type statsCommand struct{}

// Help is the second part of the command's help.
func (*statsCommand) Help() string {
	return "Prints a row for each queue that has jobs, a worker or a pause. workers counts running workers that serve the " +
		"queue; jobs of a queue that nobody serves wait, however long."
}

// statsJSON is one queue as scripts see it.
type statsJSON struct {
	Queue        string `json:"queue"`
	Ready        int    `json:"ready"`
	Delayed      int    `json:"delayed"`
	Processing   int    `json:"processing"`
	Dead         int    `json:"dead"`
	OldestReadyS *int64 `json:"oldest_ready_s"` // null if none is ready
	Workers      int    `json:"workers"`
	Paused       bool   `json:"paused"`
}

func (*statsCommand) Run(ctx context.Context, e *env) error {
	return e.with(ctx, e.open, func(client *queue.Client) error {
		stats, err := client.Stats(ctx)
		if err != nil {
			return err
		}
		t := e.out.table()
		if !e.out.json {
			t.row("QUEUE", "READY", "DELAYED", "PROCESSING", "DEAD", "OLDEST READY", "WORKERS", "PAUSED", "NOTE")
		}
		for _, s := range stats {
			row := statsJSON{
				Queue: s.Queue, Ready: s.Ready, Delayed: s.Delayed, Processing: s.Processing, Dead: s.Dead,
				Workers: s.Workers, Paused: s.Paused,
			}
			oldest := "-"
			if s.Ready > 0 {
				row.OldestReadyS = new(queue.Seconds(s.OldestReady))
				oldest = s.OldestReady.String()
			}
			if e.out.json {
				if err := e.out.object(row); err != nil {
					return err
				}
				continue
			}
			paused, note := "no", ""
			if s.Paused {
				paused = "yes"
			}
			if unserved(s) { // K17
				note = "nobody serves this queue"
			}
			t.row(short(s.Queue, 64), strconv.Itoa(s.Ready), strconv.Itoa(s.Delayed), strconv.Itoa(s.Processing),
				strconv.Itoa(s.Dead), oldest, strconv.Itoa(s.Workers), paused, note)
		}
		return t.flush()
	})
}

// unserved says whether jobs wait in a queue that no running worker serves.
func unserved(s queue.Stats) bool { return s.Workers == 0 && s.Ready+s.Delayed > 0 }
