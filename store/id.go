package store

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/tinylib/msgp/msgp"
)

// A RunID identifies a run for ever. It is a UUID of version 7: its first 48
// bits are milliseconds since the Unix epoch, so IDs sort by creation (for the
// runs of a schedule: by nominal time).
type RunID [16]byte

// ErrBadRunID is returned by [ParseRunID] for text that is not a UUIDv7.
var ErrBadRunID = errors.New("not a run ID")

// NewRunID builds the ID for the given time from 80 bits of entropy. The caller
// supplies the randomness, because this package has none.
func NewRunID(t time.Time, entropy [10]byte) RunID {
	var id RunID
	ms := uint64(t.UnixMilli())
	binary.BigEndian.PutUint16(id[0:], uint16(ms>>32))
	binary.BigEndian.PutUint32(id[2:], uint32(ms))
	copy(id[6:], entropy[:])
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id
}

// Entropy makes the entropy of an ID of random bits: first is what orders the IDs of
// a millisecond, of which 12 bits are kept.
func Entropy(first uint16, rest uint64) (e [10]byte) {
	binary.BigEndian.PutUint16(e[:], first)
	binary.BigEndian.PutUint64(e[2:], rest)
	return e
}

// ParseRunID parses the canonical 36-character text form.
// Errors: [ErrBadRunID].
func ParseRunID(s string) (RunID, error) {
	var id RunID
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return RunID{}, fmt.Errorf("%w: %.64q", ErrBadRunID, s)
	}
	compact := s[0:8] + s[9:13] + s[14:18] + s[19:23] + s[24:36]
	if _, err := hex.Decode(id[:], []byte(compact)); err != nil || !id.Valid() {
		return RunID{}, fmt.Errorf("%w: %.64q", ErrBadRunID, s)
	}
	return id, nil
}

// Valid reports whether id is a UUID of version 7.
func (id RunID) Valid() bool { return id[6]>>4 == 7 && id[8]>>6 == 2 }

// Time returns the time in the ID, to the millisecond.
func (id RunID) Time() time.Time { return time.UnixMilli(id.millis()) }

func (id RunID) millis() int64 {
	return int64(binary.BigEndian.Uint64(id[0:8]) >> 16)
}

// IsZero reports whether id is the zero RunID, which no run has.
func (id RunID) IsZero() bool { return id == RunID{} }

// Compare orders IDs by their bytes, which is by time first.
func (id RunID) Compare(other RunID) int {
	a, b := binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(other[:8])
	if a == b {
		a, b = binary.BigEndian.Uint64(id[8:]), binary.BigEndian.Uint64(other[8:])
	}
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// String returns the canonical 36-character text form.
func (id RunID) String() string {
	var b [36]byte
	hex.Encode(b[0:8], id[0:4])
	hex.Encode(b[9:13], id[4:6])
	hex.Encode(b[14:18], id[6:8])
	hex.Encode(b[19:23], id[8:10])
	hex.Encode(b[24:36], id[10:16])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}

// MarshalText implements [encoding.TextMarshaler].
func (id RunID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (id *RunID) UnmarshalText(text []byte) error {
	parsed, err := ParseRunID(string(text))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}

// MarshalMsg implements [msgp.Marshaler].
func (id RunID) MarshalMsg(b []byte) ([]byte, error) { return msgp.AppendBytes(b, id[:]), nil }

// UnmarshalMsg implements [msgp.Unmarshaler].
func (id *RunID) UnmarshalMsg(b []byte) ([]byte, error) { return msgp.ReadExactBytes(b, id[:]) }

// Msgsize implements [msgp.Sizer].
func (id RunID) Msgsize() int { return msgp.BytesPrefixSize + len(id) }
