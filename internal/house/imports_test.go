package house

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/alkstore/alkworker"

// room is one package: what it may import of this module and of others.
type room struct {
	dir   string // with a * for every folder
	rooms []string
	libs  []string // module paths or packages outside the standard library
}

// rooms is the house from the ground up:
//
//	sqlstore <- queue <- handlers, scheduler <- runtime <- cmd, examples
//
// A room may only import rooms that stand above it in this list, and of those only the ones it names. Its tests may
// import every room above it, and the helpers of tests. A new arrow, as well as a new library, is a
// decision: it starts with a line here.
var rooms = []room{
	{dir: "internal/sqlstore"},
	{dir: "internal/sqlstore/memory", rooms: []string{"internal/sqlstore"}},
	{ // The model that random tests compare every store with is the one in memory.
		dir:   "internal/sqlstore/storetest",
		rooms: []string{"internal/sqlstore", "internal/sqlstore/memory"},
		libs:  []string{"github.com/google/go-cmp", "golang.org/x/sync"},
	},
	{dir: "internal/sqlstore/faultdriver"},
	{dir: "internal/sqlstore/sqlite/walvfs", libs: []string{"modernc.org/sqlite", "modernc.org/libc"}},
	{
		dir:   "internal/sqlstore/sqlite",
		rooms: []string{"internal/sqlstore", "internal/sqlstore/sqlite/walvfs"},
		libs:  []string{"modernc.org/sqlite", "golang.org/x/mod", "github.com/fsnotify/fsnotify", "golang.org/x/sys"},
	},
	{
		dir:   "internal/sqlstore/postgres",
		rooms: []string{"internal/sqlstore"},
		libs:  []string{"github.com/jackc/pgx/v5", "golang.org/x/sync", "golang.org/x/sys"},
	},
	{dir: "internal/sqlstore/postgres/pgtest", libs: []string{"github.com/jackc/pgx/v5", "golang.org/x/mod"}},
	{dir: "internal/torture"}, // tests only, over all stores
	{
		dir:   "queue",
		rooms: []string{"internal/sqlstore", "internal/sqlstore/sqlite", "internal/sqlstore/postgres"},
		libs:  []string{"github.com/cenkalti/backoff/v4"},
	},
	{dir: "queue/pgxtx", rooms: []string{"queue"}, libs: []string{"github.com/jackc/pgx/v5"}},
	{dir: "handlers", rooms: []string{"queue"}},
	{
		dir:   "handlers/exec",
		rooms: []string{"handlers", "queue"},
		libs:  []string{"github.com/kballard/go-shellquote", "golang.org/x/sys"},
	},
	{
		dir:   "scheduler",
		rooms: []string{"internal/sqlstore", "queue"},
		libs:  []string{"github.com/cenkalti/backoff/v4"},
	},
	{
		dir:   "runtime",
		rooms: []string{"queue", "handlers", "scheduler"},
		libs:  []string{"github.com/cenkalti/backoff/v4", "golang.org/x/sync"},
	},
	{
		dir:   "cmd/worker/command",
		rooms: []string{"queue", "handlers", "handlers/exec", "scheduler", "runtime"},
		libs: []string{
			"github.com/alecthomas/kong", "github.com/pelletier/go-toml/v2", "github.com/lmittmann/tint",
			"github.com/mattn/go-isatty", "golang.org/x/sync", "golang.org/x/sys",
			"modernc.org/sqlite/lib", // its version is one that the command prints
		},
	},
	{dir: "cmd/worker", rooms: []string{"handlers", "cmd/worker/command"}},
	{ // Programs that people copy: they get by with what everybody may import.
		dir:   "examples/*",
		rooms: []string{"queue", "handlers", "handlers/exec", "scheduler", "runtime", "cmd/worker/command"},
		libs:  []string{"golang.org/x/image", "golang.org/x/sync"},
	},
	{dir: "internal/house"},
	{dir: "internal/crashtest"},
}

// helpers are rooms for tests, wherever they stand.
var helpers = []string{"internal/sqlstore/storetest", "internal/sqlstore/postgres/pgtest"}

// testLibs are what every test may import.
var testLibs = []string{
	"github.com/google/go-cmp", "github.com/rogpeppe/go-internal", "go.uber.org/goleak", "golang.org/x/sync",
	"golang.org/x/sys", "modernc.org/sqlite", "github.com/jackc/pgx/v5", "pgregory.net/rapid",
	"github.com/anishathalye/porcupine",
}

// reserved are packages of the standard library that belong to the rooms named here and to tests.
var reserved = map[string][]string{
	"testing": {"internal/sqlstore/storetest", "internal/sqlstore/postgres/pgtest"},
	"database/sql": {
		"internal/sqlstore/sqlite", "internal/sqlstore/postgres", "queue", "handlers", "examples/outbox",
	},
	"os/exec":  {"handlers/exec", "examples/thumbnails", "internal/sqlstore/postgres/pgtest"},
	"net/http": {"cmd/worker/command", "examples/embedded"},
	"unsafe":   {"internal/sqlstore/sqlite/walvfs"}, // SQLite's file systems are made of C's pointers
	"plugin":   {},
}

// arrow is one import.
type arrow struct {
	from string // folder of the importing package
	to   string // import path
	test bool   // in a _test.go file
}

// illegal says why the import is not allowed by the list, and "" if it is.
func (a arrow) illegal() string {
	from := slices.IndexFunc(rooms, func(r room) bool { return r.matches(a.from) })
	if from < 0 {
		return "is not in the list of rooms"
	}
	here := rooms[from]
	if a.to == module || strings.HasPrefix(a.to, module+"/") {
		dir := strings.TrimPrefix(strings.TrimPrefix(a.to, module), "/")
		to := slices.IndexFunc(rooms, func(r room) bool { return r.matches(dir) })
		switch {
		case a.test && (dir == a.from || slices.Contains(helpers, dir)): // dir == a.from in an external test
			return ""
		case to < 0:
			return "imports what is not in the list of rooms"
		case to >= from:
			return "imports a room that is not below its own"
		case a.test || slices.Contains(here.rooms, dir):
			return ""
		}
		return "has no such room in its line of the list"
	}
	first, _, _ := strings.Cut(a.to, "/")
	if !strings.Contains(first, ".") {
		if owners, ok := reserved[a.to]; ok && !a.test && !slices.Contains(owners, a.from) {
			return fmt.Sprintf("is none of %v", owners)
		}
		return ""
	}
	libs := here.libs
	if a.test {
		libs = slices.Concat(libs, testLibs)
	}
	if !slices.ContainsFunc(libs, func(lib string) bool { return a.to == lib || strings.HasPrefix(a.to, lib+"/") }) {
		return "has no such library in its line of the list"
	}
	return ""
}

func (r room) matches(dir string) bool {
	ok, err := path.Match(r.dir, dir)
	return ok && err == nil
}

// TestImports reads all files, those for other systems as well, which go list would leave out.
func TestImports(t *testing.T) {
	seen := make(map[string]bool)
	for _, s := range sources(t) {
		seen[s.dir()] = true
		for _, spec := range s.file.Imports {
			to, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			a := arrow{from: s.dir(), to: to, test: s.test()}
			if why := a.illegal(); why != "" {
				t.Errorf("%s imports %q: %s %s", s.set.Position(spec.Pos()), to, a.from, why)
			}
		}
	}
	for dir := range seen {
		if !slices.ContainsFunc(rooms, func(r room) bool { return r.matches(dir) }) {
			t.Errorf("%s is in the tree, but not in the list of rooms", dir)
		}
	}
	for _, r := range rooms {
		found := false
		for dir := range seen {
			found = found || r.matches(dir)
		}
		if !found {
			t.Errorf("room %s is in the list, but not in the tree", r.dir)
		}
	}
}

func TestImportsListGoesOneWay(t *testing.T) {
	for i, r := range rooms {
		for _, below := range r.rooms {
			if !slices.ContainsFunc(rooms[:i], func(b room) bool { return b.dir == below }) {
				t.Errorf("%s names %s, which does not stand above it in the list", r.dir, below)
			}
		}
	}
}

func TestImportsCheckerFindsBadArrows(t *testing.T) {
	const (
		product = false
		test    = true
	)
	for _, tc := range []struct {
		name string
		arrow
		want string // part of the reason, empty if the arrow is allowed
	}{
		{"down", arrow{"queue", module + "/internal/sqlstore", product}, ""},
		{"down_over_a_floor", arrow{"handlers", module + "/internal/sqlstore", product}, "no such room"},
		{"up", arrow{"queue", module + "/handlers", product}, "not below"},
		{"up_in_a_test", arrow{"queue", module + "/runtime", test}, "not below"},
		{"sideways", arrow{"handlers", module + "/scheduler", product}, "not below"},
		{"sideways_the_other_way", arrow{"scheduler", module + "/handlers", product}, "no such room"},
		{"a_program", arrow{"runtime", module + "/cmd/worker/command", product}, "not below"},
		{"an_example", arrow{"cmd/worker/command", module + "/examples/quickstart", product}, "not below"},
		{"another_example", arrow{"examples/outbox", module + "/examples/quickstart", product}, "not below"},
		{"internal_from_an_example", arrow{"examples/outbox", module + "/internal/sqlstore", product}, "no such room"},
		{"test_double_in_product", arrow{"queue", module + "/internal/sqlstore/memory", product}, "no such room"},
		{"test_double_in_test", arrow{"queue", module + "/internal/sqlstore/memory", test}, ""},
		{"suite_in_a_test_below_it", arrow{"internal/sqlstore/memory", module + "/internal/sqlstore/storetest", test}, ""},
		{"suite_in_product", arrow{"queue", module + "/internal/sqlstore/storetest", product}, "no such room"},
		{"external_test_of_itself", arrow{"queue", module + "/queue", test}, ""},
		{"unknown_room", arrow{"util", "fmt", product}, "not in the list"},
		{"unknown_target", arrow{"queue", module + "/util", product}, "not in the list"},
		{"module_itself", arrow{"queue", module, product}, "not in the list"},
		{"lookalike_module", arrow{"queue", module + "x/queue", product}, "no such library"},
		{"library", arrow{"queue", "github.com/cenkalti/backoff/v4", product}, ""},
		{"package_of_a_library", arrow{"internal/sqlstore/sqlite", "modernc.org/sqlite/lib", product}, ""},
		{"library_of_another_room", arrow{"queue", "modernc.org/sqlite", product}, "no such library"},
		{"library_with_a_longer_name", arrow{"internal/sqlstore/sqlite", "modernc.org/sqlite3", product}, "no such library"},
		{"test_library_in_product", arrow{"queue", "go.uber.org/goleak", product}, "no such library"},
		{"test_library_in_test", arrow{"queue", "go.uber.org/goleak", test}, ""},
		{"standard_library", arrow{"queue", "encoding/json", product}, ""},
		{"reserved", arrow{"queue", "os/exec", product}, "is none of [handlers/exec"},
		{"reserved_for_it", arrow{"handlers/exec", "os/exec", product}, ""},
		{"reserved_in_test", arrow{"queue", "os/exec", test}, ""},
		{"reserved_for_nobody", arrow{"queue", "plugin", product}, "is none of []"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := tc.illegal()
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("%s -> %s: got %q, want %q", tc.from, tc.to, got, tc.want)
			}
		})
	}
}
