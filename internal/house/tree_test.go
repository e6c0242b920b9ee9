package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the folder of go.mod, seen from this package.
const root = "../.."

// tree calls visit for every file of the module, with its path from the root with slashes. Other modules below it are
// left out, and so is what only tools see.
func tree(t *testing.T, visit func(name string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		switch {
		case name == ".git" && !d.IsDir(): // of a worktree
		case !d.IsDir():
			visit(name)
		case name == ".git", name == "bin":
			return filepath.SkipDir
		case name != ".":
			if _, err := os.Stat(filepath.Join(p, "go.mod")); err == nil {
				return filepath.SkipDir
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// source is one Go file, for whatever system it is.
type source struct {
	name string // from the root
	file *ast.File
	set  *token.FileSet
}

func (s source) dir() string { return path.Dir(s.name) }
func (s source) test() bool  { return strings.HasSuffix(s.name, "_test.go") }

// sources parses every Go file of the module.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	set := token.NewFileSet()
	tree(t, func(name string) {
		if path.Ext(name) != ".go" || strings.Contains("/"+name, "/testdata/") {
			return
		}
		f, err := parser.ParseFile(set, filepath.Join(root, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, source{name: name, file: f, set: set})
	})
	if len(all) == 0 {
		t.Fatalf("no Go files below %s", root)
	}
	return all
}

// read returns a file of the module with its line ends as \n.
func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(b), "\r\n", "\n")
}

// documents are the Markdown files of the module.
func documents(t *testing.T) []string {
	t.Helper()
	var names []string
	tree(t, func(name string) {
		if path.Ext(name) == ".md" {
			names = append(names, name)
		}
	})
	slices.Sort(names)
	return names
}
