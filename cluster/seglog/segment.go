package seglog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// segment is one file of the log: a page of header and then frames, and zeros behind the last one. It is made in full,
// and never changes its size.
//
//	header:  magic 8 | version 4 | zero 4 | id 8 | salt 8 | size 8 | CRC32C of these 4
type segment struct {
	id   uint64
	salt uint64
	size int64
	name string
	f    file
	refs atomic.Int32 // users of f; the log is one

	end int64 // where the next frame goes; for the writer

	// Guarded by Log.mu once the segment is in Log.segments.
	base  uint64 // index of spans[0], or of what would be it
	spans []span
}

// span is where an entry lies.
type span struct {
	off uint32 // in the segment
	n   uint32
	sum uint32 // CRC32C
}

const (
	segmentMagic  = "ESCSEGM\n"
	segmentHeader = 44
	segmentSuffix = ".seg"
)

func segmentName(id uint64) string { return fmt.Sprintf("%016x%s", id, segmentSuffix) }

func isSegment(name string) bool { return strings.HasSuffix(name, segmentSuffix) }

func newSegment(id, salt uint64, size int64, f file) *segment {
	s := &segment{id: id, salt: salt, size: size, name: segmentName(id), f: f, end: pageSize}
	s.refs.Store(1)
	return s
}

func (s *segment) header() []byte {
	b := append(make([]byte, 0, segmentHeader), segmentMagic...)
	b = binary.LittleEndian.AppendUint32(b, formatVersion)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint64(b, s.id)
	b = binary.LittleEndian.AppendUint64(b, s.salt)
	b = binary.LittleEndian.AppendUint64(b, uint64(s.size))
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// openSegment opens the file of a segment that the log consists of. Errors: CorruptError, VersionError.
func openSegment(in folder, id uint64) (*segment, error) {
	f, err := in.Open(segmentName(id))
	if err != nil {
		return nil, err
	}
	s, err := readSegment(f, id)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return s, nil
}

func readSegment(f file, id uint64) (*segment, error) {
	name := segmentName(id)
	size, err := f.Size()
	if err != nil {
		return nil, fmt.Errorf("seglog: size of %s: %w", name, err)
	}
	if size < pageSize {
		return nil, &CorruptError{name, size, "the file is cut short"}
	}
	b := make([]byte, segmentHeader)
	if _, err := f.ReadAt(b, 0); err != nil {
		return nil, fmt.Errorf("seglog: read %s: %w", name, err)
	}
	if string(b[:8]) != segmentMagic || crc32.Checksum(b[:40], castagnoli) != binary.LittleEndian.Uint32(b[40:]) {
		return nil, &CorruptError{name, 0, "the header is damaged"}
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != formatVersion {
		return nil, &VersionError{name, v}
	}
	if got := binary.LittleEndian.Uint64(b[16:]); got != id {
		return nil, &CorruptError{name, 16, fmt.Sprintf("it is segment %d", got)}
	}
	if want := int64(binary.LittleEndian.Uint64(b[32:])); want != size {
		return nil, &CorruptError{name, min(size, want), fmt.Sprintf("the file has %d bytes instead of %d", size, want)}
	}
	return newSegment(id, binary.LittleEndian.Uint64(b[24:]), size, f), nil
}

// last returns the index of the last entry, base-1 if there is none. The caller holds Log.mu.
func (s *segment) last() uint64 { return s.base + uint64(len(s.spans)) - 1 }

// bytes returns what the entries from index on take. The caller holds Log.mu.
func (s *segment) bytes(index uint64) int64 {
	if len(s.spans) == 0 || index > s.last() {
		return 0
	}
	from := s.spans[max(index, s.base)-s.base]
	to := s.spans[len(s.spans)-1]
	return int64(to.off) + int64(to.n) - int64(from.off)
}

// read reads one entry. Errors: CorruptError.
func (s *segment) read(at span, index uint64, l *raft.Log) error {
	b := make([]byte, at.n)
	if _, err := s.f.ReadAt(b, int64(at.off)); err != nil {
		return fmt.Errorf("seglog: read %s: %w", s.name, err)
	}
	if crc32.Checksum(b, castagnoli) != at.sum {
		return &CorruptError{s.name, int64(at.off), fmt.Sprintf("entry %d is damaged", index)}
	}
	_, err := decodeEntry(b, index, l)
	return err
}

// hold keeps the file open until release.
func (s *segment) hold() { s.refs.Add(1) }

func (s *segment) release() error {
	if s.refs.Add(-1) > 0 {
		return nil
	}
	return s.f.Close()
}
