//go:build unix && !linux

package crashtest_test

import (
	"os"
	"testing"
)

// disks are made on Linux alone.
var disks = map[string]func(t *testing.T) *disk{
	"small_file_system": func(t *testing.T) *disk {
		t.Helper()
		t.Skip("only on Linux a small file system can be mounted")
		return nil
	},
}

func readOnly(t *testing.T, dir string) (writable func(), want error) {
	t.Helper()
	if os.Geteuid() == 0 {
		t.Skip("root writes everywhere")
	}
	return chmodReadOnly(t, dir), os.ErrPermission
}
