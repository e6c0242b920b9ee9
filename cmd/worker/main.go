// Command worker enqueues, inspects and runs jobs. It knows no handlers of its own: give it programs to run with --exec
// or a configuration file, or write a main like this one with a registry of your own.
package main

import (
	"github.com/alkstore/alkworker/cmd/worker/command"
	"github.com/alkstore/alkworker/handlers"
)

func main() {
	command.Main(handlers.NewRegistry())
}
