//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package boltstore

import (
	"errors"
	"syscall"
)

// noRoom reports whether address space is what was lacking.
func noRoom(err error) bool { return errors.Is(err, syscall.ENOMEM) }
