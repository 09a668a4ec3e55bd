package cluster

import (
	"slices"
	"sync"

	"github.com/hashicorp/raft"
)

// memLog is a log and stable store that forgets. raft's own InmemStore breaks
// when it is emptied; this one does not.
//
// Entries share their data with raft, which never changes them.
type memLog struct {
	mu      sync.RWMutex
	first   uint64 // index of logs[0]
	logs    []raft.Log
	values  map[string][]byte
	numbers map[string]uint64
}

func newMemLog() *memLog {
	return &memLog{values: make(map[string][]byte), numbers: make(map[string]uint64)}
}

// FirstIndex implements [raft.LogStore].
func (m *memLog) FirstIndex() (uint64, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if len(m.logs) == 0 {
		return 0, nil
	}
	return m.first, nil
}

// LastIndex implements [raft.LogStore].
func (m *memLog) LastIndex() (uint64, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.lastLocked(), nil
}

func (m *memLog) lastLocked() uint64 {
	if len(m.logs) == 0 {
		return 0
	}
	return m.first + uint64(len(m.logs)) - 1
}

// GetLog implements [raft.LogStore].
func (m *memLog) GetLog(index uint64, log *raft.Log) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if len(m.logs) == 0 || index < m.first || index > m.lastLocked() {
		return raft.ErrLogNotFound
	}
	*log = m.logs[index-m.first]
	return nil
}

// StoreLog implements [raft.LogStore].
func (m *memLog) StoreLog(log *raft.Log) error { return m.StoreLogs([]*raft.Log{log}) }

// StoreLogs implements [raft.LogStore]. An entry replaces what is there from its
// index on; one beyond the end begins the log anew, because what is before a gap
// is of no use to raft.
func (m *memLog) StoreLogs(logs []*raft.Log) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range logs {
		switch last := m.lastLocked(); {
		case len(m.logs) == 0 || l.Index > last+1 || l.Index < m.first:
			m.first, m.logs = l.Index, m.logs[:0]
		case l.Index <= last:
			m.logs = m.logs[:l.Index-m.first]
		}
		m.logs = append(m.logs, *l)
	}
	return nil
}

// DeleteRange implements [raft.LogStore] for a prefix or a suffix of the log,
// which is all that raft deletes.
func (m *memLog) DeleteRange(lo, hi uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := m.lastLocked()
	if lo = max(lo, m.first); len(m.logs) == 0 || lo > last || hi < lo {
		return nil
	}
	if hi >= last {
		clear(m.logs[lo-m.first:])
		m.logs = m.logs[:lo-m.first]
		return nil
	}
	gone := hi - m.first + 1
	clear(m.logs[:gone])
	m.logs = m.logs[gone:] // append moves the rest once the array is used up
	m.first = hi + 1
	return nil
}

// Set implements [raft.StableStore].
func (m *memLog) Set(key, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values[string(key)] = slices.Clone(value)
	return nil
}

// Get implements [raft.StableStore].
func (m *memLog) Get(key []byte) ([]byte, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.values[string(key)], nil
}

// SetUint64 implements [raft.StableStore].
func (m *memLog) SetUint64(key []byte, n uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.numbers[string(key)] = n
	return nil
}

// GetUint64 implements [raft.StableStore].
func (m *memLog) GetUint64(key []byte) (uint64, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.numbers[string(key)], nil
}

// Bytes implements [LogStore].
func (m *memLog) Bytes() int64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var n int64
	for i := range m.logs {
		n += entryBytes(&m.logs[i])
	}
	return n
}

// Close implements [LogStore]: the log of a process is not lost with one
// instance of raft.
func (m *memLog) Close() error { return nil }
