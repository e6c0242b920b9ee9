package postgres

import (
	"context"
	"fmt"
)

// Lead implements [sqlstore.Fleet].
func (s *Store) Lead(ctx context.Context, lock, owner string, ttlS int64) (leads bool, err error) {
	err = s.writing(ctx, ordinary, func(ctx context.Context, t *tx) error {
		leads = false
		return t.run(ctx, step{"lead", args{"name": cleaned(lock), "owner": cleaned(owner), "ttl_s": ttlS}, func(scanner) error {
			leads = true
			return nil
		}})
	})
	return leads && err == nil, fail(fmt.Sprintf("take lock %q", lock), "", 0, err)
}

// Resign implements [sqlstore.Fleet].
func (s *Store) Resign(ctx context.Context, lock, owner string) error {
	err := s.writing(ctx, ordinary, func(ctx context.Context, t *tx) error {
		return t.run(ctx, step{"resign", args{"name": cleaned(lock), "owner": cleaned(owner)}, nil})
	})
	return fail(fmt.Sprintf("free lock %q", lock), "", 0, err)
}

// Announce implements [sqlstore.Fleet].
func (s *Store) Announce(ctx context.Context, worker string, queues []string, ttlS int64) error {
	err := s.writing(ctx, ordinary, func(ctx context.Context, t *tx) error {
		return t.run(ctx,
			step{"withdraw", args{"worker": cleaned(worker)}, nil},
			step{"announce", args{"worker": cleaned(worker), "queues": texts(queues), "ttl_s": ttlS}, nil},
		)
	})
	return fail(fmt.Sprintf("announce worker %q", worker), "", 0, err)
}

// Withdraw implements [sqlstore.Fleet].
func (s *Store) Withdraw(ctx context.Context, worker string) error {
	err := s.writing(ctx, ordinary, func(ctx context.Context, t *tx) error {
		return t.run(ctx, step{"withdraw", args{"worker": cleaned(worker)}, nil})
	})
	return fail(fmt.Sprintf("withdraw worker %q", worker), "", 0, err)
}
