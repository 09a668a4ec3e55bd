package boltstore

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"

	"go.etcd.io/bbolt"

	"github.com/escapement-go/scheduler/store"
)

// A Store keeps one state in a folder. Its methods may be called concurrently.
type Store struct {
	dir  string
	opts Options

	writing sync.Mutex // held by whoever changes the file or replaces it
	rows    arena      // of the transaction in progress
	commits uint       // begun so far
	retry   bool       // the file must be opened again before it is written

	mu   sync.RWMutex // guards what follows; held to read for as long as a read transaction
	file *file        // nil once closed, and after a failed reopen
	err  error        // why file is nil
	head head
}

// Open opens the state in dir; folder and file are made if there are none. Only
// one Store at a time has a folder open.
//
// Errors: [ErrInUse], [ErrCorrupt] (as a *[CorruptError] that says where),
// [ErrNewer], and those of the operating system.
// Cost: reads the whole file once, history included.
func Open(dir string, opts Options) (*Store, error) {
	s := &Store{dir: dir, opts: opts.withDefaults()}
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("boltstore: open %s: %w", dir, err)
	}
	return s, nil
}

func (s *Store) path() string { return filepath.Join(s.dir, fileName) }

func (s *Store) open() error {
	if err := makeDir(s.dir); err != nil {
		return err
	}
	f, err := openFile(s.path())
	if errors.Is(err, fs.ErrNotExist) {
		f, err = createFile(s.path())
	}
	if err != nil {
		return err
	}
	head, err := readHead(f)
	if err != nil {
		return errors.Join(err, f.close(false))
	}
	sweep(s.dir)
	s.file, s.head, s.err = f, head, nil
	return nil
}

// reopen replaces the file by what the disk has of it. The caller holds writing.
func (s *Store) reopen(stuck bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil {
		_ = s.file.close(stuck) // it failed already
		s.file = nil
	}
	uncache(s.path())
	if err := s.open(); err != nil {
		s.err = fmt.Errorf("boltstore: open %s again after a failed commit: %w", s.dir, err)
		return s.err
	}
	s.retry = false
	return nil
}

// Close gives the folder back. It waits for calls in progress; later ones return
// [ErrClosed]. Closing again does nothing.
func (s *Store) Close() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.file
	s.file, s.err, s.retry = nil, ErrClosed, false
	s.rows = arena{}
	if f == nil {
		return nil
	}
	return f.close(false)
}

// Configuration returns the configuration of the last commit, nil if there was
// none. The caller must not change it.
func (s *Store) Configuration() []byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.head.config
}

// Stats returns sizes and counts as of the last commit.
func (s *Store) Stats() store.Stats {
	s.mu.RLock()
	defer s.mu.RUnlock()
	st := store.Stats{Index: s.head.meta.Index}
	for path, sum := range s.head.sums {
		switch parent, _ := split(path); parent {
		case runsBucket:
			st.LiveRuns += int64(sum.runs)
		case historyBucket:
			st.FinalRuns += int64(sum.runs)
		case ticksBucket:
			st.Ticks += int64(sum.rows)
		case journalBucket:
			st.JournalBytes += int64(sum.bytes)
		}
	}
	if s.file == nil {
		return st
	}
	if info, err := s.file.f.Stat(); err == nil {
		st.Bytes = info.Size()
	}
	st.Free = int64(s.file.db.Stats().FreeAlloc)
	_ = s.viewLocked(func(tx *bbolt.Tx) error {
		st.JournalFirst, st.JournalLast = journalBounds(tx)
		return nil
	})
	return st
}

// view runs fn in a read transaction.
func (s *Store) view(fn func(*bbolt.Tx) error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.viewLocked(fn)
}

func (s *Store) viewLocked(fn func(*bbolt.Tx) error) error {
	if s.file == nil {
		return s.err
	}
	return guard(func() error {
		tx, err := s.file.db.Begin(false)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		return fn(tx)
	})
}
