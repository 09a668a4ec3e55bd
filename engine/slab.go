package engine

// Handle names a timer of one Wheel. The zero Handle is valid and names none. Handles are values: they can be compared
// and kept in maps. A Handle must only be given to the Wheel it came from.
type Handle struct {
	index uint32
	gen   uint32
}

const (
	chunkBits = 11
	chunkSize = 1 << chunkBits
	chunkMask = chunkSize - 1

	// The indices of the first chunk are the heads of the slots' lists; timers come after them.
	firstIndex = chunkSize

	// Values of link.prev that are not the index of a neighbor.
	inFront  = 1<<32 - 1 // pending, in the front heap
	isFree   = 1<<32 - 2 // not pending; next is the next free place, 0 at the end
	maxIndex = isFree    // indices are below
)

// A link is the part of a timer that canceling needs: 12 bytes, kept apart from the rest, so that five of them share a
// cache line and the lists of ten million timers stay within reach of the processor's address cache.
//
// Lists are circular through their head, so unlinking never asks which list it is.
type link struct {
	gen  uint32 // counts the uses of this place; a handle is live while its gen is the same
	next uint32
	prev uint32
}

type entry[P any] struct {
	due     int64
	seq     uint64
	payload P
}

// slab is where timers live: chunks that never move and hold no pointers, found by index.
type slab[P any] struct {
	links   []*[chunkSize]link
	entries []*[chunkSize]entry[P] // entries[0] is nil: heads carry nothing
	free    uint32                 // the place to use next, 0 if none was given back
	fresh   uint32                 // the first index that was never used

	// Places to be given back before anybody looks. Memory is slow to answer for a place that was not touched for long,
	// but answers for many of them at once.
	spent  [64]uint32
	nSpent int
}

func (s *slab[P]) init() {
	s.links = append(s.links, new([chunkSize]link))
	s.entries = append(s.entries, nil)
	s.fresh = firstIndex
	heads := s.links[0]
	for i := range heads {
		heads[i].gen = 1 // no handle matches: only the zero Handle has an index this low
	}
}

// clearLists makes every list empty, without a look at what is in it.
func (s *slab[P]) clearLists() {
	heads := s.links[0]
	for i := range heads {
		heads[i].next, heads[i].prev = uint32(i), uint32(i)
	}
}

func (s *slab[P]) link(i uint32) *link { return &s.links[i>>chunkBits][i&chunkMask] }

func (s *slab[P]) entry(i uint32) *entry[P] { return &s.entries[i>>chunkBits][i&chunkMask] }

// take unlinks up to len(into) timers of a list and returns how many. It walks from both ends at once: each step waits for
// memory to name the next one, and two such waits take no longer than one.
func (s *slab[P]) take(head uint32, into []uint32) (n int) {
	h := s.link(head)
	a, b := h.next, h.prev
	for n < len(into) && a != head {
		into[n] = a
		n++
		if a == b {
			a, b = head, head
			break
		}
		a = s.link(a).next
		if n == len(into) {
			break
		}
		into[n] = b
		n++
		if a == b {
			a, b = head, head
			break
		}
		b = s.link(b).prev
	}
	h.next, h.prev = a, b
	s.link(a).prev, s.link(b).next = head, head
	return n
}

// live reports whether h names a pending timer. Of a handle from elsewhere it asks only that it does no damage.
func (s *slab[P]) live(h Handle) bool {
	s.collect()
	if h.index >= s.fresh {
		return false
	}
	l := s.link(h.index)
	return l.gen == h.gen && l.prev != isFree
}

// alloc returns a place that is in no list. Its gen is one that no earlier handle has.
func (s *slab[P]) alloc() uint32 {
	s.collect()
	if i := s.free; i != 0 {
		s.free = s.link(i).next
		return i
	}
	i := s.fresh
	if i&chunkMask == 0 {
		s.grow()
	}
	s.fresh++
	s.link(i).gen = 1
	return i
}

func (s *slab[P]) grow() {
	if s.fresh >= maxIndex&^chunkMask {
		panic("engine: too many timers")
	}
	s.links = append(s.links, new([chunkSize]link))
	s.entries = append(s.entries, new([chunkSize]entry[P]))
}

// release gives a place back; it must be in no list.
func (s *slab[P]) release(i uint32) {
	l := s.link(i)
	l.gen++
	l.next, l.prev = s.free, isFree
	s.free = i
}

// spend is release, a little later.
func (s *slab[P]) spend(i uint32) {
	if s.nSpent == len(s.spent) {
		s.collect()
	}
	s.spent[s.nSpent] = i
	s.nSpent++
}

// collect releases what was spent.
func (s *slab[P]) collect() {
	if s.nSpent > 0 {
		s.releaseSpent()
	}
}

func (s *slab[P]) releaseSpent() {
	for _, i := range s.spent[:s.nSpent] {
		s.release(i)
	}
	s.nSpent = 0
}
