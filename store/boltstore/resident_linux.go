package boltstore

import (
	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// letGo tells the kernel that the mapping of a database need not stay in this
// process's memory: what was read once, to be loaded, listed or dropped, would count
// as its own for as long as it runs. What is read again comes out of the page cache.
// The caller holds a transaction, lest the mapping move.
func letGo(tx *bbolt.Tx) {
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, tx.DB().Info().Data, uintptr(tx.Size()), unix.MADV_DONTNEED) // advice
}
