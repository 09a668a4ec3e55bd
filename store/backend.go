package store

import (
	"errors"
	"fmt"
)

// Errors of a backend, the place that keeps a state: on disk or in memory.
var (
	// ErrCorrupt is wrapped by every error that tells of damaged data. What a
	// backend returned without an error is not affected.
	ErrCorrupt = errors.New("stored state is damaged")

	// ErrNewer tells that the data was written by a newer build and is intact.
	ErrNewer = errors.New("stored state was written by a newer build")

	// ErrBehind refuses a flush that is older than what is stored.
	ErrBehind = errors.New("flush is older than what is stored")

	// ErrClosed is returned by every method of a closed backend.
	ErrClosed = errors.New("store is closed")
)

// A CorruptError says where a backend found damage. It unwraps to [ErrCorrupt].
type CorruptError struct {
	Bucket string // "" if the damage is not within one
	Key    string // of the row, "" if it is not a row's
	Reason string
}

func (e *CorruptError) Error() string {
	switch {
	case e.Bucket == "":
		return fmt.Sprintf("%v: %s", ErrCorrupt, e.Reason)
	case e.Key == "":
		return fmt.Sprintf("%v: bucket %q: %s", ErrCorrupt, e.Bucket, e.Reason)
	}
	return fmt.Sprintf("%v: bucket %q, key %q: %s", ErrCorrupt, e.Bucket, e.Key, e.Reason)
}

func (e *CorruptError) Unwrap() error { return ErrCorrupt }

// Stats is what a backend can say about itself without looking for it.
type Stats struct {
	Index uint64 // last log index that is kept

	Bytes int64 // the size on disk, or about that in memory
	Free  int64 // bytes of it that wait to be used again

	LiveRuns  int64
	FinalRuns int64 // rows of the history
	Ticks     int64 // rows of the ledger; a span is one row

	JournalFirst uint64 // index of the oldest row of the journal, 0 if it is empty
	JournalLast  uint64
	JournalBytes int64
}
