//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package boltstore

import (
	"errors"
	"os"
	"syscall"
)

// lock takes the lock that bbolt will take, without waiting: whoever holds it may
// look at the file before bbolt does. Errors: [ErrInUse].
func lock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EWOULDBLOCK):
			return ErrInUse
		case errors.Is(err, syscall.EINTR):
			continue
		}
		return err
	}
}

// unlock gives the lock back. Closing the file would not, while it is mapped.
func unlock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }

// noRoom reports whether address space is what was lacking.
func noRoom(err error) bool { return errors.Is(err, syscall.ENOMEM) }
