//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package boltfile

import (
	"errors"
	"os"
	"syscall"
)

// Lock takes the lock that bbolt will take, without waiting: whoever holds it may
// look at the file before bbolt does, which is to be given the same *os.File.
// Errors: [ErrLocked].
func Lock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EWOULDBLOCK):
			return ErrLocked
		case errors.Is(err, syscall.EINTR):
			continue
		}
		return err
	}
}

// Unlock gives the lock back. Closing the file would not, while it is mapped.
func Unlock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
