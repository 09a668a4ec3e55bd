package seglog

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// meta keeps the facts on disk.
type meta struct {
	now atomic.Pointer[facts]

	mu    sync.Mutex // guards the following, and is held while they are written
	slots *slots
}

const metaName = "meta"

// commit makes a changed copy of the facts durable. With ErrTooLarge nothing was written; after another error the old
// facts are on disk, or the new ones.
func (m *meta) commit(change func(*facts)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := m.now.Load().clone()
	change(next)
	b := next.encode()
	if len(b) > slotValue {
		return fmt.Errorf("%w: %d bytes of facts, %d are the most", ErrTooLarge, len(b), slotValue)
	}
	if err := m.slots.write(b); err != nil {
		return err
	}
	m.now.Store(next)
	return nil
}

// Set implements [github.com/hashicorp/raft.StableStore]. All keys and values together may take some 60 KiB. It keeps
// no part of its arguments. Errors: ErrTooLarge, ErrPoisoned, ErrClosed.
func (l *Log) Set(key, value []byte) error {
	return l.commit(func(f *facts) { f.values[string(key)] = slices.Clone(value) })
}

// Get implements [github.com/hashicorp/raft.StableStore]. The value is the caller's. Errors: ErrKeyNotFound, ErrClosed.
func (l *Log) Get(key []byte) ([]byte, error) {
	if l.closed.Load() {
		return nil, ErrClosed
	}
	value, ok := l.meta.now.Load().values[string(key)]
	if !ok {
		return nil, ErrKeyNotFound
	}
	return slices.Clone(value), nil
}

// SetUint64 implements [github.com/hashicorp/raft.StableStore]; see Set.
func (l *Log) SetUint64(key []byte, n uint64) error {
	return l.Set(key, binary.BigEndian.AppendUint64(nil, n))
}

// GetUint64 implements [github.com/hashicorp/raft.StableStore]. Errors: ErrKeyNotFound, ErrClosed, and one for a value
// that was not set by SetUint64.
func (l *Log) GetUint64(key []byte) (uint64, error) {
	value, err := l.Get(key)
	if err != nil {
		return 0, err
	}
	if len(value) != 8 {
		return 0, fmt.Errorf("seglog: value of %q has %d bytes, and is no number", key, len(value))
	}
	return binary.BigEndian.Uint64(value), nil
}
