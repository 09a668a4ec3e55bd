package seglog

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// syncData makes data and size durable, but not times: on space that was written before it needs no journal.
func syncData(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("seglog: fdatasync %s: %w", f.Name(), err)
		}
		return nil
	}
}
