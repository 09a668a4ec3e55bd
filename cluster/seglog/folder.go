package seglog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// folder is the directory of a log: the seam at which tests put a disk that loses power. Names are base names.
type folder interface {
	// Lock takes the folder until the closer is closed. Errors: ErrInUse.
	Lock() (io.Closer, error)
	// List returns the names of all files.
	List() ([]string, error)
	// Create opens a new file, emptying an old one of that name.
	Create(name string) (file, error)
	// Open opens a file for reading and writing.
	Open(name string) (file, error)
	// Rename replaces what has the new name.
	Rename(from, to string) error
	Remove(name string) error
	// Sync makes names durable.
	Sync() error
}

// file is one open file. ReadAt and WriteAt may run at once.
type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Size() (int64, error)
	// Sync makes what was written durable.
	Sync() error
}

// dirFolder is a directory of the operating system.
type dirFolder struct{ dir string }

const lockName = "lock"

// openDir makes the directory if need be, durably.
func openDir(dir string) (dirFolder, error) {
	d := dirFolder{filepath.Clean(dir)}
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return d, fmt.Errorf("seglog: make folder: %w", err)
	}
	return d, syncDir(filepath.Dir(d.dir))
}

func (d dirFolder) path(name string) string { return filepath.Join(d.dir, name) }

func (d dirFolder) Lock() (io.Closer, error) {
	f, err := os.OpenFile(d.path(lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("seglog: open lock: %w", err)
	}
	if err := lockFile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (d dirFolder) List() ([]string, error) {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return nil, fmt.Errorf("seglog: list folder: %w", err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

func (d dirFolder) open(name string, flags int) (file, error) {
	f, err := os.OpenFile(d.path(name), os.O_RDWR|flags, 0o600)
	if err != nil {
		return nil, fmt.Errorf("seglog: open file: %w", err)
	}
	return osFile{f}, nil
}

func (d dirFolder) Create(name string) (file, error) { return d.open(name, os.O_CREATE|os.O_TRUNC) }
func (d dirFolder) Open(name string) (file, error)   { return d.open(name, 0) }
func (d dirFolder) Rename(from, to string) error     { return os.Rename(d.path(from), d.path(to)) }
func (d dirFolder) Remove(name string) error         { return os.Remove(d.path(name)) }
func (d dirFolder) Sync() error                      { return syncDir(d.dir) }

func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // a folder cannot be opened for it, and need not be
	}
	f, err := os.Open(dir)
	if err != nil {
		if errors.Is(err, os.ErrPermission) {
			return nil // a parent that is not ours
		}
		return fmt.Errorf("seglog: open folder: %w", err)
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) {
		err = nil // a file system that has no such thing
	}
	return errors.Join(err, f.Close())
}

// osFile is a file of the operating system.
type osFile struct{ *os.File }

func (f osFile) Sync() error { return syncData(f.File) }

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
