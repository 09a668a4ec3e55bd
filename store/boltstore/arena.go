package boltstore

import (
	"fmt"
	"slices"

	"github.com/tinylib/msgp/msgp"
)

// An arena is the memory of one transaction's rows: bbolt refers to them until
// it is over.
type arena struct {
	chunks [][]byte
	next   int    // chunk to use after buf
	buf    []byte // what is left of the current chunk, as capacity
}

const arenaChunk = 1 << 20

// maxArena is how much memory an arena keeps for the next transaction.
const maxArena = 8 << 20

// reset makes the memory free again.
func (a *arena) reset() { a.next, a.buf = 0, nil }

// trim gives up what is more than an ordinary transaction needs, once bbolt does
// not refer to it any more.
func (a *arena) trim() {
	if len(a.chunks) > maxArena/arenaChunk {
		*a = arena{chunks: slices.Clone(a.chunks[:maxArena/arenaChunk])}
	}
}

// begin returns an empty slice with room for a row of n bytes, header set aside.
func (a *arena) begin(n int) []byte {
	n += rowHeader
	if n > cap(a.buf) {
		if n > arenaChunk/4 {
			return make([]byte, rowHeader, n)
		}
		if a.next == len(a.chunks) {
			a.chunks = append(a.chunks, make([]byte, 0, arenaChunk))
		}
		a.buf = a.chunks[a.next]
		a.next++
	}
	return a.buf[:rowHeader]
}

// end takes what begin returned and the caller has filled.
func (a *arena) end(row []byte) []byte {
	if cap(a.buf) == cap(row) { // not moved: it is the front of buf
		a.buf = row[len(row):len(row):cap(row)]
	}
	return slices.Clip(row)
}

// codec is a record that can be encoded.
type codec interface {
	msgp.Marshaler
	msgp.Sizer
}

// encode returns the row of a record.
func (a *arena) encode(key []byte, rec codec) ([]byte, error) {
	row, err := rec.MarshalMsg(a.begin(rec.Msgsize()))
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", rec, err)
	}
	row = a.end(row)
	seal(key, row)
	return row, nil
}

// raw returns the row of a body that is encoded already.
func (a *arena) raw(key, body []byte) []byte {
	row := a.end(append(a.begin(len(body)), body...))
	seal(key, row)
	return row
}
