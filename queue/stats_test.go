package queue_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/memory"
	"github.com/alkstore/alkworker/queue"
)

// slowCount is a store that takes a while to count.
type slowCount struct {
	sqlstore.Store
	takes time.Duration

	mu     sync.Mutex
	counts int
	fails  error
}

func (s *slowCount) Stats(ctx context.Context) ([]sqlstore.QueueStats, error) {
	s.mu.Lock()
	s.counts++
	fails := s.fails
	s.mu.Unlock()
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if fails != nil {
		return nil, fails
	}
	return s.Store.Stats(ctx)
}

func (s *slowCount) counted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

func TestStatsOfMany(t *testing.T) {
	// tell lets some ask again and again for a minute, and says how often.
	tell := func(t *testing.T, c *queue.Client, callers int, pause time.Duration) (answers int) {
		var all sync.WaitGroup
		var mu sync.Mutex
		over := time.Now().Add(time.Minute)
		for range callers {
			all.Go(func() {
				for time.Now().Before(over) {
					if _, err := c.Stats(t.Context()); err != nil {
						t.Error(err)
					}
					mu.Lock()
					answers++
					mu.Unlock()
					<-time.After(pause)
				}
			})
		}
		all.Wait()
		return answers
	}
	open := func(takes time.Duration) (*queue.Client, *slowCount) {
		s := &slowCount{Store: memory.New(memory.Options{Clock: newClock().unix}), takes: takes}
		return queue.NewClient(s, nil), s
	}

	t.Run("K94_a_laborious_count_is_shared_however_many_ask", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, s := open(time.Second)
			_, err := c.Stats(t.Context())
			must(t, err)
			if answers := tell(t, c, 5, 100*time.Millisecond); answers < 2000 {
				t.Errorf("got %d answers in a minute, want those of five callers each tenth of a second", answers)
			}
			if got := s.counted(); got < 5 || got > 7 { // one each eleven seconds
				t.Errorf("counted %d times in a minute, want about six times", got)
			}
		})
	})
	t.Run("a_quick_count_is_never_an_old_one", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, s := open(10 * time.Millisecond)
			if answers := tell(t, c, 5, time.Second); answers != s.counted() {
				t.Errorf("counted %d times for %d answers", s.counted(), answers)
			}
		})
	})
	t.Run("what_has_become_quick_again_is_counted_for_each", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, s := open(time.Second)
			_, err := c.Stats(t.Context())
			must(t, err)
			s.takes = 0
			<-time.After(11 * time.Second)
			before := s.counted()
			if answers := tell(t, c, 5, time.Second); answers != s.counted()-before {
				t.Errorf("counted %d times for %d answers", s.counted()-before, answers)
			}
		})
	})
	t.Run("a_failure_is_not_kept", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, s := open(time.Second)
			_, err := c.Stats(t.Context())
			must(t, err)
			<-time.After(11 * time.Second)
			s.fails = queue.ErrBusy
			if _, err := c.Stats(t.Context()); !errors.Is(err, queue.ErrBusy) {
				t.Errorf("got %v, want the failure", err)
			}
			s.fails = nil
			_, err = c.Stats(t.Context())
			must(t, err)
		})
	})
	t.Run("whoever_waits_for_the_count_of_another_may_give_up", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, s := open(time.Hour)
			_, err := c.Stats(t.Context())
			must(t, err)
			<-time.After(11 * time.Hour)
			answer := make(chan error, 1)
			go func() {
				_, err := c.Stats(t.Context())
				answer <- err
			}()
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := c.Stats(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want the end of its context", err)
			}
			must(t, <-answer)
			if got := s.counted(); got != 2 {
				t.Errorf("counted %d times, want twice", got)
			}
		})
	})
}
