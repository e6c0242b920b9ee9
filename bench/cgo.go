//go:build cgo && mattn

package main

import (
	"strings"

	_ "github.com/mattn/go-sqlite3" // the driver "sqlite3"
)

// cgoSpecs are the peers that leave the driver to their users, on SQLite in C, which is what their documents show. It is
// faster, and needs a C compiler. W11 is not among their work: it would open the file with two SQLite libraries in one
// process, and each drops the other's locks.
func cgoSpecs() []*Spec {
	var all []*Spec
	for _, s := range append(goqiteSpecs(), backliteSpecs()...) {
		if strings.Contains(s.Name, "-") {
			continue
		}
		s.Name += "-mattn"
		s.Driver = "sqlite3"
		s.Modules = append(s.Modules, "github.com/mattn/go-sqlite3")
		s.Settings = "github.com/mattn/go-sqlite3; " + s.Settings
		s.Only = []string{"W1", "W2", "W3", "W4", "W5", "W6"}
		all = append(all, s)
	}
	return all
}
