package cron_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestFieldBug19_NoZoneDatabase runs TestFieldBug19_ZoneData again in a root directory
// that holds nothing but the test program: zones must come with the library.
func TestFieldBug19_NoZoneDatabase(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("changing the root directory needs root")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Skipf("cannot run itself: %v", err)
	}
	program, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "test"), program, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/test", "-test.run=^TestFieldBug19_ZoneData$", "-test.v")
	cmd.Dir = "/"
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	out, err := cmd.CombinedOutput()
	if len(out) == 0 && err != nil {
		t.Skipf("the test program does not start in an empty root (it is linked with shared libraries if built with -race): %v", err)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: TestFieldBug19_ZoneData") {
		t.Errorf("without a zone database: %v\n%s", err, out)
	}
}
