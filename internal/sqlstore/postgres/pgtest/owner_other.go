//go:build !unix

package pgtest

import "syscall"

func (o *owner) attributes() *syscall.SysProcAttr { return nil }
