package seglog

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// Log is a Raft log with a stable store, in one folder. Its methods may be called at once from many goroutines; writes
// of entries wait for each other, reads and truncations of the head do not hold them up.
type Log struct {
	in     folder
	lock   io.Closer
	meta   meta
	acked  atomic.Uint64 // the newest index that is durable, 0 if there is none
	poison atomic.Pointer[poisonError]
	closed atomic.Bool

	cut sync.Mutex // held by DeleteRange; before write

	write  sync.Mutex // held while entries are written; guards the following; before mu
	buf    []byte     // the frame
	placed []span     // of its entries
	active *segment   // where the next frame goes if there is room; nil if nowhere
	spares spares

	mu          sync.RWMutex // guards the following; no file is touched under it
	segments    []*segment   // in the order of their entries; some may have none
	first, last uint64       // 0 if there are no entries
}

var (
	_ raft.LogStore          = (*Log)(nil)
	_ raft.StableStore       = (*Log)(nil)
	_ raft.MonotonicLogStore = (*Log)(nil)
	_ io.Closer              = (*Log)(nil)
)

// usable returns why nothing may be written, or nil.
func (l *Log) usable() error {
	if l.closed.Load() {
		return ErrClosed
	}
	if p := l.poison.Load(); p != nil {
		return p
	}
	return nil
}

// fail makes err the last word on writing. It returns it.
func (l *Log) fail(err error) error {
	l.poison.CompareAndSwap(nil, &poisonError{err})
	return err
}

// commit changes the facts durably.
func (l *Log) commit(change func(*facts)) error {
	if err := l.usable(); err != nil {
		return err
	}
	err := l.meta.commit(change)
	if err != nil && !errors.Is(err, ErrTooLarge) {
		return l.fail(err)
	}
	return err
}

// IsMonotonic implements [raft.MonotonicLogStore]: there are no gaps between entries.
func (l *Log) IsMonotonic() bool { return true }

// FirstIndex implements [raft.LogStore]: 0 if there are no entries. Errors: ErrClosed.
func (l *Log) FirstIndex() (uint64, error) {
	first, _, err := l.ends()
	return first, err
}

// LastIndex implements [raft.LogStore]: 0 if there are no entries. Errors: ErrClosed.
func (l *Log) LastIndex() (uint64, error) {
	_, last, err := l.ends()
	return last, err
}

func (l *Log) ends() (first, last uint64, err error) {
	if l.closed.Load() {
		return 0, 0, ErrClosed
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.first, l.last, nil
}

// Bytes returns what the entries take in files, without what is preallocated and what is deleted but shares a segment
// with them. The folder takes at most three segments more. It looks at every segment.
func (l *Log) Bytes() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var n int64
	for _, s := range l.segments {
		n += s.bytes(l.first)
	}
	return n
}

// GetLog implements [raft.LogStore]: one read of the file, checked. The data is the caller's.
// Errors: raft.ErrLogNotFound, CorruptError, ErrClosed.
func (l *Log) GetLog(index uint64, log *raft.Log) error {
	if l.closed.Load() {
		return ErrClosed
	}
	s, at, ok := l.find(index)
	if !ok {
		return raft.ErrLogNotFound
	}
	err := s.read(at, index, log)
	return errors.Join(err, s.release())
}

// find returns where an entry is; the caller must release the segment.
func (l *Log) find(index uint64) (*segment, span, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.last == 0 || index < l.first || index > l.last {
		return nil, span{}, false
	}
	lo, hi := 0, len(l.segments)-1 // the first whose last is not before index
	for lo < hi {
		if mid := (lo + hi) / 2; l.segments[mid].last() < index {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	s := l.segments[lo]
	s.hold()
	return s, s.spans[index-s.base], true
}

// StoreLog implements [raft.LogStore]; see StoreLogs.
func (l *Log) StoreLog(log *raft.Log) error { return l.StoreLogs([]*raft.Log{log}) }

// StoreLogs implements [raft.LogStore]: one write and one sync. It returns when the entries are durable, and waits if a
// segment is full and the next one not ready yet. It keeps no part of its arguments.
//
// After an error no entry of the call can be read; unless the log is poisoned, none will be after the next opening
// either. Errors: ErrNotNext, ErrTooLarge, ErrPoisoned, ErrClosed, and those of the disk: that there is no room for
// another segment does not poison the log, and the call may be made again.
func (l *Log) StoreLogs(logs []*raft.Log) error {
	l.write.Lock()
	defer l.write.Unlock()
	if err := l.usable(); err != nil || len(logs) == 0 {
		return err
	}
	if err := l.checkNext(logs); err != nil {
		return err
	}
	f, err := l.encode(logs)
	if err != nil {
		return err
	}
	s, skipped, err := l.place(f.size())
	if err != nil {
		return err
	}
	b := l.buf[:frameHeader+int(f.n)]
	f.put(b, s.salt, s.end) // so that its sector counts as written
	f.zeros = countZeros(b, s.end)
	f.put(b, s.salt, s.end)
	if _, err := s.f.WriteAt(l.buf, s.end); err != nil {
		return l.fail(fmt.Errorf("seglog: write %s: %w", s.name, err))
	}
	if err := s.f.Sync(); err != nil {
		return l.fail(err)
	}
	l.publish(s, skipped, f)
	return nil
}

// checkNext refuses entries that do not continue the log.
func (l *Log) checkNext(logs []*raft.Log) error {
	_, last, err := l.ends()
	if err != nil {
		return err
	}
	want := last + 1
	if last == 0 {
		want = max(logs[0].Index, 1)
	}
	for _, e := range logs {
		if e.Index != want {
			return fmt.Errorf("%w: index %d instead of %d", ErrNotNext, e.Index, want)
		}
		want++
	}
	return nil
}

// encode fills buf with a frame, but for its header, and placed with its entries, relative to its start.
func (l *Log) encode(logs []*raft.Log) (frame, error) {
	need := int64(frameHeader)
	for _, e := range logs {
		need += int64(len(e.Data)) + int64(len(e.Extensions)) + maxEntryOverhead
	}
	if pageSize+need+frameHeader > maxSegment {
		return frame{}, fmt.Errorf("%w: %d bytes in one call, %d are the most", ErrTooLarge, need, maxFrame)
	}
	l.placed = l.placed[:0]
	b := slices.Grow(l.buf[:0], int(need)+frameHeader)[:frameHeader]
	for _, e := range logs {
		from := len(b)
		b = appendEntry(b, e)
		l.placed = append(l.placed, span{uint32(from), uint32(len(b) - from), crc32.Checksum(b[from:], castagnoli)})
	}
	body := b[frameHeader:]
	f := frame{sum: l.placed[0].sum, n: uint32(len(body)), count: uint32(len(logs)), first: logs[0].Index}
	if f.count > 1 {
		f.sum = crc32.Checksum(body, castagnoli)
	}
	l.buf = append(b, make([]byte, f.size()-int64(len(b)))...)
	return f, nil
}

// place returns the segment for a frame, and those that come before it in the log and stay empty.
func (l *Log) place(size int64) (s *segment, skipped []*segment, err error) {
	if l.active != nil && l.active.end+size <= l.active.size {
		return l.active, nil, nil
	}
	return l.spares.take(size)
}

// maxKept is the largest buffer that is kept from one StoreLogs to the next.
const maxKept = 8 << 20

// publish makes entries that are durable readable.
func (l *Log) publish(s *segment, skipped []*segment, f frame) {
	last := f.first + uint64(f.count) - 1
	l.acked.Store(last)
	l.mu.Lock()
	for _, e := range skipped {
		e.base = f.first
	}
	if s != l.active {
		s.base = f.first
		l.segments = append(append(l.segments, skipped...), s)
		l.active = s
	}
	for _, at := range l.placed {
		at.off += uint32(s.end)
		s.spans = append(s.spans, at)
	}
	l.last = last
	if l.first == 0 {
		l.first = f.first
	}
	l.mu.Unlock()
	s.end += f.size()
	if cap(l.buf) > maxKept {
		l.buf = nil
	}
}

// Close gives the folder back. It waits for writes under way, and may be called again. What was acknowledged is
// durable before; a clean end lets the next Open tell damage of the last entries from a torn write for certain.
func (l *Log) Close() error {
	l.cut.Lock()
	defer l.cut.Unlock()
	l.write.Lock()
	defer l.write.Unlock()
	if l.closed.Load() {
		return nil
	}
	errs := []error{l.spares.stop()}
	if l.poison.Load() == nil && l.acked.Load() != l.meta.now.Load().floor {
		errs = append(errs, l.commit(func(f *facts) { f.floor = l.acked.Load() }))
	}
	l.closed.Store(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.segments {
		errs = append(errs, s.release())
	}
	l.segments, l.first, l.last = nil, 0, 0
	l.meta.mu.Lock()
	defer l.meta.mu.Unlock()
	return errors.Join(append(errs, l.meta.slots.f.Close(), l.lock.Close())...)
}
