package command

import (
	"context"
	goruntime "runtime"
	"runtime/debug"

	lib "modernc.org/sqlite/lib"
)

const (
	ownModule    = "github.com/alkstore/alkworker"
	driverModule = "modernc.org/sqlite"
)

type versionCommand struct{}

// versionJSON is what the program was built of. A version that the build does not know is "unknown".
type versionJSON struct {
	Version string `json:"version"` // of this module, which may be a dependency of the program
	Go      string `json:"go"`
	SQLite  string `json:"sqlite"`
	Driver  string `json:"driver"` // modernc.org/sqlite
}

func (*versionCommand) Run(_ context.Context, e *env) error {
	v := versions()
	if e.out.json {
		return e.out.object(v)
	}
	return e.out.printf("worker %s\n%s\nSQLite %s (%s %s)\n", v.Version, v.Go, v.SQLite, driverModule, v.Driver)
}

func versions() versionJSON {
	v := versionJSON{Version: "unknown", Go: goruntime.Version(), SQLite: lib.SQLITE_VERSION, Driver: "unknown"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		version := m.Version
		if m.Replace != nil {
			version = m.Replace.Version
		}
		if version == "" {
			continue
		}
		switch m.Path {
		case ownModule:
			v.Version = version
		case driverModule:
			v.Driver = version
		}
	}
	return v
}
