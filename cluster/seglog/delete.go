package seglog

import (
	"errors"
	"fmt"
)

// DeleteRange implements [github.com/hashicorp/raft.LogStore] for the head of the log, its tail, or all of it; bounds
// are inclusive, and what lies outside the log is left out of account. It is durable, and files are unlinked, when it
// returns.
//
// Deleting the head keeps the mark of the new first index, and unlinks the segments that have nothing else: it holds
// up no append. Deleting the tail ends the segment there; the next append begins another. An empty log takes any
// index next.
//
// Errors: ErrMiddle, ErrPoisoned, ErrClosed, and those of the disk. One of unlinking does not poison the log: the
// entries are gone, and the next Open removes the file.
func (l *Log) DeleteRange(lo, hi uint64) error {
	l.cut.Lock()
	defer l.cut.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	first, last, err := l.ends()
	switch {
	case err != nil:
		return err
	case last == 0 || lo > hi || hi < first || lo > last:
		return nil
	case lo <= first && hi < last:
		return l.deleteHead(hi + 1)
	}
	l.write.Lock()
	defer l.write.Unlock()
	if _, last, err = l.ends(); err != nil {
		return err
	}
	switch {
	case hi < last && lo <= first: // appended since
		return l.deleteHead(hi + 1)
	case hi < last:
		return fmt.Errorf("%w: %d..%d of %d..%d", ErrMiddle, lo, hi, first, last)
	case lo <= first:
		return l.deleteAll()
	}
	return l.deleteTail(lo - 1)
}

// deleteHead lets the log begin at first, which it has. The caller holds cut.
func (l *Log) deleteHead(first uint64) error {
	l.mu.RLock()
	gone := 0
	for l.segments[gone].last() < first {
		gone++
	}
	dropped := l.segments[:gone:gone]
	l.mu.RUnlock()
	err := l.commit(func(f *facts) {
		f.first, f.floor = first, l.acked.Load()
		f.drop(dropped)
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.first = first
	l.segments = append([]*segment(nil), l.segments[gone:]...)
	l.mu.Unlock()
	return l.unlink(dropped)
}

// deleteTail lets the log end at last, which it has. The caller holds cut and write.
func (l *Log) deleteTail(last uint64) error {
	l.mu.RLock()
	keep := len(l.segments)
	for l.segments[keep-1].base > last {
		keep--
	}
	end, dropped := l.segments[keep-1], l.segments[keep:]
	l.mu.RUnlock()
	err := l.commit(func(f *facts) {
		l.acked.Store(last) // within the commit, or another could store the old one after it
		f.floor = last
		f.drop(dropped)
		f.limit(end.id, last)
	})
	if err != nil {
		return err
	}
	l.active = nil // what is behind the limit must never be taken for entries again
	l.mu.Lock()
	l.last = last
	end.spans = end.spans[:last+1-end.base]
	l.segments = l.segments[:keep:keep]
	l.mu.Unlock()
	return l.unlink(dropped)
}

// deleteAll empties the log. The caller holds cut and write.
func (l *Log) deleteAll() error {
	l.mu.RLock()
	dropped := l.segments
	l.mu.RUnlock()
	err := l.commit(func(f *facts) {
		l.acked.Store(0)
		f.first, f.floor = 0, 0
		f.drop(dropped)
	})
	if err != nil {
		return err
	}
	l.active = nil
	l.mu.Lock()
	l.segments, l.first, l.last = nil, 0, 0
	l.mu.Unlock()
	return l.unlink(dropped)
}

// unlink removes the files of segments that the log no longer has; who reads one still can.
func (l *Log) unlink(segments []*segment) error {
	if len(segments) == 0 {
		return nil
	}
	var errs []error
	for _, s := range segments {
		errs = append(errs, l.in.Remove(s.name), s.release())
	}
	return errors.Join(append(errs, l.in.Sync())...)
}
