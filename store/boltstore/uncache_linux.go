package boltstore

import (
	"os"

	"golang.org/x/sys/unix"
)

// uncache makes the kernel forget what it has of a file. After a failed fsync it
// calls pages clean that never reached the disk; what is read next must be what
// a power cut would leave.
func uncache(path string) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	_ = f.Close()
}
