package boltstore

import (
	"errors"
	"io/fs"
	"math/bits"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/escapement-go/scheduler/internal/boltfile"
)

// fileName is the state's file in its folder; a file that is to take its place
// has a name of newPattern until it is complete.
const (
	fileName   = "state.db"
	newPattern = "state.new-*"
)

// mapSizes are the sizes bbolt is asked to map, largest first. A map costs
// address space only, and while it is larger than the file, a reader never makes
// the writer wait. Where address space is scarce the next one is tried.
func mapSizes() []int {
	if bits.UintSize < 64 || runtime.GOOS == "windows" { // there the map is the file's size
		return []int{0}
	}
	gib := 1 << 30 // a variable: on 32 bits the products below are no constants
	return []int{16 * gib, gib, 0}
}

// A file is an open bbolt file and the lock on it.
type file struct {
	db *bbolt.DB
	f  *os.File // owned by db
	// rows are the rows found in each bucket when it was opened.
	rows map[string]uint64
}

// openFile locks and checks the file at path and gives it to bbolt.
// Errors: [ErrInUse], [CorruptError], those of the operating system.
func openFile(path string) (f *file, err error) {
	for _, size := range mapSizes() {
		if f, err = openMapped(path, size); err == nil || !noRoom(err) {
			break
		}
	}
	return f, err
}

func openMapped(path string, mapSize int) (*file, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	rows, err := checkFile(f)
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	db, err := openBolt(f, mapSize)
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &file{db: db, f: f, rows: rows}, nil
}

// openBolt gives f to bbolt, which closes it when it is closed or fails.
func openBolt(f *os.File, mapSize int) (*bbolt.DB, error) {
	var db *bbolt.DB
	err := guard(func() (err error) {
		db, err = bbolt.Open(f.Name(), 0o600, &bbolt.Options{
			Timeout:         time.Millisecond, // one try
			NoFreelistSync:  true,
			FreelistType:    bbolt.FreelistMapType,
			InitialMmapSize: mapSize,
			OpenFile:        func(string, int, os.FileMode) (*os.File, error) { return f, nil },
		})
		return err
	})
	if errors.Is(err, berrors.ErrTimeout) {
		err = ErrInUse
	}
	return db, err
}

// createFile makes the file of an empty state at path, complete or not at all. A
// file that is there already is opened.
func createFile(path string) (*file, error) {
	dir := filepath.Dir(path)
	temp, err := tempFile(dir)
	if err != nil {
		return nil, err
	}
	defer os.Remove(temp.Name()) //nolint:errcheck // it is gone, or swept when the folder is opened next
	db, err := openBolt(temp, 0)
	if err != nil {
		return nil, errors.Join(err, temp.Close())
	}
	if err := errors.Join(db.Update(layOut), db.Close()); err != nil {
		return nil, err
	}
	// Unlike a rename, a link never takes the place of what another has just made.
	err = os.Link(temp.Name(), path)
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err := syncDir(dir); err != nil {
		return nil, err
	}
	return openFile(path)
}

func tempFile(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, newPattern)
	if err != nil {
		return nil, err
	}
	return f, f.Chmod(0o600)
}

// sweep removes what an earlier process left half done. The folder is locked.
func sweep(dir string) {
	left, _ := filepath.Glob(filepath.Join(dir, newPattern))
	for _, name := range left {
		_ = os.Remove(name)
	}
}

// syncDir makes the names in dir durable.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" { // folders cannot be synced there
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// makeDir makes the folder and its name durable.
func makeDir(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return syncDir(filepath.Dir(dir))
}

// close gives everything back, even if bbolt is stuck: if a fault has left its
// locks taken for ever, only the file is closed.
func (f *file) close(stuck bool) error {
	if stuck {
		return errors.Join(boltfile.Unlock(f.f), f.f.Close()) // the map stays, as long as the process does
	}
	return f.db.Close()
}
