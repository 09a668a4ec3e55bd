//go:build unix && !solaris && !aix

package seglog

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// lockFile takes f for this open file alone, until it is closed. Errors: ErrInUse.
func lockFile(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return fmt.Errorf("%w: %s", ErrInUse, f.Name())
	case err != nil:
		return fmt.Errorf("seglog: lock %s: %w", f.Name(), err)
	}
	return nil
}
