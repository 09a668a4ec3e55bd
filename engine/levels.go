package engine

import (
	"math"
	"math/bits"
)

// The shape of the wheel. A tick is 100 ms. Level 0 has 600 slots of one tick; a slot of level 1 is 200 ticks (20 s),
// and of each level above 64 times as much: 21 minutes, 23 hours, 61 days, 10.6 years. The highest one reaches past
// both ends of an int64.
//
// A level has at least three times the slots that one slot of the level above is emptied into. That slack lets a slot
// be emptied while the one before it is still running, a few timers at a time.
const (
	tickNanos  = 100_000_000
	levelCount = 6
	slots0     = 600
	slotsUp    = 256 // slots of each level above 0
	ratio0     = 200 // ticks to a slot of level 1
	ratioBits  = 6   // log2 of the slots of one level to a slot of the next, from level 1 up

	// The heads of level 0 begin at index 0, those of level 1 at headsUp.
	headsUp   = 640
	headCount = headsUp + (levelCount-1)*slotsUp

	// Ticks are counted from before the smallest int64, so that they are never negative; time 0 is the
	// beginning of a slot at every level.
	tickBias = 28 * (ratio0 << ((levelCount - 2) * ratioBits))
)

var _ [chunkSize - headCount]struct{} // the heads fit in the first chunk

// levels says which timers are where. Level l holds what is due in [edge[l], edge[l+1]), and the front heap what is due
// before edge[0]. An edge only grows, always to the end of a slot, and that slot is then drained: its timers are filed
// again, which takes them to a lower level or to the front.
type levels struct {
	edge     [levelCount]uint64 // in ticks
	draining [levelCount]bool   // the slot just below edge may still hold timers
	safe     uint64             // everything due before this tick is in the front heap

	occupied [headCount / 64]uint64 // one bit a head: its list is not empty
}

func (v *levels) init(tick uint64) {
	*v = levels{}
	for l := range levelCount {
		v.edge[l] = (slotNumber(l, tick) + 2) * slotTicks(l)
	}
	v.setSafe()
}

// tickOf returns the tick that a time belongs to.
func tickOf(ns int64) uint64 {
	t := ns / tickNanos
	if ns%tickNanos < 0 {
		t--
	}
	return uint64(t + tickBias)
}

// nanosOf returns the beginning of a tick, or the smallest time if it begins before that.
func nanosOf(tick uint64) int64 {
	t := int64(tick) - tickBias
	if t < math.MinInt64/tickNanos {
		return math.MinInt64
	}
	return t * tickNanos
}

// slotTicks returns how long a slot of level l is.
func slotTicks(l int) uint64 {
	if l == 0 {
		return 1
	}
	return ratio0 << ((l - 1) * ratioBits)
}

// slotNumber returns the number of the slot of level l that holds a tick; slots are numbered from tick 0.
func slotNumber(l int, tick uint64) uint64 {
	if l == 0 {
		return tick
	}
	return tick / ratio0 >> ((l - 1) * ratioBits)
}

// headOf returns the head of the list for the slot of level l with the given number.
func headOf(l int, slot uint64) uint32 {
	if l == 0 {
		return uint32(slot % slots0)
	}
	return uint32(headsUp + (l-1)*slotsUp + int(slot%slotsUp))
}

// firstOccupied returns the number of the first slot of level l, from edge on, that has timers.
func (v *levels) firstOccupied(l int) (slot uint64, ok bool) {
	slot = slotNumber(l, v.edge[l])
	first, count := headsUp+(l-1)*slotsUp, slotsUp
	if l == 0 {
		first, count = 0, slots0
	}
	at := int(headOf(l, slot))
	if i := v.firstBit(at, first+count); i >= 0 {
		return slot + uint64(i-at), true
	}
	if i := v.firstBit(first, at); i >= 0 {
		return slot + uint64(i-at+count), true
	}
	return 0, false
}

// firstBit returns the first occupied head in [from, to), or -1.
func (v *levels) firstBit(from, to int) int {
	for i := from &^ 63; i < to; i += 64 {
		word := v.occupied[i/64]
		if i < from {
			word &= ^uint64(0) << (from - i)
		}
		if word != 0 {
			if i += bits.TrailingZeros64(word); i < to {
				return i
			}
			return -1
		}
	}
	return -1
}

// nextMove returns when the first slot has to be drained: when the slot before it begins.
func (v *levels) nextMove() (at int64, ok bool) {
	first := uint64(math.MaxUint64)
	for l := range levelCount {
		if slot, ok := v.firstOccupied(l); ok {
			first = min(first, (slot-1)*slotTicks(l))
		}
	}
	if first == math.MaxUint64 {
		return 0, false
	}
	return nanosOf(first), true
}

func (v *levels) setSafe() {
	v.safe = math.MaxUint64
	for l := range levelCount {
		edge := v.edge[l]
		if v.draining[l] {
			edge -= slotTicks(l)
		}
		v.safe = min(v.safe, edge)
	}
}

// advance raises the edge of each level to the given number of slots after the beginning of the one that tick is in
// (1: what is up now, 2: and the slot after it), and drains what that passes. It files at most steps timers, any number
// if steps is negative, and reports whether it is done.
//
// Levels go from the lowest up, so that the room into which a slot is drained has been cleared.
func (w *Wheel[P]) advance(tick, ahead uint64, steps int) bool {
	defer w.setSafe()
	for l := range levelCount {
		goal := slotNumber(l, tick) + ahead
		for {
			if w.draining[l] {
				slot := slotNumber(l, w.edge[l]) - 1
				if slot >= goal {
					break // begun ahead of time; not needed yet
				}
				if steps = w.drain(headOf(l, slot), steps); steps == 0 {
					return false
				}
				w.draining[l] = false
			}
			slot, ok := w.firstOccupied(l)
			if !ok || slot >= goal {
				w.edge[l] = max(w.edge[l], goal*slotTicks(l))
				break
			}
			w.edge[l], w.draining[l] = (slot+1)*slotTicks(l), true
		}
	}
	return true
}

// drain files the timers of a list anew, which must take each to another list, until steps are used up or the list
// is empty. It returns the steps that are left; 0 means that it may have stopped early.
func (w *Wheel[P]) drain(head uint32, steps int) int {
	var batch [64]uint32
	for steps != 0 {
		limit := len(batch)
		if steps > 0 {
			limit = min(limit, steps)
		}
		n := w.take(head, batch[:limit])
		for _, i := range batch[:n] {
			w.file(i)
		}
		steps -= n
		if w.link(head).next == head {
			w.occupied[head/64] &^= 1 << (head % 64)
			break
		}
	}
	return steps
}

// file puts a timer that is in no list where its due time belongs.
func (w *Wheel[P]) file(i uint32) {
	e := w.entry(i)
	tick := tickOf(e.due)
	node := w.link(i)
	if tick < w.edge[0] {
		node.prev = inFront
		w.front.push(item[P]{due: e.due, seq: e.seq, payload: e.payload, index: i})
		return
	}
	l := 0
	for l < levelCount-1 && tick >= w.edge[l+1] {
		l++
	}
	head := headOf(l, slotNumber(l, tick))
	w.occupied[head/64] |= 1 << (head % 64)
	h := w.link(head)
	node.next, node.prev = h.next, head
	w.link(h.next).prev = i
	h.next = i
}

// detach takes a pending timer out of its list. In the front heap it leaves an item behind, which is stale.
func (w *Wheel[P]) detach(i uint32) {
	node := w.link(i)
	if node.prev == inFront {
		w.front.stale++
		return
	}
	w.link(node.prev).next = node.next
	w.link(node.next).prev = node.prev
	if node.prev == node.next && node.prev < firstIndex {
		head := node.prev
		w.occupied[head/64] &^= 1 << (head % 64)
	}
}
