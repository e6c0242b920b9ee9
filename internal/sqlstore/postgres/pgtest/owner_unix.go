//go:build unix

package pgtest

import "syscall"

// attributes make a process the owner's, in a group of its own: what a terminal sends to the tests must not reach it.
func (o *owner) attributes() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true}
	if o.other {
		a.Credential = &syscall.Credential{Uid: uint32(o.uid), Gid: uint32(o.gid)}
	}
	return a
}
