package sqlite_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/sqlite"
)

// commands are what a child process can be told.
var commands = map[string]func(ctx context.Context, args []string) (string, error){
	"ping":    func(context.Context, []string) (string, error) { return "", nil },
	"open":    childOpen,
	"migrate": childMigrate,
	"hash":    childHash,
	"lock":    childLock,
	"die":     childDie,
	"count":   childCount,
	"created": childCreated,
}

// addCommand is for commands of some systems only.
func addCommand(name string, do func(ctx context.Context, args []string) (string, error)) struct{} {
	commands[name] = do
	return struct{}{}
}

// childMigrate opens and closes a file without patience for locks.
func childMigrate(ctx context.Context, args []string) (string, error) {
	s, err := sqlite.Open(ctx, args[0], impatient)
	if err != nil {
		return "", err
	}
	return "", s.Close()
}

// childOpen opens a file, puts a job into it and closes it.
func childOpen(ctx context.Context, args []string) (_ string, err error) {
	s, err := sqlite.Open(ctx, args[0], sqlite.Options{})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	_, err = s.Enqueue(ctx, []sqlstore.NewJob{newJob("child")})
	return "", err
}

// childHash reads a whole folder. Only a process that has no database open may do so: closing a file drops all of the
// process's locks on it (K66).
func childHash(_ context.Context, args []string) (string, error) {
	var text string
	entries, err := os.ReadDir(args[0])
	for _, e := range entries {
		content, rerr := os.ReadFile(filepath.Join(args[0], e.Name()))
		err = errors.Join(err, rerr)
		text += fmt.Sprintf("%s %d %x\n", e.Name(), len(content), sha256.Sum256(content))
	}
	return text, err
}

// childLock tries to get past each lock that a process with an open write transaction holds, and names those that it
// got: the write lock is in the -shm file, the lock against others who would do without WAL on the database itself.
func childLock(ctx context.Context, args []string) (got string, err error) {
	db, err := sql.Open("sqlite", "file:"+args[0]+"?mode=rw&_busy_timeout=0")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	for _, try := range [][2]string{{"write", "BEGIN IMMEDIATE; ROLLBACK"}, {"database", "PRAGMA journal_mode = DELETE"}} {
		_, err := db.ExecContext(ctx, try[1])
		var e *driver.Error
		switch {
		case err == nil:
			got += try[0] + " "
		case !errors.As(err, &e) || e.Code()&0xff != lib.SQLITE_BUSY:
			return got, err
		}
	}
	return got, nil
}

// childDie opens a file and kills its own process before the nth statement of the migration, or once all are run before
// they are committed. It answers how many there were if that is less than n.
func childDie(ctx context.Context, args []string) (string, error) {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return "", err
	}
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return "", err
	}
	seen := 0
	step := func() {
		if seen++; seen == n {
			_ = self.Kill()
			select {} // until it is
		}
	}
	driver.RegisterConnectionHook(func(c driver.ExecQuerierContext, _ string) error {
		if hooks, ok := c.(driver.HookRegisterer); ok {
			hooks.RegisterCommitHook(func() int32 { step(); return 0 })
		}
		return c.(driver.AuthorizerRegisterer).RegisterAuthorizer(
			func(action driver.AuthorizerActionCode, _, _, _, _ string) driver.AuthorizerReturnCode {
				switch action {
				case driver.AuthTransaction, driver.AuthAlterTable, driver.AuthCreateTable, driver.AuthCreateIndex,
					driver.AuthDropTable, driver.AuthPragma:
					step()
				}
				return driver.AuthorizerOK
			})
	})
	_, err = childOpen(ctx, args)
	return strconv.Itoa(seen), err
}

// childCount counts the rows of a table.
func childCount(ctx context.Context, args []string) (text string, err error) {
	db, err := sql.Open("sqlite", sqlite.DSN(args[0], sqlite.Options{}))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.QueryRowContext(ctx, fmt.Sprintf("SELECT count(*) FROM %q", args[1])).Scan(&text)
	return text, err
}

// childCreated enqueues a job with a delay of a minute and answers its id.
func childCreated(ctx context.Context, args []string) (_ string, err error) {
	s, err := sqlite.Open(ctx, args[0], sqlite.Options{})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	j := newJob("zone")
	j.DelayS = 60
	ids, err := s.Enqueue(ctx, []sqlstore.NewJob{j})
	if err != nil {
		return "", err
	}
	return strconv.FormatInt(ids[0], 10), nil
}
