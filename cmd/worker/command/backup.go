package command

import (
	"context"
	"os"
	"path/filepath"

	"github.com/alkstore/alkworker/queue"
)

type backupCommand struct {
	File string `arg:"" help:"The copy to write. An existing file is never overwritten."`
}

// Help is the second part of the command's help.
func (*backupCommand) Help() string {
	return "Workers may run meanwhile. Copying the database file by other means misses what is still in its -wal file. " +
		"A PostgreSQL database is no file: use pg_dump."
}

// backupJSON is the copy that was written.
type backupJSON struct {
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
}

func (c *backupCommand) Run(ctx context.Context, e *env) error {
	if c.File == "" {
		return usagef("the name of the copy is empty")
	}
	return e.with(ctx, e.open, func(client *queue.Client) error {
		if err := client.Backup(ctx, c.File); err != nil {
			return err
		}
		info, err := os.Stat(filepath.Clean(c.File)) // to whom a slash at its end says nothing
		if err != nil {
			return failedf("backup: %w", err)
		}
		if e.out.json {
			return e.out.object(backupJSON{File: c.File, Bytes: info.Size()})
		}
		return e.out.printf("wrote %s, %d bytes\n", clean(c.File), info.Size())
	})
}
