package main

import "syscall"

// orphanless makes a node end with its parent, even one that is paused.
func orphanless() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
