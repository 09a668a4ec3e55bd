package cluster

import (
	"errors"
	"fmt"
	"time"
)

// Errors of a call that certainly changed nothing.
var (
	// ErrNotLeader says that the node does not lead, or not yet.
	ErrNotLeader = errors.New("cluster: not the leader")

	// ErrOverloaded is wrapped by [*OverloadedError].
	ErrOverloaded = errors.New("cluster: overloaded")

	// ErrTooLarge is wrapped by [*TooLargeError].
	ErrTooLarge = errors.New("cluster: too large for one entry")

	// ErrNoSession says that Call was used before OpenSession.
	ErrNoSession = errors.New("cluster: no session is open")

	// ErrStorage is wrapped by [*StorageError].
	ErrStorage = errors.New("cluster: storage fails")

	// ErrClosed says that the node was shut down.
	ErrClosed = errors.New("cluster: node is shut down")
)

// ErrOutcomeUnknown says that a call may have been committed, or may yet be.
var ErrOutcomeUnknown = errors.New("cluster: outcome unknown")

// ErrParked says that the node has stopped applying for good, because going on
// could make its state differ from the cluster's. The cause is wrapped.
var ErrParked = errors.New("cluster: node is parked")

// Errors of [Open].
var (
	// ErrFolderInUse says that another process, or another node of this one, has
	// the folder open.
	ErrFolderInUse = errors.New("cluster: folder is in use")

	// ErrDamaged says that the log and Storage do not fit together, or that one
	// of them cannot be read: an acknowledged entry may be lost.
	ErrDamaged = errors.New("cluster: log or storage is damaged")

	// ErrConflict says that a folder cannot be filled from a backup, or that a lone
	// node is to open one of several.
	ErrConflict = errors.New("cluster: conflict")

	// ErrDuplicateID says that another process is alive under the node's ID. This
	// one parks.
	ErrDuplicateID = errors.New("cluster: node ID is in use")

	// ErrOtherCluster says that a node that was dialed is in another cluster.
	ErrOtherCluster = errors.New("cluster: node of another cluster")

	// ErrNotMember says that a node ID is no member of the cluster, or of the one
	// that the folder belongs to. A node that was removed parks with it.
	ErrNotMember = errors.New("cluster: node is no member")
)

// OverloadedError refuses a call because too much waits already. Unwraps to
// [ErrOverloaded].
type OverloadedError struct {
	What       string        // what there is too much of
	RetryAfter time.Duration // when there may be room
}

func (e *OverloadedError) Error() string {
	return fmt.Sprintf("%v: %s, retry after %v", ErrOverloaded, e.What, e.RetryAfter)
}

// Unwrap returns [ErrOverloaded].
func (e *OverloadedError) Unwrap() error { return ErrOverloaded }

// TooLargeError refuses a call that does not fit into one entry: Bytes is its size
// as it would be encoded, Limit is [MaxEntryBytes]. Unwraps to [ErrTooLarge].
type TooLargeError struct{ Bytes, Limit int }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%v: %d bytes, limit %d", ErrTooLarge, e.Bytes, e.Limit)
}

// Unwrap returns [ErrTooLarge].
func (e *TooLargeError) Unwrap() error { return ErrTooLarge }

// StorageError refuses a call while the log or Storage cannot be written.
// Unwraps to [ErrStorage] and to the cause.
type StorageError struct{ Cause error }

func (e *StorageError) Error() string { return fmt.Sprintf("%v: %v", ErrStorage, e.Cause) }

// Unwrap returns [ErrStorage] and the cause.
func (e *StorageError) Unwrap() []error { return []error{ErrStorage, e.Cause} }

// unknown wraps the cause too: a host tells a deadline from a parked node by it.
func unknown(cause error) error { return fmt.Errorf("%w: %w", ErrOutcomeUnknown, cause) }

func parked(cause error) error { return fmt.Errorf("%w: %w", ErrParked, cause) }

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrDamaged}, args...)...)
}
