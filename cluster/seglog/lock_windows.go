package seglog

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

// lockFile takes f for this open file alone, until it is closed. Errors: ErrInUse.
func lockFile(f *os.File) error {
	const how = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, new(windows.Overlapped))
	switch {
	case errors.Is(err, windows.ERROR_LOCK_VIOLATION):
		return fmt.Errorf("%w: %s", ErrInUse, f.Name())
	case err != nil:
		return fmt.Errorf("seglog: lock %s: %w", f.Name(), err)
	}
	return nil
}
