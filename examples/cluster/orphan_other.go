//go:build unix && !linux

package main

import "syscall"

// orphanless leaves it to the node to end when its standard input does.
func orphanless() *syscall.SysProcAttr { return nil }
