//go:build unix

package crashtest

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/alkstore/alkworker/queue"
)

// enqueue stores one job for each task in queue "q".
func (s *scene) enqueue(o queue.EnqueueOptions, tasks ...task) []int64 {
	s.Helper()
	jobs := make([]queue.NewJob, len(tasks))
	for i, do := range tasks {
		payload, err := json.Marshal(do)
		if err != nil {
			s.Fatal(err)
		}
		o.BackoffBase = queue.NoBackoff
		jobs[i] = queue.NewJob{Queue: "q", Payload: payload, EnqueueOptions: o}
	}
	ids, err := s.client.Enqueue(s.Context(), jobs...)
	if err != nil {
		s.Fatal(err)
	}
	return ids
}

// reaches waits until the database is as wanted, looking whenever somebody has changed it.
func (s *scene) reaches(as func() (bool, error)) error {
	ctx, enough := context.WithTimeout(s.Context(), patience)
	defer enough()
	reached, err := as()
	if reached || err != nil {
		return err
	}
	werr := s.client.Watch(ctx, 20*time.Millisecond, func(string) {
		if reached || err != nil {
			return
		}
		if reached, err = as(); reached || err != nil {
			enough()
		}
	})
	if reached {
		return nil
	}
	return errors.Join(err, werr)
}

// until is reaches, and fails the test if it does not.
func (s *scene) until(what string, as func() (bool, error)) {
	s.Helper()
	if err := s.reaches(as); err != nil {
		s.Fatalf("waiting for %s: %v", what, err)
	}
}

// lock takes the write lock of the database.
func (s *scene) lock() (unlock func()) {
	s.Helper()
	db, err := sql.Open("sqlite", queue.SQLiteDSN(s.db))
	if err != nil {
		s.Fatal(err)
	}
	tx, err := db.BeginTx(s.Context(), nil)
	if err != nil {
		s.Fatal(errors.Join(err, db.Close()))
	}
	return func() {
		if err := errors.Join(tx.Rollback(), db.Close()); err != nil {
			s.Error(err)
		}
	}
}

func (s *scene) get(id int64) *queue.Job {
	s.Helper()
	j, err := s.client.Get(s.Context(), id)
	if err != nil {
		s.Fatal(err)
	}
	return j
}

// stats are those of one queue.
func (s *scene) stats(name string) (queue.Stats, error) {
	all, err := s.client.Stats(s.Context())
	if err != nil {
		return queue.Stats{}, err
	}
	for _, q := range all {
		if q.Queue == name {
			return q, nil
		}
	}
	return queue.Stats{Queue: name}, nil
}

// empty says whether no job of queue "q" is left but the dead.
func (s *scene) empty() (bool, error) {
	q, err := s.stats("q")
	return q.Ready+q.Delayed+q.Processing == 0, err
}

// dead is how many jobs of queue "q" are dead.
func (s *scene) dead() int {
	s.Helper()
	q, err := s.stats("q")
	if err != nil {
		s.Fatal(err)
	}
	return q.Dead
}

// claim waits until there is a job to claim, which is when a lease has lapsed, and claims it.
func (s *scene) claim() *queue.Job {
	s.Helper()
	for {
		jobs, err := s.client.Claim(s.Context(), "q", "test", 1)
		if err != nil {
			s.Fatal(err)
		}
		if len(jobs) == 1 {
			return jobs[0]
		}
		waits, err := s.client.NextReady(s.Context(), []string{"q"})
		wait, ok := waits["q"]
		if err != nil || !ok {
			s.Fatalf("nothing to wait for: %v, %v", waits, err)
		}
		<-time.After(wait)
	}
}

// healthy fails the test unless the database is in order.
func (s *scene) healthy() {
	s.Helper()
	problems, err := s.client.Check(s.Context())
	if err = errors.Join(err, s.Context().Err()); err != nil {
		s.Fatal(err)
	}
	for _, p := range problems {
		s.Errorf("%s: job %d of %q %s", p.Kind, p.JobID, p.Queue, p.Detail)
	}
}
