package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// Options are how large a run is. Sizes and times are multiplied by Scale.
type Options struct {
	Rounds int           `json:"rounds"`
	Scale  float64       `json:"scale"`
	Slots  int           `json:"slots"`  // of our worker in W4 to W6 and W13
	Limit  time.Duration `json:"limit"`  // when a drain is given up; not scaled
	Steady time.Duration `json:"steady"` // length of W12
}

func (o Options) jobs(n int) int { return max(int(float64(n)*o.Scale), 1) }

func (o Options) span(d time.Duration) time.Duration {
	return max(time.Duration(float64(d)*o.Scale), 20*time.Millisecond)
}

// bench runs measurements, each in a place of its own.
type bench struct {
	Options
	dir    string
	hosts  map[ServerKind]host
	absent map[ServerKind]error // servers that could not be started
	seeds  map[string]*site
	settle func()
}

func newBench(o Options, dir string) *bench {
	return &bench{
		Options: o,
		dir:     dir,
		hosts:   make(map[ServerKind]host),
		absent:  make(map[ServerKind]error),
		seeds:   make(map[string]*site),
		settle:  settleDisk,
	}
}

// host returns the host of a kind of server, started when it is first asked for.
func (b *bench) host(ctx context.Context, kind ServerKind) (host, error) {
	if h, ok := b.hosts[kind]; ok {
		return h, nil
	}
	if err, ok := b.absent[kind]; ok {
		return nil, err
	}
	h, err := b.start(ctx, kind)
	if err != nil {
		b.absent[kind] = err
		return nil, err
	}
	b.hosts[kind] = h
	return h, nil
}

func (b *bench) start(ctx context.Context, kind ServerKind) (host, error) {
	switch kind {
	case NoServer:
		return &files{dir: b.dir}, nil
	case Postgres:
		return startPostgres(ctx, b.dir)
	case RedisEvery:
		return startRedis(ctx, b.dir, "everysec")
	case RedisAlways:
		return startRedis(ctx, b.dir, "always")
	}
	return nil, fmt.Errorf("there is no server %q", kind)
}

func (b *bench) close() error {
	var errs []error
	for _, s := range b.seeds {
		errs = append(errs, s.remove())
	}
	for _, h := range b.hosts {
		errs = append(errs, h.close())
	}
	return errors.Join(append(errs, os.RemoveAll(b.dir))...)
}

// at runs work in a fresh place and removes it.
func (b *bench) at(ctx context.Context, s *Spec, work func(p Place) error) error {
	return b.within(ctx, s, func(h host) (*site, error) { return h.fresh(ctx) }, work)
}

// atSeeded runs work in a place that the order has filled. It is filled once for a whole run and copied for each use.
func (b *bench) atSeeded(ctx context.Context, s *Spec, fill order, work func(p Place) error) error {
	fill.Subject = s.Name
	if s.Seeder != "" {
		fill.Subject = s.Seeder
	}
	return b.within(ctx, s, func(h host) (*site, error) {
		seed, err := b.seed(ctx, fill)
		if err != nil {
			return nil, fmt.Errorf("fill the database: %w", err)
		}
		return h.clone(ctx, seed)
	}, work)
}

func (b *bench) seed(ctx context.Context, fill order) (*site, error) {
	key := fmt.Sprintf("%s %s %s %d", fill.Subject, fill.Step, fill.Case, fill.Jobs)
	if seed, ok := b.seeds[key]; ok {
		return seed, nil
	}
	s, err := subject(fill.Subject)
	if err != nil {
		return nil, err
	}
	h, err := b.host(ctx, s.Server)
	if err != nil {
		return nil, err
	}
	seed, err := h.fresh(ctx)
	if err != nil {
		return nil, err
	}
	fill.Place, fill.Limit = seed.Place, 30*time.Minute
	if _, err := runStep(ctx, fill); err != nil {
		return nil, errors.Join(err, seed.remove())
	}
	if err := seed.freeze(); err != nil {
		return nil, errors.Join(err, seed.remove())
	}
	b.seeds[key] = seed
	return seed, nil
}

func (b *bench) within(
	ctx context.Context, s *Spec, prepare func(h host) (*site, error), work func(p Place) error,
) error {
	h, err := b.host(ctx, s.Server)
	if err != nil {
		return err
	}
	place, err := prepare(h)
	if err != nil {
		return err
	}
	b.settle()
	return errors.Join(work(place.Place), place.remove())
}
