package command

import (
	"context"
	"log/slog"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
)

// The warnings at the start of a worker are about what is probably a mistake. That the registry is empty, the worker
// itself says. // K105

// warnAboutSetup looks at what the worker was told.
func (e *env) warnAboutSetup(logger *slog.Logger, registry *handlers.Registry, file *config) {
	for _, s := range file.schedules {
		if _, served := registry.Lookup(s.schedule.Queue); !served {
			logger.Warn("schedule fires into a queue that this worker does not serve",
				"schedule", s.schedule.Name, "queue", s.schedule.Queue)
		}
	}
	dsn, err := e.dsn()
	if err != nil {
		return // open has reported it
	}
	path, ok := filePath(dsn)
	if !ok {
		return
	}
	if name := networkFileSystem(path); name != "" { // K60
		logger.Warn("the database is on a network file system, where SQLite may lose data: move it to a local disk",
			"database", path, "file_system", name)
	}
}

// warnAboutUnserved looks for jobs that wait for nobody. Counting a large database takes a moment. // K17
func warnAboutUnserved(ctx context.Context, logger *slog.Logger, client *queue.Client, registry *handlers.Registry) {
	stats, err := client.Stats(ctx)
	if err != nil {
		if ctx.Err() == nil {
			logger.Warn("cannot tell which queues nobody serves", "error", err)
		}
		return
	}
	for _, s := range stats {
		if _, served := registry.Lookup(s.Queue); !served && unserved(s) {
			logger.Warn("jobs wait in a queue that no worker serves so far: is its name misspelled?",
				"queue", s.Queue, "ready", s.Ready, "delayed", s.Delayed, "oldest_ready", s.OldestReady)
		}
	}
}
