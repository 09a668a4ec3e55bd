package boltfile

import "errors"

// ErrLocked tells that another process, or another opening in this one, has the
// file.
var ErrLocked = errors.New("bbolt file is locked")
