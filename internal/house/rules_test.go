package house

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// ruleCounts is how many rules each section of the contract has.
var ruleCounts = []struct {
	section string
	rules   int
}{{"T", 6}, {"E", 8}, {"C", 7}, {"H", 10}, {"D", 5}, {"B", 2}, {"S", 7}}

// ruleNames finds the numbers that a test's name begins with, as in "C3_reclaim" or "H4_H7_no_text".
var ruleNames = regexp.MustCompile(`^(?:[TECHDBS]\d+_)+`)

// rulesOf returns the rules that are named by tests of one file: by the name of a subtest, which is a string wherever it
// stands, or by the name of a function.
func rulesOf(f *ast.File) []string {
	var found []string
	add := func(name string) {
		prefix := strings.TrimSuffix(ruleNames.FindString(name+"_"), "_")
		if prefix != "" {
			found = append(found, strings.Split(strings.TrimRight(prefix, "_"), "_")...)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				if s, err := strconv.Unquote(n.Value); err == nil {
					add(s)
				}
			}
		case *ast.FuncDecl:
			for _, prefix := range []string{"Test", "Fuzz"} {
				if rest, ok := strings.CutPrefix(n.Name.Name, prefix); ok {
					add(strings.TrimPrefix(rest, "_"))
				}
			}
		}
		return true
	})
	return found
}

// TestRules wants a test for every rule of the contract. With -v it prints which files have one.
func TestRules(t *testing.T) {
	where := make(map[string][]string)
	for _, s := range sources(t) {
		if s.dir() == "internal/house" || !s.test() && s.dir() != "internal/sqlstore/storetest" {
			continue
		}
		for _, rule := range rulesOf(s.file) {
			if !slices.Contains(where[rule], s.name) {
				where[rule] = append(where[rule], s.name)
			}
		}
	}
	var missing []string
	for _, section := range ruleCounts {
		for i := range section.rules {
			rule := fmt.Sprint(section.section, i+1)
			files := where[rule]
			if len(files) == 0 {
				missing = append(missing, rule)
			}
			t.Logf("%-3s %s", rule, strings.Join(files, " "))
			delete(where, rule)
		}
	}
	if len(missing) > 0 {
		t.Errorf("no test is named after these rules: %s", strings.Join(missing, " "))
	}
	for rule, files := range where {
		t.Errorf("rule %s does not exist; it is named in %s", rule, strings.Join(files, " "))
	}
}
