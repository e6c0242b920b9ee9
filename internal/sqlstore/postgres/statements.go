package postgres

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
)

//go:embed sql/*.sql
var statementFiles embed.FS

// statement is one file of sql/, ready to send: without comments, its tables in their schema, and its named parameters
// numbered in the order of params.
type statement struct {
	text   string
	params []string
}

// statements are all files of sql/ by name without the suffix, for one schema.
type statements map[string]statement

var (
	commentLines = regexp.MustCompile(`(?m)^\s*--.*\n?`)
	// ourTables are names of the store; the channel of notifications has none of the kind.
	ourTables = regexp.MustCompile(`\b__alkstore_\w+`)
	// parameters are names such as :queue, and not the second half of a cast.
	parameters = regexp.MustCompile(`:([a-z_]+)`)
)

// schemaMark stands for the schema in the files.
const schemaMark = `:"schema"`

// readStatements are all files with the schema left open. They are read once: it takes longer than to open a store.
var readStatements = sync.OnceValue(func() statements {
	files, err := fs.Glob(statementFiles, "sql/*.sql")
	if err != nil {
		panic(err) // the pattern is constant
	}
	all := make(statements, len(files))
	for _, file := range files {
		content, err := statementFiles.ReadFile(file)
		if err != nil {
			panic(err) // it is embedded
		}
		text := commentLines.ReplaceAllString(string(content), "")
		text = strings.TrimSuffix(strings.TrimSpace(text), ";")
		text = ourTables.ReplaceAllString(text, schemaMark+".$0")
		var st statement
		st.text = parameters.ReplaceAllStringFunc(text, func(name string) string {
			i := slices.Index(st.params, name[1:])
			if i < 0 {
				i = len(st.params)
				st.params = append(st.params, name[1:])
			}
			return fmt.Sprint("$", i+1)
		})
		all[strings.TrimSuffix(path.Base(file), ".sql")] = st
	}
	return all
})

// statementsFor qualifies each table, rather than rely on the search path: transactions of callers have their own, and a
// pooler between us and the server gives every transaction another connection. The name of the schema comes in last: it
// may look like a table or a parameter.
func statementsFor(schema string) statements {
	quoted := pgx.Identifier{schema}.Sanitize()
	all := maps.Clone(readStatements())
	for name, st := range all {
		st.text = strings.ReplaceAll(st.text, schemaMark, quoted)
		all[name] = st
	}
	return all
}

// args are the parameters of a statement by name.
type args map[string]any

// scanner is one row of a result.
type scanner interface {
	Scan(dest ...any) error
}

// step is one statement of a transaction, and what to do with each row of its result; nil if there is none.
type step struct {
	name string
	args args
	scan func(row scanner) error
}

// prepare is the text of a step and its arguments in their order. The clock is the same for all statements.
func (all statements) prepare(s step, clock *int64) (text string, values []any) {
	st, ok := all[s.name]
	if !ok {
		panic(fmt.Sprintf("postgres: statement %q does not exist", s.name)) // a typo in this package
	}
	values = make([]any, len(st.params))
	for i, name := range st.params {
		v, ok := s.args[name]
		if name == "clock" {
			v, ok = clock, true
		}
		if !ok {
			panic(fmt.Sprintf("postgres: statement %q has a parameter %q, which was not given", s.name, name))
		}
		values[i] = v
	}
	return st.text, values
}

// querier is what statements run on.
type querier interface {
	// run runs steps in one transaction, or as part of the one that is open.
	run(ctx context.Context, all statements, clock *int64, steps []step) error
}

// ours is a pool, one of its connections, or a transaction on one.
type ours struct {
	on interface {
		Query(ctx context.Context, text string, values ...any) (pgx.Rows, error)
		SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
	}
	first []step // goes before what is run
}

// run sends all steps at once, and they have one Sync in common: to the server that is one transaction, and to us one
// round trip.
func (q ours) run(ctx context.Context, all statements, clock *int64, steps []step) error {
	if len(q.first) > 0 {
		steps = slices.Concat(q.first, steps)
	}
	if len(steps) == 1 {
		text, values := all.prepare(steps[0], clock)
		rows, err := q.on.Query(ctx, text, values...)
		if err != nil {
			return err
		}
		return scanAll(rows, steps[0].scan)
	}
	b := new(pgx.Batch)
	for _, s := range steps {
		text, values := all.prepare(s, clock)
		b.Queue(text, values...).Query(func(rows pgx.Rows) error { return scanAll(rows, s.scan) })
	}
	return q.on.SendBatch(ctx, b).Close()
}

func scanAll(rows pgx.Rows, scan func(row scanner) error) error {
	defer rows.Close()
	for rows.Next() {
		if scan == nil {
			continue
		}
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// callers is a transaction of the caller on database/sql.
type callers struct{ tx *sql.Tx }

func (q callers) run(ctx context.Context, all statements, clock *int64, steps []step) error {
	for _, s := range steps {
		text, values := all.prepare(s, clock)
		if err := q.query(ctx, text, values, s.scan); err != nil {
			return err
		}
	}
	return nil
}

func (q callers) query(ctx context.Context, text string, values []any, scan func(row scanner) error) (err error) {
	rows, err := q.tx.QueryContext(ctx, text, values...)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := rows.Close(); err == nil {
			err = cerr
		}
	}()
	for rows.Next() {
		if scan == nil {
			continue
		}
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
