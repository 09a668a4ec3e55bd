package seglog

import (
	"errors"
	"fmt"
)

// Errors of opening.
var (
	// ErrInUse is returned by [Open] when another Log has the folder open, in this process or another.
	ErrInUse = errors.New("seglog: folder is in use")

	// ErrCorrupt is what every [CorruptError] unwraps to.
	ErrCorrupt = errors.New("seglog: damaged")

	// ErrVersion is what every [VersionError] unwraps to.
	ErrVersion = errors.New("seglog: unknown format version")
)

// Errors of writing. After those of this group the log is as it was and stays usable.
var (
	// ErrNotNext is returned by StoreLogs for entries whose indexes do not continue the log, or each other, by one.
	// An empty log takes any first index.
	ErrNotNext = errors.New("seglog: entries do not continue the log")

	// ErrMiddle is returned by DeleteRange for a range with entries of the log on both sides.
	ErrMiddle = errors.New("seglog: range is neither the head nor the tail of the log")

	// ErrTooLarge is returned for more than one StoreLogs, or the whole stable store, can hold.
	ErrTooLarge = errors.New("seglog: too large")
)

// Errors that last.
var (
	// ErrPoisoned is returned by every write after one that failed; the text has the cause, and errors.Is finds it.
	ErrPoisoned = errors.New("seglog: a write has failed, open anew")

	// ErrClosed is returned by every method after Close.
	ErrClosed = errors.New("seglog: closed")

	// ErrKeyNotFound is returned by Get and GetUint64 for a key that was never set. raft knows it by its text.
	ErrKeyNotFound = errors.New("not found")
)

// A CorruptError says what is damaged. It unwraps to [ErrCorrupt].
type CorruptError struct {
	File   string // base name
	Offset int64  // where what is damaged begins, in bytes
	What   string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("seglog: %s at byte %d: %s", e.File, e.Offset, e.What)
}

func (e *CorruptError) Unwrap() error { return ErrCorrupt }

// A VersionError says which file is of a format that this code does not know. It unwraps to [ErrVersion].
type VersionError struct {
	File    string // base name
	Version uint32
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("seglog: %s has format version %d, known is %d", e.File, e.Version, formatVersion)
}

func (e *VersionError) Unwrap() error { return ErrVersion }

// poisonError is the first failed write.
type poisonError struct{ cause error }

func (e *poisonError) Error() string { return fmt.Sprintf("%v: %v", ErrPoisoned, e.cause) }

func (e *poisonError) Unwrap() []error { return []error{ErrPoisoned, e.cause} }
