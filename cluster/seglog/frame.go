package seglog

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// A frame is what one StoreLogs writes: a header of 32 bytes, the entries, and zeros up to a multiple of 32. So a
// header never spans two sectors, and a write that was torn has left it whole or zero.
//
//	CRC32C of the rest of the header, seeded with salt and offset 4 | CRC32C of the entries 4 | their length 4 |
//	their count 4 | index of the first 8 | zero sectors 4 | high half of the salt 4
//
// The salt is random and of this segment: no bytes that a caller stores, and none from another place, pass for a
// header.
type frame struct {
	sum   uint32 // of the entries
	n     uint32 // their length
	count uint32
	first uint64
	zeros uint32 // how many sectors of the frame are all zeros although written; see countZeros
}

const (
	formatVersion = 1

	sectorSize  = 512
	pageSize    = 4096
	frameHeader = 32
	maxFrame    = 1 << 30
	maxSegment  = maxFrame
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// size returns what the frame takes, with its padding.
func (f *frame) size() int64 { return roundUp(frameHeader+int64(f.n), frameHeader) }

func headerSum(b []byte, salt uint64, off int64) uint32 {
	return crc32.Update(uint32(salt)^uint32(off/frameHeader), castagnoli, b[4:frameHeader])
}

// put writes the header to b, which is the frame at off.
func (f *frame) put(b []byte, salt uint64, off int64) {
	binary.LittleEndian.PutUint32(b[4:], f.sum)
	binary.LittleEndian.PutUint32(b[8:], f.n)
	binary.LittleEndian.PutUint32(b[12:], f.count)
	binary.LittleEndian.PutUint64(b[16:], f.first)
	binary.LittleEndian.PutUint32(b[24:], f.zeros)
	binary.LittleEndian.PutUint32(b[28:], uint32(salt>>32))
	binary.LittleEndian.PutUint32(b, headerSum(b, salt, off))
}

// parseFrame reads the header at the start of b, which is a segment from off on. It reports false for what is none.
func parseFrame(b []byte, salt uint64, off int64) (f frame, ok bool) {
	if len(b) < frameHeader || binary.LittleEndian.Uint32(b[28:]) != uint32(salt>>32) ||
		binary.LittleEndian.Uint32(b) != headerSum(b, salt, off) {
		return frame{}, false
	}
	f = frame{
		sum:   binary.LittleEndian.Uint32(b[4:]),
		n:     binary.LittleEndian.Uint32(b[8:]),
		count: binary.LittleEndian.Uint32(b[12:]),
		first: binary.LittleEndian.Uint64(b[16:]),
		zeros: binary.LittleEndian.Uint32(b[24:]),
	}
	return f, f.n > 0 && f.count > 0 && f.first > 0 && frameHeader+int64(f.n) <= int64(len(b))
}

// countZeros returns how many of the sectors that b covers, being at off, hold nothing but zeros in b. A segment is
// all zeros before it is written to, so a frame with more such sectors than were written was torn, and one with as
// many was written whole: if its sum is wrong, it was damaged later.
func countZeros(b []byte, off int64) (n uint32) {
	for len(b) > 0 {
		part := min(int64(len(b)), sectorSize-off%sectorSize)
		if allZero(b[:part]) {
			n++
		}
		b, off = b[part:], off+part
	}
	return n
}

var zeroPage [pageSize]byte

func allZero(b []byte) bool {
	for len(b) > pageSize {
		if !bytes.Equal(b[:pageSize], zeroPage[:]) {
			return false
		}
		b = b[pageSize:]
	}
	return bytes.Equal(b, zeroPage[:len(b)])
}
