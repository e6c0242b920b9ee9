//go:build unix && !linux

package torture

import (
	"errors"
	"os/exec"
)

var errNoMachine = errors.New("it takes Linux")

func serveMachine() bool { return false }

func makeDisk(string) error { return errNoMachine }

func (machine) start() (*exec.Cmd, error) { return nil, errNoMachine }
