package store

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/cespare/xxhash/v2"
	"github.com/tinylib/msgp/msgp"
)

// Digest hashes the whole state canonically: states that have applied the same
// entries have the same digest. Rows that wait to be flushed, and what is derived
// from live rows, do not count.
// Cost: encodes every live record.
func (s *State) Digest() uint64 {
	d := digester{h: xxhash.New()}
	meta := s.meta
	meta.Revivals = s.revivals
	d.add(&meta)
	for _, id := range slices.SortedFunc(maps.Keys(s.runs), RunID.Compare) {
		d.add(s.runs[id])
	}
	for _, id := range slices.Sorted(maps.Keys(s.schedules)) {
		d.add(s.Schedule(id))
	}
	for _, id := range slices.Sorted(maps.Keys(s.deleted)) {
		d.add(s.deleted[id])
	}
	for _, c := range s.Calendars() {
		d.add(c)
	}
	for _, q := range s.Queues() {
		if q.Limit != 0 || q.Paused { // a queue merely used is no configuration
			d.add(&q.Queue)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.sessions)) {
		d.add(s.sessions[id].record())
	}
	for _, key := range slices.Sorted(maps.Keys(s.uniques)) {
		d.add(s.uniques[key])
	}
	for _, name := range slices.Sorted(maps.Keys(s.tasks)) {
		d.bytes([]byte(name))
	}
	keys := slices.SortedFunc(maps.Keys(s.segments), func(a, b SegmentKey) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Time, b.Time), cmp.Compare(a.Part, b.Part))
	})
	for _, key := range keys {
		d.add(s.segments[key])
	}
	return d.h.Sum64()
}

type digester struct {
	h   *xxhash.Digest
	buf []byte
}

func (d *digester) add(rec msgp.Marshaler) {
	b, err := rec.MarshalMsg(d.buf[:0])
	if err != nil {
		panic("store: encode record: " + err.Error()) // no field of ours can fail
	}
	d.buf = b
	d.bytes(b)
}

// bytes hashes b behind its length, so that no two sequences of records hash
// alike.
func (d *digester) bytes(b []byte) {
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(len(b)))
	_, _ = d.h.Write(n[:]) // xxhash never fails
	_, _ = d.h.Write(b)
}
