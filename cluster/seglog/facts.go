package seglog

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
)

// facts is what the log must know that no segment says: which segments it consists of, where it begins, and the
// stable values. It never changes; a commit makes another.
type facts struct {
	first  uint64 // entries before it are deleted; 0 if nothing hides any
	floor  uint64 // an index that was acknowledged: a log that ends before it is damaged
	next   uint64 // id of the next segment to make
	live   []live // in the order of their entries
	values map[string][]byte
}

// live is a segment that exists.
type live struct {
	id    uint64
	limit uint64 // entries after it are deleted; 0 if none are
}

func (f *facts) clone() *facts {
	c := *f
	c.live = slices.Clone(f.live)
	c.values = maps.Clone(f.values)
	return &c
}

// drop takes segments out of the log.
func (f *facts) drop(segments []*segment) {
	f.live = slices.DeleteFunc(f.live, func(l live) bool {
		return slices.ContainsFunc(segments, func(s *segment) bool { return s.id == l.id })
	})
}

func (f *facts) limit(id, last uint64) {
	for i := range f.live {
		if f.live[i].id == id {
			f.live[i].limit = last
		}
	}
}

// encode writes the facts in a way that is the same for the same facts: all numbers are uvarints.
//
//	first | floor | next | count (id | limit)… | count (length key | length value)…
func (f *facts) encode() []byte {
	var b []byte
	for _, n := range []uint64{f.first, f.floor, f.next, uint64(len(f.live))} {
		b = binary.AppendUvarint(b, n)
	}
	for _, l := range f.live {
		b = binary.AppendUvarint(b, l.id)
		b = binary.AppendUvarint(b, l.limit)
	}
	b = binary.AppendUvarint(b, uint64(len(f.values)))
	for _, key := range slices.Sorted(maps.Keys(f.values)) {
		b = binary.AppendUvarint(b, uint64(len(key)))
		b = append(b, key...)
		b = binary.AppendUvarint(b, uint64(len(f.values[key])))
		b = append(b, f.values[key]...)
	}
	return b
}

var errFacts = errors.New("facts do not parse")

// decodeFacts reads what encode has written. The result shares nothing with b.
func decodeFacts(b []byte) (*facts, error) {
	r := reader{b: b}
	f := &facts{values: make(map[string][]byte)}
	f.first, f.floor, f.next = r.uvarint(), r.uvarint(), r.uvarint()
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		f.live = append(f.live, live{r.uvarint(), r.uvarint()})
	}
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		key := string(r.bytes(r.uvarint()))
		f.values[key] = slices.Clone(r.bytes(r.uvarint()))
	}
	if r.bad || len(r.b) > 0 {
		return nil, errFacts
	}
	return f, nil
}

// reader takes values off the front of b until one is not there: then it is bad, and all it returns is zero.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) fail() {
	r.b, r.bad = nil, true
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) byte() byte {
	if b := r.bytes(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

// bytes returns a part of b, nil if it is empty.
func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	if n == 0 {
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}
