//go:build !linux

package boltstore_test

import (
	"errors"
	"testing"
)

var errNoSpace = errors.New("no space")

func smallDisk(t *testing.T) string {
	t.Helper()
	t.Skip("a small file system is only made on Linux")
	return ""
}
