package seglog

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/hashicorp/raft"
)

// An entry on disk; its index follows from its place in the frame:
//
//	type 1 | flags 1 | term uvarint | [seconds varint | nanoseconds uvarint] |
//	data length uvarint | extensions length uvarint | data | extensions
const entryStamped = 1 // flag: the time of appending is there

// appendEntry appends the encoded entry.
func appendEntry(b []byte, l *raft.Log) []byte {
	var flags byte
	if !l.AppendedAt.IsZero() {
		flags |= entryStamped
	}
	b = append(b, byte(l.Type), flags)
	b = binary.AppendUvarint(b, l.Term)
	if flags&entryStamped != 0 {
		b = binary.AppendVarint(b, l.AppendedAt.Unix())
		b = binary.AppendUvarint(b, uint64(l.AppendedAt.Nanosecond()))
	}
	b = binary.AppendUvarint(b, uint64(len(l.Data)))
	b = binary.AppendUvarint(b, uint64(len(l.Extensions)))
	b = append(b, l.Data...)
	return append(b, l.Extensions...)
}

// maxEntryOverhead is the most that appendEntry adds to data and extensions.
const maxEntryOverhead = 2 + 5*binary.MaxVarintLen64

var errEntry = errors.New("entry does not parse")

// decodeEntry reads the first entry of b into l, and returns the rest. l shares its data with b; its time is in UTC,
// and what is empty is nil.
func decodeEntry(b []byte, index uint64, l *raft.Log) ([]byte, error) {
	r := reader{b: b}
	*l = raft.Log{Index: index, Type: raft.LogType(r.byte())}
	flags := r.byte()
	l.Term = r.uvarint()
	if flags&entryStamped != 0 {
		seconds, nanos := r.varint(), r.uvarint()
		if nanos >= uint64(time.Second) {
			return nil, errEntry
		}
		l.AppendedAt = time.Unix(seconds, int64(nanos)).UTC()
	}
	data, extensions := r.uvarint(), r.uvarint()
	l.Data, l.Extensions = r.bytes(data), r.bytes(extensions)
	if r.bad || flags&^entryStamped != 0 {
		return nil, errEntry
	}
	return r.b, nil
}
