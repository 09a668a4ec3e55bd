package boltstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cespare/xxhash/v2"
	"go.etcd.io/bbolt"

	"github.com/escapement-go/scheduler/store"
)

// A copy is the file, followed by a trailer: so that a copy cut short or changed
// on its way is not taken for a state. bbolt ignores what follows its pages: a
// copy that is named state.db in a folder of its own can be opened.
const (
	trailerMagic = "escapement copy\x01"
	trailerSize  = len(trailerMagic) + 8
)

// Backup writes a copy of everything, as of one commit, and returns its position
// and configuration. The copy is made in the store's folder first, so that a slow
// w does not hold up anything. Commits go on meanwhile.
func (s *Store) Backup(w io.Writer) (store.Meta, []byte, error) {
	temp, err := tempFile(s.dir)
	if err != nil {
		return store.Meta{}, nil, fmt.Errorf("boltstore: copy: %w", err)
	}
	defer os.Remove(temp.Name()) //nolint:errcheck // it is swept when the folder is opened next
	defer temp.Close()           //nolint:errcheck // nothing of it is kept
	var h head
	err = s.view(func(tx *bbolt.Tx) (err error) {
		if h.meta, err = readMetaRow(tx); err != nil {
			return err
		}
		config, err := lookup(tx.Bucket([]byte(configBucket)), configBucket, configKey)
		if config != nil {
			h.config = bytes.Clone(config)
		}
		if err == nil {
			_, err = tx.WriteTo(temp)
		}
		return err
	})
	if err == nil {
		_, err = temp.Seek(0, io.SeekStart)
	}
	if err == nil {
		err = sendCopy(w, temp)
	}
	if err != nil {
		return store.Meta{}, nil, fmt.Errorf("boltstore: copy: %w", err)
	}
	return h.meta, h.config, nil
}

func sendCopy(w io.Writer, r io.Reader) error {
	hash := xxhash.New()
	if _, err := io.Copy(io.MultiWriter(w, hash), r); err != nil {
		return err
	}
	trailer := binary.LittleEndian.AppendUint64([]byte(trailerMagic), hash.Sum64())
	_, err := w.Write(trailer)
	return err
}

// Restore replaces everything by a copy that [Store.Backup] made, read to its
// end. The old state stays until the new one is durable, and stays for good if
// that fails; only when making the file's new name durable fails is the new state
// there together with an error.
// Errors: [ErrCorrupt] for a copy that is cut short or changed, [ErrNewer],
// [ErrClosed], those of r and of the operating system.
func (s *Store) Restore(r io.Reader) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.replace(r); err != nil {
		return fmt.Errorf("boltstore: restore: %w", err)
	}
	return nil
}

func (s *Store) replace(r io.Reader) error {
	if s.file == nil && errors.Is(s.err, ErrClosed) {
		return s.err
	}
	temp, err := tempFile(s.dir)
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) //nolint:errcheck // after the rename there is nothing of this name
	if err := errors.Join(receiveCopy(temp, r), temp.Close()); err != nil {
		return err
	}
	// It is locked under its first name, so nobody can come between.
	f, err := openFile(temp.Name())
	if err != nil {
		return err
	}
	head, err := readHead(f)
	if err == nil {
		err = os.Rename(temp.Name(), s.path())
	}
	if err != nil {
		return errors.Join(err, f.close(false))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil {
		_ = s.file.close(false) // it has no name any more
	}
	s.file, s.head, s.err, s.retry = f, head, nil, false
	return syncDir(s.dir)
}

// receiveCopy writes the file in a copy to f and checks its trailer.
func receiveCopy(f *os.File, r io.Reader) error {
	hash := xxhash.New()
	held := &holder{w: io.MultiWriter(f, hash)}
	if _, err := io.Copy(held, r); err != nil {
		return err
	}
	want := binary.LittleEndian.AppendUint64([]byte(trailerMagic), hash.Sum64())
	if !bytes.Equal(held.tail, want) {
		return damaged("the copy is cut short or changed")
	}
	return f.Sync()
}

// A holder passes on all that is written to it but the last trailerSize bytes.
type holder struct {
	w    io.Writer
	tail []byte
}

func (h *holder) Write(p []byte) (int, error) {
	h.tail = append(h.tail, p...)
	if n := len(h.tail) - trailerSize; n > 0 {
		if _, err := h.w.Write(h.tail[:n]); err != nil {
			return 0, err
		}
		h.tail = append(h.tail[:0], h.tail[n:]...)
	}
	return len(p), nil
}
