package sim

import (
	"bytes"
	"fmt"
	"io"

	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/store/memstore"
)

// Storage is what a node keeps its state in, as one process has it open: on its
// node's [Disk], with that disk's faults. Commits are whole or not there.
type Storage struct {
	*memstore.Store
	Mount
	seen func(index, digest uint64, installed bool) // told what each commit left
}

// OpenStorage opens the state. seen, if it is not nil, is told of each commit, and
// of each copy that took the place of everything: the index, and the digest of what
// was stored.
func (m Mount) OpenStorage(seen func(index, digest uint64, installed bool)) *Storage {
	return &Storage{Store: m.disk.state, Mount: m, seen: seen}
}

// guard does a write that takes the time of a sync.
func (s *Storage) guard(what string, do func() error) error {
	err := s.disk.wait(s.life)
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	switch {
	case err != nil:
	case s.disk.life != s.life:
		err = errDead
	case s.disk.fault != nil:
		err = s.disk.fault
	default:
		err = do()
	}
	if err != nil {
		return fmt.Errorf("sim: %s: %w", what, err)
	}
	return nil
}

// Commit keeps a flush.
func (s *Storage) Commit(f *store.Flush, configuration []byte) error {
	err := s.guard("commit", func() error {
		err := s.Store.Commit(f, configuration)
		if err == nil {
			s.disk.sure = max(s.disk.sure, f.Meta.Index)
		}
		return err
	})
	if err != nil {
		return err
	}
	return s.tell(false)
}

// tell tells what is stored now.
func (s *Storage) tell(installed bool) error {
	if s.seen == nil {
		return nil
	}
	index, digest, err := Digest(s.Store)
	if err == nil {
		s.seen(index, digest, installed)
	}
	return err
}

// Restore replaces everything by a copy.
func (s *Storage) Restore(r io.Reader) error {
	whole, err := io.ReadAll(r) // before the lock is held: it may come over the network
	if err != nil {
		return fmt.Errorf("sim: restore: %w", err)
	}
	err = s.guard("restore", func() error {
		if err := s.Store.Restore(bytes.NewReader(whole)); err != nil {
			return err
		}
		img, err := s.Image()
		if err == nil {
			s.disk.installLocked(img.Meta.Index)
		}
		return err
	})
	if err != nil {
		return err
	}
	return s.tell(true)
}

// Close leaves everything where it is.
func (s *Storage) Close() error { return nil }

// Digest returns the index and the digest of the state that is stored.
func Digest(s interface{ Image() (*store.Image, error) }) (index, digest uint64, err error) {
	img, err := s.Image()
	if err != nil {
		return 0, 0, fmt.Errorf("sim: read what is stored: %w", err)
	}
	st := store.NewState()
	if err := st.Load(img); err != nil {
		return 0, 0, fmt.Errorf("sim: load what is stored: %w", err)
	}
	return st.Meta().Index, st.Digest(), nil
}
