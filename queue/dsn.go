package queue

import "strings"

// isPostgres says whether a DSN is the address of a PostgreSQL database.
func isPostgres(dsn string) bool {
	return strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://")
}

// sqlitePath returns the file that a DSN names. Anything that is not another store's address is a path, taken literally.
func sqlitePath(dsn string) (string, error) {
	path := strings.TrimPrefix(dsn, "sqlite:")
	switch {
	case path == "":
		return "", invalidf("no database given: name a file, such as jobs.db, or postgres://…")
	case path == ":memory:": // K68: every connection of the pool would see a database of its own
		return "", invalidf(`":memory:" cannot be shared by connections: use a file in a temporary directory, ` +
			`or "./:memory:" for a file of that name`)
	case strings.ContainsRune(path, 0):
		return "", invalidf("path %q contains a NUL byte", path)
	}
	return path, nil
}
