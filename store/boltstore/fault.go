package boltstore

import (
	"fmt"
	"runtime/debug"
)

// guard runs fn and makes an error of its panic, and of a fault at a mapped page
// that the disk cannot deliver or the file no longer has.
func guard(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = &faultError{CorruptError{Reason: fmt.Sprintf("it cannot be read: %v", p)}}
		}
	}()
	return fn()
}

// faultError is a CorruptError that was a panic or a fault.
type faultError struct{ CorruptError }

func (e *faultError) Unwrap() error { return &e.CorruptError }
