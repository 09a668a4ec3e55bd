package memstore

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/escapement-go/scheduler/store"
)

// tickKey orders the rows of the ledger by schedule, then nominal time; what a tick
// was backfilled with is behind the outcome that it had.
type tickKey struct {
	schedule uint64
	to       int64
	late     uint8 // 1: backfilled
}

func keyOf(t *store.Tick) tickKey {
	k := tickKey{schedule: t.Schedule, to: t.To}
	if t.Backfill {
		k.late = 1
	}
	return k
}

func (k tickKey) compare(other tickKey) int {
	return cmp.Or(cmp.Compare(k.schedule, other.schedule), cmp.Compare(k.to, other.to), cmp.Compare(k.late, other.late))
}

// A group holds the rows of one kind of segments. In a period, which is an hour
// of final runs or a day of ticks, a key may be in several parts: then the newest
// part has the newest row.
type group[K comparable, V any] struct {
	compare  func(a, b K) int
	segments map[store.SegmentKey]*segment[K, V]
	rows     int
}

// segment holds rows by key, and the keys in order once somebody needs that.
type segment[K comparable, V any] struct {
	rows map[K]V
	keys []K
}

func newGroup[K comparable, V any](compare func(a, b K) int) group[K, V] {
	return group[K, V]{compare: compare, segments: make(map[store.SegmentKey]*segment[K, V])}
}

func (g *group[K, V]) put(at store.SegmentKey, key K, row V) {
	seg := g.segments[at]
	if seg == nil {
		seg = &segment[K, V]{rows: make(map[K]V)}
		g.segments[at] = seg
	}
	if _, ok := seg.rows[key]; !ok {
		g.rows++
		seg.keys = nil
	}
	seg.rows[key] = row
}

func (g *group[K, V]) drop(at store.SegmentKey) {
	if seg := g.segments[at]; seg != nil {
		g.rows -= len(seg.rows)
		delete(g.segments, at)
	}
}

// order returns the segment's keys in order. The caller may write to the group.
func (g *group[K, V]) order(seg *segment[K, V]) []K {
	if seg.keys == nil {
		seg.keys = slices.SortedFunc(maps.Keys(seg.rows), g.compare)
	}
	return seg.keys
}

// bound drops the oldest rows until at most limit are left.
func (g *group[K, V]) bound(limit int) {
	if g.rows <= limit {
		return
	}
	for _, at := range g.keys() {
		seg := g.segments[at]
		if g.rows-len(seg.rows) >= limit {
			g.drop(at)
			continue
		}
		keys := g.order(seg)
		n := g.rows - limit
		for _, key := range keys[:n] {
			delete(seg.rows, key)
		}
		seg.keys = keys[n:]
		g.rows -= n
		return
	}
}

// keys returns the segments' keys, oldest first.
func (g *group[K, V]) keys() []store.SegmentKey {
	return slices.SortedFunc(maps.Keys(g.segments), func(a, b store.SegmentKey) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Part, b.Part))
	})
}

// periods returns the periods that have segments, oldest first.
func (g *group[K, V]) periods() []uint32 {
	var all []uint32
	for _, at := range g.keys() {
		if n := len(all); n == 0 || all[n-1] != at.Time {
			all = append(all, at.Time)
		}
	}
	return all
}

// newest returns the row of a key in a period and its segment.
func (g *group[K, V]) newest(kind store.SegmentKind, period uint32, key K) (row V, at store.SegmentKey, ok bool) {
	for k, seg := range g.segments { // order is not seen: the highest part wins
		if k.Kind != kind || k.Time != period || ok && k.Part < at.Part {
			continue
		}
		if r, has := seg.rows[key]; has {
			row, at, ok = r, k, true
		}
	}
	return row, at, ok
}

// between returns the rows of a period with keys from low to before high, in
// order. The caller may write to the group.
func (g *group[K, V]) between(period uint32, low, high K) []V {
	newest := make(map[K]V)
	var keys []K
	for _, at := range g.keys() { // later parts overwrite
		if at.Time != period {
			continue
		}
		seg := g.segments[at]
		order := g.order(seg)
		first, _ := slices.BinarySearchFunc(order, low, g.compare)
		for _, key := range order[first:] {
			if g.compare(key, high) >= 0 {
				break
			}
			if _, has := newest[key]; !has {
				keys = append(keys, key)
			}
			newest[key] = seg.rows[key]
		}
	}
	slices.SortFunc(keys, g.compare)
	rows := make([]V, len(keys))
	for i, key := range keys {
		rows[i] = newest[key]
	}
	return rows
}

// all yields every row with its segment, in no order.
func (g *group[K, V]) all() iter.Seq2[store.SegmentKey, V] {
	return func(yield func(store.SegmentKey, V) bool) {
		for at, seg := range g.segments {
			for _, row := range seg.rows {
				if !yield(at, row) {
					return
				}
			}
		}
	}
}
