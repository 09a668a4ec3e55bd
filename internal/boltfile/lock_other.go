//go:build !darwin && !dragonfly && !freebsd && !linux && !netbsd && !openbsd

package boltfile

import "os"

// Lock leaves the locking to bbolt, whose locks on these systems cannot be taken
// twice. The file is looked at before it is locked.
func Lock(*os.File) error { return nil }

// Unlock does nothing.
func Unlock(*os.File) error { return nil }
