package engine

const (
	frontBits  = 9
	frontChunk = 1 << frontBits
	frontMask  = frontChunk - 1

	// The first item sits here, so that the four children of a node begin at a multiple of four: they share cache lines
	// and a chunk. The places before it are not used.
	frontTop = 3
)

// An item stands for a timer in the front heap. It carries all that sorting and handing out need: the timer itself is
// cold by then, and a look at it would cost more than the sorting.
type item[P any] struct {
	due     int64
	seq     uint64
	payload P
	index   uint32
}

func (a *item[P]) before(b *item[P]) bool {
	return a.due < b.due || a.due == b.due && a.seq < b.seq
}

// front is a heap with four children to a node: half as deep as a binary one. It is kept in chunks, because growing one
// long array copies it, and that is a pause of many milliseconds at the worst moment.
//
// A timer that is canceled or moved leaves its item behind, stale: to find it would mean a write to each timer that an
// item passes.
type front[P any] struct {
	chunks []*[frontChunk]item[P]
	end    int // the items are at [frontTop, end)
	stale  int // items whose timer is not pending any more, or was moved
}

func (f *front[P]) clear() { f.end, f.stale = frontTop, 0 }

func (f *front[P]) len() int { return f.end - frontTop }

func (f *front[P]) at(i int) *item[P] { return &f.chunks[i>>frontBits][i&frontMask] }

func (f *front[P]) first() *item[P] { return f.at(frontTop) }

// push adds an item. O(log n), and O(1) on average for one that is among the later ones.
func (f *front[P]) push(it item[P]) {
	if f.end>>frontBits >= len(f.chunks) {
		f.chunks = append(f.chunks, new([frontChunk]item[P]))
	}
	i := f.end
	f.end++
	for i > frontTop {
		parent := f.at(i/4 + 2)
		if !it.before(parent) {
			break
		}
		*f.at(i) = *parent
		i = i/4 + 2
	}
	*f.at(i) = it
}

// pop removes the first item; there must be one.
func (f *front[P]) pop() item[P] {
	top := *f.first()
	f.end--
	if f.end > frontTop {
		f.down(frontTop, *f.at(f.end))
	}
	return top
}

// down puts it at or below place i, which is free.
func (f *front[P]) down(i int, it item[P]) {
	hole := f.at(i)
	for {
		i = 4 * (i - 2)
		if i >= f.end {
			break
		}
		four := (*[4]item[P])(f.chunks[i>>frontBits][i&frontMask:])
		least := 0
		for c := 1; c < min(4, f.end-i); c++ {
			if four[c].before(&four[least]) {
				least = c
			}
		}
		if !four[least].before(&it) {
			break
		}
		*hole = four[least]
		hole = &four[least]
		i += least
	}
	*hole = it
}

// build makes a heap of items in any order.
func (f *front[P]) build() {
	if f.len() < 2 {
		return
	}
	for i := (f.end-1)/4 + 2; i >= frontTop; i-- {
		f.down(i, *f.at(i))
	}
}

// isStale reports whether the timer of an item is gone, or was armed anew since.
func (w *Wheel[P]) isStale(it *item[P]) bool {
	return w.link(it.index).prev != inFront || w.entry(it.index).seq != it.seq
}

// dropStale makes sure that the first item, if any, stands for a timer.
func (w *Wheel[P]) dropStale() {
	for w.front.stale > 0 && w.front.len() > 0 && w.isStale(w.front.first()) {
		w.front.pop()
		w.front.stale--
	}
}

// tidy removes all stale items once they are more than half, which keeps canceling and moving O(1), amortized, and the
// heap within twice its live size.
func (w *Wheel[P]) tidy() {
	f := &w.front
	if f.stale <= 64 || f.stale <= f.len()/2 {
		return
	}
	end := frontTop
	for i := frontTop; i < f.end; i++ {
		if it := f.at(i); !w.isStale(it) {
			*f.at(end) = *it
			end++
		}
	}
	f.end, f.stale = end, 0
	f.build()
}
