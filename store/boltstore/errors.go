package boltstore

import (
	"errors"
	"fmt"

	"github.com/escapement-go/scheduler/store"
)

// Errors of opening and using a store. Those that any backend can return are
// package store's.
var (
	// ErrInUse tells that another process, or another Store of this one, has the
	// folder open.
	ErrInUse = errors.New("folder is in use")

	// ErrCorrupt is [store.ErrCorrupt].
	ErrCorrupt = store.ErrCorrupt

	// ErrNewer is [store.ErrNewer].
	ErrNewer = store.ErrNewer

	// ErrBehind is [store.ErrBehind].
	ErrBehind = store.ErrBehind

	// ErrClosed is [store.ErrClosed].
	ErrClosed = store.ErrClosed
)

// CorruptError is [store.CorruptError].
type CorruptError = store.CorruptError

// A CommitError tells that a flush did not become durable. The same flush can be
// committed again once the cause, which Err wraps (ENOSPC, EIO), is gone.
type CommitError struct {
	Index uint64 // of the flush
	Err   error
}

func (e *CommitError) Error() string {
	return fmt.Sprintf("boltstore: commit of index %d: %v", e.Index, e.Err)
}

func (e *CommitError) Unwrap() error { return e.Err }
