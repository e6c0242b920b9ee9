package exec

import (
	osexec "os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/windows"
)

// ownGroup makes cmd, when it is started, the leader of a process group of its own, whose id is the process id.
func ownGroup(cmd *osexec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

// terminate asks the group to end. Without a console there is no way to ask: kill comes later.
func terminate(cmd *osexec.Cmd) {
	_ = windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(cmd.Process.Pid))
}

// kill ends the program and the processes below it.
func kill(cmd *osexec.Cmd) {
	_ = osexec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(cmd.Process.Pid)).Run()
	_ = cmd.Process.Kill() // in case there is no taskkill
}

// alive is false: Windows cannot tell who is left of a group once its leader has ended.
func alive(*osexec.Cmd) bool { return false }
