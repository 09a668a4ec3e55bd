package seglog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// slots is a small file that holds one value twice. A write goes to the first copy and is synced before it goes to the
// second, and is done when both are: so a torn write leaves the other copy whole, and of a value that was
// acknowledged there are two copies, of which either may be damaged.
//
//	slot, twice:  magic 8 | version 4 | length 4 | sequence 8 | CRC32C of all the rest 4 | value
type slots struct {
	name string
	f    file
	seq  uint64 // of the newest value; 0 until there is one
	buf  []byte
}

const (
	slotMagic  = "ESCMETA\n"
	slotHeader = 28
	slotSize   = 64 << 10
	slotValue  = slotSize - slotHeader // the most a value takes
)

// createSlots makes the file with a first value. A crash leaves no file of that name, or a whole one.
func createSlots(in folder, name string, value []byte) (*slots, error) {
	tmp := name + ".tmp"
	f, err := in.Create(tmp)
	if err != nil {
		return nil, err
	}
	s := &slots{name: name, f: f}
	if _, err = f.WriteAt(make([]byte, 2*slotSize), 0); err == nil {
		err = s.write(value)
	}
	if err == nil {
		err = in.Rename(tmp, name)
	}
	if err == nil {
		err = in.Sync()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("seglog: create %s: %w", name, err), f.Close())
	}
	return s, nil
}

// openSlots returns the newest value, and makes both copies good again.
// Errors: CorruptError if both are, VersionError.
func openSlots(in folder, name string) (*slots, []byte, error) {
	f, err := in.Open(name)
	if err != nil {
		return nil, nil, err
	}
	s := &slots{name: name, f: f}
	value, err := s.load()
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return s, value, nil
}

func (s *slots) load() ([]byte, error) {
	all := make([]byte, 2*slotSize)
	if n, err := s.f.ReadAt(all, 0); n < slotSize {
		if size, sizeErr := s.f.Size(); sizeErr == nil && size < slotSize {
			return nil, &CorruptError{s.name, size, "the file is cut short"}
		}
		return nil, fmt.Errorf("seglog: read %s: %w", s.name, err)
	}
	a, aSeq, aErr := parseSlot(s.name, all[:slotSize])
	b, bSeq, bErr := parseSlot(s.name, all[slotSize:])
	if errors.Is(aErr, ErrVersion) || errors.Is(bErr, ErrVersion) {
		return nil, errors.Join(aErr, bErr)
	}
	if aErr != nil && bErr != nil {
		return nil, aErr
	}
	value, other, good := a, int64(slotSize), int64(0)
	s.seq = aSeq
	if aErr != nil || bErr == nil && bSeq > aSeq {
		value, other, good, s.seq = b, 0, slotSize, bSeq
	}
	// Both are written anew: one may be spoiled, and one may be of a write whose sync failed, and then it is in memory
	// alone, however good it looks.
	if err := s.put(value, other); err != nil {
		return nil, err
	}
	return value, s.put(value, good)
}

// parseSlot returns a part of b.
func parseSlot(name string, b []byte) ([]byte, uint64, error) {
	n := int64(binary.LittleEndian.Uint32(b[12:]))
	if string(b[:8]) != slotMagic || n > slotValue {
		return nil, 0, &CorruptError{name, 0, "both copies are damaged"}
	}
	sum := crc32.Update(crc32.Checksum(b[:24], castagnoli), castagnoli, b[slotHeader:slotHeader+n])
	if sum != binary.LittleEndian.Uint32(b[24:]) {
		return nil, 0, &CorruptError{name, 0, "both copies are damaged"}
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != formatVersion {
		return nil, 0, &VersionError{name, v}
	}
	return b[slotHeader : slotHeader+n], binary.LittleEndian.Uint64(b[16:]), nil
}

// write replaces the value, which must not be longer than slotValue. After an error it is the old one or the new.
func (s *slots) write(value []byte) error {
	s.seq++
	if err := s.put(value, 0); err != nil {
		return err
	}
	return s.put(value, slotSize)
}

func (s *slots) put(value []byte, at int64) error {
	b := append(s.buf[:0], slotMagic...)
	b = binary.LittleEndian.AppendUint32(b, formatVersion)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(value)))
	b = binary.LittleEndian.AppendUint64(b, s.seq)
	sum := crc32.Update(crc32.Checksum(b, castagnoli), castagnoli, value)
	b = binary.LittleEndian.AppendUint32(b, sum)
	s.buf = append(b, value...)
	if _, err := s.f.WriteAt(s.buf, at); err != nil {
		return fmt.Errorf("seglog: write %s: %w", s.name, err)
	}
	return s.f.Sync()
}
