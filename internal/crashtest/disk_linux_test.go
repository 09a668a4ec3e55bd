package crashtest_test

import (
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
)

// disks are two that get full: a small file system of its own, and the limit that
// a process has for the size of its files, which anybody may lower.
var disks = map[string]func(t *testing.T) *disk{"small_file_system": smallDisk, "limited_file_size": limitedFiles}

// smallDisk skips the test where mounting is not permitted.
func smallDisk(t *testing.T) *disk {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=48m"); err != nil {
		t.Skipf("a file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
			_ = syscall.Unmount(dir, syscall.MNT_DETACH)
		}
	})
	ballast := filepath.Join(dir, "ballast")
	return &disk{
		dir: dir,
		fill: func() {
			f, err := os.Create(ballast)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			for block := make([]byte, 64<<10); err == nil; {
				_, err = f.Write(block)
			}
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("fill the disk: %v", err)
			}
		},
		room: func() {
			if err := os.Remove(ballast); err != nil {
				t.Fatal(err)
			}
		},
	}
}

// limitedFiles lets no file of this process grow beyond a size while the disk is
// full.
func limitedFiles(t *testing.T) *disk {
	t.Helper()
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		t.Skipf("the limit of file sizes cannot be read: %v", err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	room := func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
			t.Errorf("raise the limit of file sizes: %v", err)
		}
	}
	t.Cleanup(func() {
		room()
		signal.Reset(syscall.SIGXFSZ)
	})
	return &disk{
		dir:  t.TempDir(),
		room: room,
		fill: func() {
			if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 256 << 10, Max: was.Max}); err != nil {
				t.Skipf("the limit of file sizes cannot be lowered: %v", err)
			}
		},
	}
}

// readOnly takes the permission to write to a folder away, and returns what gives
// it back, and the error that writing gets meanwhile.
func readOnly(t *testing.T, dir string) (writable func(), want error) {
	t.Helper()
	if os.Geteuid() != 0 { // whom permissions do not stop
		return chmodReadOnly(t, dir), os.ErrPermission
	}
	err := syscall.Mount(dir, dir, "", syscall.MS_BIND, "")
	if err != nil {
		t.Skipf("root writes everywhere, and a folder cannot be mounted: %v", err)
	}
	unmount := func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	}
	if err := syscall.Mount("", dir, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		unmount()
		t.Skipf("root writes everywhere, and a folder cannot be mounted read-only: %v", err)
	}
	done := false
	once := func() {
		if !done {
			done = true
			unmount()
		}
	}
	t.Cleanup(once)
	return once, syscall.EROFS
}
