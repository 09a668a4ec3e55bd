package seglog

import (
	"encoding/binary"
	"hash/crc32"
)

// The seam for tests that bring their own disk.
type (
	Folder = folder
	File   = file
)

var (
	OpenFolder  = openFolder
	AppendEntry = appendEntry
	DecodeEntry = decodeEntry
)

// ParseFrame returns the length of the frame at the start of b.
func ParseFrame(b []byte) (n int, ok bool) {
	f, ok := parseFrame(b, 1<<63, pageSize)
	return frameHeader + int(f.n), ok
}

// ReencodeFacts decodes and encodes.
func ReencodeFacts(b []byte) ([]byte, bool) {
	f, err := decodeFacts(b)
	if err != nil {
		return nil, false
	}
	return f.encode(), true
}

// SetVersion makes a whole file one of another version.
func SetVersion(b []byte, version uint32) {
	binary.LittleEndian.PutUint32(b[8:], version)
	if string(b[:8]) == segmentMagic {
		binary.LittleEndian.PutUint32(b[40:], crc32.Checksum(b[:40], castagnoli))
		return
	}
	n := binary.LittleEndian.Uint32(b[12:])
	sum := crc32.Update(crc32.Checksum(b[:24], castagnoli), castagnoli, b[slotHeader:slotHeader+n])
	binary.LittleEndian.PutUint32(b[24:], sum)
}
