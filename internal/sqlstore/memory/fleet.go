package memory

import (
	"context"
	"maps"
	"slices"
)

// lease is a lock that is held. It is valid while now <= expiresAt.
type lease struct {
	owner     string
	expiresAt int64
}

// worker is one announcement. It is valid while now <= expiresAt.
type worker struct {
	queues    []string
	expiresAt int64
}

// Lead takes or renews a lock for ttl seconds. It succeeds if the lock is free, expired, or the owner's already.
func (s *Store) Lead(ctx context.Context, lock, owner string, ttlS int64) (bool, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return false, failed("lead", "", 0, err)
	}
	defer s.mu.Unlock()
	if l, taken := s.locks[lock]; taken && l.owner != owner && now <= l.expiresAt {
		return false, nil
	}
	s.locks[lock] = lease{owner: owner, expiresAt: after(now, ttlS)}
	return true, nil
}

// Resign frees a lock if it is the owner's.
func (s *Store) Resign(ctx context.Context, lock, owner string) error {
	if _, err := s.begin(ctx); err != nil {
		return failed("resign", "", 0, err)
	}
	defer s.mu.Unlock()
	if s.locks[lock].owner == owner {
		delete(s.locks, lock)
	}
	return nil
}

// Announce records for ttl seconds that a worker serves exactly these queues.
func (s *Store) Announce(ctx context.Context, name string, queues []string, ttlS int64) error {
	now, err := s.begin(ctx)
	if err != nil {
		return failed("announce", "", 0, err)
	}
	defer s.mu.Unlock()
	s.forget(name, now)
	s.workers[name] = worker{queues: slices.Compact(slices.Sorted(slices.Values(queues))), expiresAt: after(now, ttlS)}
	return nil
}

// Withdraw forgets a worker.
func (s *Store) Withdraw(ctx context.Context, name string) error {
	now, err := s.begin(ctx)
	if err != nil {
		return failed("withdraw", "", 0, err)
	}
	defer s.mu.Unlock()
	s.forget(name, now)
	return nil
}

// forget takes the workers that have lapsed along: a clock that is set back must not bring them to life again.
func (s *Store) forget(name string, now int64) {
	maps.DeleteFunc(s.workers, func(n string, w worker) bool { return n == name || w.expiresAt < now })
}

// SetPaused stops or resumes claims of a queue, whether or not it has jobs.
func (s *Store) SetPaused(ctx context.Context, queue string, paused bool) error {
	op := "resume"
	if paused {
		op = "pause"
	}
	if _, err := s.begin(ctx); err != nil {
		return failed(op, queue, 0, err)
	}
	defer s.mu.Unlock()
	if paused {
		s.paused[queue] = true
		return nil
	}
	delete(s.paused, queue)
	s.woke(queue)
	return nil
}
