//go:build unix

package exec

import (
	osexec "os/exec"
	"syscall"
)

// ownGroup makes cmd, when it is started, the leader of a process group of its own, whose id is the process id.
func ownGroup(cmd *osexec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// terminate asks every process of the group to end. Errors are not looked at, here and below: there is none but that no
// process is left which we may signal.
func terminate(cmd *osexec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }

// kill ends every process of the group.
func kill(cmd *osexec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// alive says whether a process of the group is left. While one is, the system gives the group's id to nobody else.
// Zombies do not count: who is to bury them, process 1 as a rule, may take any time.
func alive(cmd *osexec.Cmd) bool {
	return syscall.Kill(-cmd.Process.Pid, 0) == nil && !onlyZombies(cmd.Process.Pid)
}
