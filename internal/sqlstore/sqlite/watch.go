package sqlite

import (
	"context"
	"database/sql"
	"runtime"
	"time"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

// Watch implements [sqlstore.Store]. Other processes are noticed by events of the file system, and confirmed by PRAGMA
// data_version, which reads a counter in shared memory and touches neither the disk nor a lock. Where there are no events
// it looks every poll, elsewhere every three seconds at most, in case one was lost.
func (s *Store) Watch(ctx context.Context, poll time.Duration, wake func(queue string)) error {
	told := s.signals.Listen()
	if told == nil {
		return fail("watch", "", 0, sqlstore.ErrClosed)
	}
	defer s.signals.Leave(told)
	events := listen(s.files.path)
	defer events.close()
	look := s.newLook()
	defer look.close()

	tick := time.NewTicker(events.poll(poll))
	defer tick.Stop()
	written := s.write.disk.commits.Load() // by this process, when it looked last
	wake("")                               // for what was written between the caller's last look and this one
	for {
		byEvent := false
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-told.Ring():
			queues, _, open := told.Take()
			if !open {
				return fail("watch", "", 0, sqlstore.ErrClosed)
			}
			for _, queue := range queues {
				wake(queue)
			}
			continue
		case e := <-events.event():
			if !events.about(e) {
				continue
			}
			if s.write.active(written) {
				events.ours()
				continue
			}
			events.heard()
			byEvent = true
		case <-events.trouble(): //nolint:errcheck // whatever was missed, the answer is a look
			byEvent = true
		case <-events.again.c:
			if !events.due() {
				continue
			}
			byEvent = true
		case <-tick.C:
		}
		// Whoever is woken by a timer or a file inherits a time slice that may be over, and would lose the processor to
		// handlers that compute, with a lock of SQLite in its hands that a heartbeat needs. Now it has none. // K6
		runtime.Gosched()
		written = s.write.disk.commits.Load()
		changed, err := look.changed()
		if err != nil {
			return fail("watch", "", 0, err)
		}
		if changed {
			wake("")
		}
		if byEvent {
			events.looked(changed)
		}
	}
}

// look tells whether anybody has changed the database since the last time.
type look struct {
	files   *witness
	seen    *sight
	pool    *sql.DB // of one connection: the counter is each connection's own
	on      *session
	version int64
}

func (s *Store) newLook() *look {
	pool := openPool(s.path, s.options, reader, 1)
	l := &look{files: s.files, pool: pool, on: newSession(pool)}
	l.version, _ = l.dataVersion()
	l.seen = s.files.meet() // after the first read, which opens them
	return l
}

// changed takes a failed look for a change: the claim that follows meets the same trouble and reports it. Its error is
// that of files that are gone.
func (l *look) changed() (changed bool, err error) {
	version, failed := l.dataVersion()
	if failed != nil {
		l.seen = &sight{} // the connection may be another one the next time
	} else if l.seen.wal == nil {
		l.seen = l.files.meet()
	}
	changed = failed != nil || version != l.version
	l.version = version
	return changed, l.files.look(l.seen)
}

func (l *look) close() {
	_ = l.on.close()
	_ = l.pool.Close() // only ever read
}

// dataVersion never waits, and a context that may end would cost as much again: two goroutines.
func (l *look) dataVersion() (version int64, err error) {
	_, err = l.on.one(context.Background(), "data_version", []any{&version})
	return version, err
}
