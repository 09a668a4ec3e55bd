//go:build unix

package crashtest_test

import (
	"os"
	"path/filepath"
	"testing"
)

// chmodReadOnly takes the permissions of a folder and of its files away, and
// returns what gives them back.
func chmodReadOnly(t *testing.T, dir string) func() {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	set := func(file, folder os.FileMode) {
		for _, f := range files {
			_ = os.Chmod(f, file)
		}
		if err := os.Chmod(dir, folder); err != nil {
			t.Error(err)
		}
	}
	set(0o400, 0o500)
	back := func() { set(0o600, 0o700) }
	t.Cleanup(back)
	return back
}
