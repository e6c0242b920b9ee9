package sqlite

import (
	"context"
	"database/sql"
	"fmt"
)

// Lead implements [sqlstore.Fleet].
func (s *Store) Lead(ctx context.Context, lock, owner string, ttlS int64) (leads bool, err error) {
	err = s.writing(ctx, ordinary, alone, func(ctx context.Context, t *tx) error {
		leads, err = t.lead(ctx, lock, owner, ttlS)
		return err
	})
	return leads && err == nil, fail(fmt.Sprintf("take lock %q", lock), "", 0, err)
}

func (t *tx) lead(ctx context.Context, lock, owner string, ttlS int64) (leads bool, err error) {
	var holder string
	leads, err = t.one(ctx, "lead", []any{&holder},
		sql.Named("name", lock), sql.Named("owner", owner), sql.Named("ttl_s", ttlS), sql.Named("now", t.now))
	t.wrote = t.wrote || leads // by a statement that answers
	return leads, err
}

// Resign implements [sqlstore.Fleet].
func (s *Store) Resign(ctx context.Context, lock, owner string) error {
	err := s.writing(ctx, ordinary, alone, func(ctx context.Context, t *tx) error {
		return t.resign(ctx, lock, owner)
	})
	return fail(fmt.Sprintf("free lock %q", lock), "", 0, err)
}

func (t *tx) resign(ctx context.Context, lock, owner string) error {
	_, err := t.exec(ctx, "resign", sql.Named("name", lock), sql.Named("owner", owner))
	return err
}

// Announce implements [sqlstore.Fleet].
func (s *Store) Announce(ctx context.Context, worker string, queues []string, ttlS int64) error {
	err := s.writing(ctx, ordinary, alone, func(ctx context.Context, t *tx) error {
		if _, err := t.exec(ctx, "withdraw", sql.Named("worker", worker), sql.Named("now", t.now)); err != nil {
			return err
		}
		if len(queues) == 0 {
			return nil
		}
		_, err := t.exec(ctx, "announce", sql.Named("worker", worker), sql.Named("queues", jsonOf(queues)),
			sql.Named("ttl_s", ttlS), sql.Named("now", t.now))
		return err
	})
	return fail(fmt.Sprintf("announce worker %q", worker), "", 0, err)
}

// Withdraw implements [sqlstore.Fleet].
func (s *Store) Withdraw(ctx context.Context, worker string) error {
	err := s.writing(ctx, ordinary, alone, func(ctx context.Context, t *tx) error {
		_, err := t.exec(ctx, "withdraw", sql.Named("worker", worker), sql.Named("now", t.now))
		return err
	})
	return fail(fmt.Sprintf("withdraw worker %q", worker), "", 0, err)
}
