package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/escapement-go/scheduler/cluster/seglog"
	"github.com/escapement-go/scheduler/internal/boltfile"
	"github.com/escapement-go/scheduler/store"
)

// LogStore is where raft keeps its log, term and vote. What a method that writes
// has returned for without an error is durable.
type LogStore interface {
	raft.LogStore
	raft.StableStore
	Bytes() int64 // about what the log takes
	Close() error
}

// lockWait is how long opening waits for another process to let go of the folder.
const (
	lockWait = time.Second
	lockPoll = 50 * time.Millisecond
)

// boltLog is raft-boltdb with the options that its defaults are unsafe or slow
// without.
type boltLog struct {
	*raftboltdb.BoltStore
	path string
}

// The names of the logs in a folder.
const (
	segmentsName = "log"
	boltName     = "raft.db"
)

// openFolderLog opens the log of a folder, or makes one. A folder keeps the kind
// of log it began with. Errors: [ErrFolderInUse], [ErrDamaged].
func openFolderLog(dir string, kind LogKind) (log LogStore, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cluster: make folder: %w", err)
	}
	other := boltName
	if kind == LogBolt {
		other = segmentsName
	}
	if _, err := os.Lstat(filepath.Join(dir, other)); err == nil {
		return nil, damaged("the folder has a log of another kind, %s", filepath.Join(dir, other))
	}
	if kind == LogBolt {
		log, err = openBoltLog(filepath.Join(dir, boltName))
	} else {
		log, err = openSegments(filepath.Join(dir, segmentsName))
	}
	if err != nil {
		return nil, err
	}
	if err := settleFolder(dir); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return log, nil
}

func openSegments(dir string) (*seglog.Log, error) {
	log, err := seglog.Open(dir)
	switch {
	case errors.Is(err, seglog.ErrInUse):
		return nil, fmt.Errorf("%w: %s", ErrFolderInUse, dir)
	case errors.Is(err, seglog.ErrVersion):
		return nil, fmt.Errorf("cluster: open log: %w: %w", store.ErrNewer, err)
	case errors.Is(err, seglog.ErrCorrupt):
		return nil, damaged("open %s: %v", dir, err)
	case err != nil:
		return nil, fmt.Errorf("cluster: open log %s: %w", dir, err)
	}
	return log, nil
}

func openBoltLog(path string) (*boltLog, error) {
	options := &bbolt.Options{
		Timeout:        lockWait,
		NoFreelistSync: true,
		FreelistType:   bbolt.FreelistMapType,
		OpenFile:       openChecked,
	}
	if strconv.IntSize == 64 {
		options.InitialMmapSize = 1 << 30 // address space alone; growing the map stalls the writer
	}
	s, err := raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: options, MsgpackUseNewTimeFormat: true})
	damage, is := errors.AsType[*boltfile.DamageError](err)
	switch {
	case is:
		return nil, damaged("open %s: %s", path, damage.Reason)
	case errors.Is(err, bolterrors.ErrTimeout), errors.Is(err, boltfile.ErrLocked):
		return nil, fmt.Errorf("%w: %s", ErrFolderInUse, path)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return nil, damaged("open %s: %v", path, err)
	case err != nil:
		return nil, fmt.Errorf("cluster: open log %s: %w", path, err)
	}
	return &boltLog{s, path}, nil
}

// openChecked opens, locks and checks a bbolt file for bbolt. A log that is at the
// transaction before its last is damaged too: what it lacks may have been
// acknowledged, and nobody else has it.
func openChecked(path string, flag int, perm os.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, flag, perm)
	if err != nil {
		return nil, err
	}
	if err := lockAndCheck(f); err != nil {
		_ = f.Close() // the error says more
		return nil, err
	}
	return f, nil
}

func lockAndCheck(f *os.File) error {
	deadline := time.Now().Add(lockWait)
	for {
		err := boltfile.Lock(f)
		if err == nil {
			break
		}
		if !errors.Is(err, boltfile.ErrLocked) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(lockPoll)
	}
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return err // bbolt makes a new file of it
	}
	content, err := boltfile.Check(f)
	if err == nil && content.Behind {
		err = &boltfile.DamageError{Reason: "one of its two meta pages is unreadable, and the last entries may be lost with it"}
	}
	return err
}

// settleFolder makes the name of a new log durable, and removes what a process
// that died has left; the folder must be locked.
func settleFolder(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, spoolPattern))
	if err != nil {
		return fmt.Errorf("cluster: look for temporary files: %w", err)
	}
	for _, path := range append(left, filepath.Join(dir, probeName)) {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("cluster: remove temporary file: %w", err)
		}
	}
	return errors.Join(syncFolder(dir), syncFolder(filepath.Dir(filepath.Clean(dir))))
}

func syncFolder(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // a folder cannot be opened for it, and need not be
	}
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("cluster: open folder: %w", err)
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, os.ErrPermission) {
		err = nil // a file system that has no such thing, or a parent that is not ours
	}
	return errors.Join(err, f.Close())
}

// Bytes returns the size of the file.
func (b *boltLog) Bytes() int64 {
	info, err := os.Stat(b.path)
	if err != nil {
		return 0 // only the pace of truncation depends on it
	}
	return info.Size()
}

const (
	probeName    = "probe.tmp"
	spoolPattern = "copy-*.tmp"
)

// probeBytes is what must be writable before a log is opened again.
const probeBytes = 1 << 20

// probe reports whether the folder takes a durable write.
func probe(dir string) (err error) {
	if dir == "" {
		return nil
	}
	path := filepath.Join(dir, probeName)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("cluster: probe folder: %w", err)
	}
	_, err = f.Write(make([]byte, probeBytes))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), os.Remove(path))
}
