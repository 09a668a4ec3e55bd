package boltstore

import (
	"errors"
	"fmt"
	"os"

	"github.com/escapement-go/scheduler/internal/boltfile"
)

func damaged(format string, args ...any) error {
	return &CorruptError{Reason: fmt.Sprintf(format, args...)}
}

// lock takes the file's lock, without waiting. Errors: [ErrInUse].
func lock(f *os.File) error {
	err := boltfile.Lock(f)
	if errors.Is(err, boltfile.ErrLocked) {
		return ErrInUse
	}
	return err
}

// checkFile reports the number of rows in each bucket of a bbolt file, or what is
// wrong with it. One that is at the transaction before the last is accepted: the
// log has what it lacks. Errors: [CorruptError], those of the operating system.
// Cost: reads every page in use once.
func checkFile(f *os.File) (map[string]uint64, error) {
	content, err := boltfile.Check(f)
	if damage, is := errors.AsType[*boltfile.DamageError](err); is {
		return nil, &CorruptError{Reason: damage.Reason}
	}
	return content.Rows, err
}
