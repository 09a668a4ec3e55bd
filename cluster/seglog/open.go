package seglog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
)

// Open opens the log in dir, and makes it if there is none: then it is ready at once, and its first segment is made
// while it is in use. Otherwise it reads all segments, each into memory as a whole for a moment, cuts off what a torn
// write has left at the end, and removes files that an interrupted change has left.
//
// Errors: ErrInUse, CorruptError, VersionError. An Open that reports damage changes no segment.
func Open(dir string, opts ...Option) (*Log, error) {
	in, err := openDir(dir)
	if err != nil {
		return nil, err
	}
	return openFolder(in, opts...)
}

func openFolder(in folder, opts ...Option) (*Log, error) {
	lock, err := in.Lock()
	if err != nil {
		return nil, err
	}
	l := &Log{in: in, lock: lock}
	l.spares = spares{in: in, sizes: newSizes(opts), name: l.nextID, keep: l.adopt}
	if err := l.load(); err != nil {
		closers := []io.Closer{lock}
		if l.meta.slots != nil {
			closers = append(closers, l.meta.slots.f)
		}
		for _, s := range slices.Concat(l.segments, l.spares.queue) {
			closers = append(closers, s.f)
		}
		for _, c := range closers {
			err = errors.Join(err, c.Close())
		}
		return nil, err
	}
	l.spares.start()
	l.spares.ask()
	return l, nil
}

// nextID and adopt are what spares asks of the log.
func (l *Log) nextID() uint64 { return l.meta.now.Load().next }

func (l *Log) adopt(id uint64) error {
	return l.commit(func(f *facts) {
		f.live = append(f.live, live{id: id})
		f.next = id + 1
		f.floor = l.acked.Load()
	})
}

func (l *Log) load() error {
	names, err := l.in.List()
	if err != nil {
		return err
	}
	if err := l.loadFacts(names); err != nil {
		return err
	}
	if err := l.loadSegments(); err != nil {
		return err
	}
	return l.sweep(names)
}

func (l *Log) loadFacts(names []string) error {
	if !slices.Contains(names, metaName) {
		if i := slices.IndexFunc(names, isSegment); i >= 0 {
			return &CorruptError{metaName, 0, "the file is missing, but there is " + names[i]}
		}
		f := &facts{next: 1, values: make(map[string][]byte)}
		s, err := createSlots(l.in, metaName, f.encode())
		l.meta.slots = s
		l.meta.now.Store(f)
		return err
	}
	s, value, err := openSlots(l.in, metaName)
	if err != nil {
		return err
	}
	l.meta.slots = s
	f, err := decodeFacts(value)
	if err != nil {
		return &CorruptError{metaName, slotHeader, err.Error()}
	}
	l.meta.now.Store(f)
	return nil
}

// loadSegments reads all segments, in the order of their entries. The last that has entries is where the next go; the
// blank ones behind it are ready for use.
func (l *Log) loadSegments() error {
	var tail, torn *scan // of the last segment with entries; of one that has nothing but a torn write
	var buf []byte
	for _, at := range l.meta.now.Load().live {
		s, err := l.openLive(at.id)
		if err != nil {
			return err
		}
		c := &scan{s: s, limit: at.limit}
		if tail != nil {
			c.next = tail.next
		}
		if buf, err = c.load(buf); err != nil {
			return err
		}
		if c.last == 0 && !c.torn {
			continue
		}
		for _, before := range []*scan{tail, torn} {
			if before != nil && before.torn {
				return before.corrupt(before.s.end, "frame is damaged, but %s was begun after it", s.name)
			}
		}
		if c.last == 0 {
			torn, buf = c, nil
			continue
		}
		l.append(s)
		if buf = nil; tail != nil {
			buf = tail.b
		}
		tail = c
	}
	return l.settle(tail, torn)
}

// openLive opens a segment, and puts it in the queue of those that have no entries.
func (l *Log) openLive(id uint64) (*segment, error) {
	s, err := openSegment(l.in, id)
	if errors.Is(err, fs.ErrNotExist) {
		err = &CorruptError{segmentName(id), 0, "the file is missing"}
	}
	if err != nil {
		return nil, err
	}
	l.spares.queue = append(l.spares.queue, s)
	l.spares.largest = s.size
	return s, nil
}

// append moves all that is in the queue into the log: s, which has entries, and blank ones before it.
func (l *Log) append(s *segment) {
	for _, blank := range l.spares.queue {
		blank.base = s.base
	}
	l.segments = append(l.segments, l.spares.queue...)
	l.spares.queue = nil
	if l.last == 0 {
		l.first = s.base
	}
	l.last = s.last()
}

// settle checks the log as a whole, and mends its end.
func (l *Log) settle(tail, torn *scan) error {
	now := l.meta.now.Load()
	if now.first != 0 && l.first > now.first {
		return &CorruptError{l.segments[0].name, pageSize, fmt.Sprintf("entries from %d on are missing", now.first)}
	}
	if need := max(now.floor, now.first); l.last < need {
		e := &CorruptError{metaName, 0, fmt.Sprintf("entries from %d to %d are missing", l.last+1, need)}
		if tail != nil {
			e.File, e.Offset = tail.s.name, tail.s.end
		}
		return e
	}
	l.first = max(l.first, now.first)
	l.acked.Store(l.last)
	if torn != nil {
		if err := torn.mend(); err != nil {
			return err
		}
	}
	if tail == nil || tail.limit != 0 {
		return nil
	}
	l.active = tail.s
	return tail.mend()
}

// sweep removes segments and temporary files that the log does not have.
func (l *Log) sweep(names []string) error {
	gone := false
	for _, name := range names {
		has := slices.ContainsFunc(l.meta.now.Load().live, func(at live) bool { return segmentName(at.id) == name })
		if has || !isSegment(name) && !strings.HasSuffix(name, ".tmp") {
			continue
		}
		gone = true
		if err := l.in.Remove(name); err != nil {
			return fmt.Errorf("seglog: remove %s: %w", name, err)
		}
	}
	if !gone {
		return nil
	}
	return l.in.Sync()
}
