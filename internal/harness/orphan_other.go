//go:build unix && !linux

package harness

import "syscall"

// orphanless leaves it to the child to end when its standard input does.
func orphanless() *syscall.SysProcAttr { return nil }
