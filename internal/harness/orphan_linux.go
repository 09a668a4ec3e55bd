package harness

import "syscall"

// orphanless makes a child end with its parent, even one that is frozen.
func orphanless() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
