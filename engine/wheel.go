package engine

import "iter"

const (
	stepsWhileBusy = 4   // timers moved ahead with each one that is handed out
	stepsWhileIdle = 512 // timers moved ahead by a Pop that hands nothing out: some 20 to 50 µs
)

// Wheel is a set of pending timers. P is what a timer carries: a small value without pointers, such as an ID, so that
// the garbage collector has nothing to follow; a P that holds pointers works, but what a finished timer pointed to is
// kept alive until its place is used again.
//
// A timer costs 28 bytes plus the size of P, and as much again during the last 0.1 to 0.2 seconds before it is due.
// Memory is kept for reuse at its high-water mark; an empty Wheel takes 25 KB.
//
// A Wheel is not safe for concurrent use. It holds at most about four billion timers; Set panics beyond.
//
// A timer is at any moment in one of two places, and only ever moves to the right as time passes:
//
//	  level 5 ──▶ … ──▶ level 1 ──▶ level 0 ──────────▶ front heap ──▶ Pop
//	 10.6 years          20 s        100 ms a slot       exact order
//	└──────────────── lists ─────────────────────┘
type Wheel[P any] struct {
	slab[P]
	levels
	front front[P]
	seq   uint64 // the number given to the timer armed last; orders equal due times
	n     int    // pending timers

	tick   uint64 // the tick of the latest time that Pop has seen
	behind bool   // the levels have not yet been brought to where tick wants them

	stepsBusy, stepsIdle int // the two constants, but for tests
}

// New returns an empty Wheel that stands at now. Any later use may name any other time; now only decides where timers
// are filed.
func New[P any](now int64) *Wheel[P] {
	w := &Wheel[P]{stepsBusy: stepsWhileBusy, stepsIdle: stepsWhileIdle}
	w.slab.init()
	w.place(now)
	return w
}

// place makes the levels start at now; they must be empty.
func (w *Wheel[P]) place(now int64) {
	w.clearLists()
	w.tick = tickOf(now)
	w.levels.init(w.tick)
	w.behind = false
	w.front.clear()
}

// Len returns the number of pending timers.
func (w *Wheel[P]) Len() int { return w.n }

// Set arms a timer for due and returns its handle. A due time in the past is handed out by the next Pop, in its order.
// O(1); O(log n) when due is within about 0.2 seconds, n being the number of timers in that stretch.
func (w *Wheel[P]) Set(due int64, p P) Handle {
	i := w.alloc()
	w.seq++
	*w.entry(i) = entry[P]{due: due, seq: w.seq, payload: p}
	w.n++
	w.file(i)
	return Handle{index: i, gen: w.link(i).gen}
}

// Move arms a pending timer anew, for due, and reports whether it was pending; if not, nothing happens. The handle and
// the payload stay. Among equal due times the timer takes its place as if it were set now. It costs as much as Set.
func (w *Wheel[P]) Move(h Handle, due int64) bool {
	if !w.live(h) {
		return false
	}
	w.detach(h.index)
	w.seq++
	e := w.entry(h.index)
	e.due, e.seq = due, w.seq
	w.file(h.index)
	w.tidy()
	return true
}

// Cancel disarms a timer and reports whether it was pending. A stale handle (of a timer that was handed out, canceled
// or dropped by Reset) is harmless, however often its place has been used again. O(1), amortized for a timer that is
// due within about 0.2 seconds.
func (w *Wheel[P]) Cancel(h Handle) bool {
	if !w.live(h) {
		return false
	}
	w.detach(h.index)
	w.release(h.index)
	w.n--
	w.tidy()
	return true
}

// Lookup returns what a pending timer carries and when it is due. ok is false if h is stale.
func (w *Wheel[P]) Lookup(h Handle) (p P, due int64, ok bool) {
	if !w.live(h) {
		return p, 0, false
	}
	e := w.entry(h.index)
	return e.payload, e.due, true
}

// Pop takes out the earliest timer that is due at or before now and returns what it carried and when it was due. ok is
// false if there is none; then Next says when to ask again.
//
// A now before an earlier one is harmless: what is due by the earlier clock and not by this one waits. The wheel itself
// does not turn back, so after a large step backward timers that are armed in the stretch already passed cost
// O(log n) until Rebase is called.
//
// The cost is O(log n), n being the number of timers due in the same 0.2 seconds, plus a bounded share of moving later
// timers ahead. A now that leaps forward costs in proportion to the timers it passes, not to the time.
func (w *Wheel[P]) Pop(now int64) (p P, due int64, ok bool) {
	if t := tickOf(now); t > w.tick {
		w.tick, w.behind = t, true
		if t >= w.safe {
			w.advance(t, 1, -1)
		}
	}
	w.dropStale()
	if w.front.len() == 0 || w.front.first().due > now {
		if w.behind {
			w.behind = !w.advance(w.tick, 2, w.stepsIdle)
		}
		return p, 0, false
	}
	it := w.front.pop()
	w.spend(it.index)
	w.n--
	if w.behind {
		w.behind = !w.advance(w.tick, 2, w.stepsBusy)
	}
	return it.payload, it.due, true
}

// Next returns the latest moment at which Pop must be called again. It may be earlier than the next due time, when
// timers have to be moved ahead, and is never later. A moment that is already past means at once. ok is false if
// nothing is pending: there is no need to call Pop before the next Set. O(1).
func (w *Wheel[P]) Next() (at int64, ok bool) {
	if w.n == 0 {
		return 0, false
	}
	w.dropStale()
	if w.behind {
		at, ok = nanosOf(w.tick), true
	} else {
		at, ok = w.nextMove()
	}
	if w.front.len() > 0 && (!ok || w.front.first().due < at) {
		at, ok = w.front.first().due, true
	}
	return at, ok
}

// All returns the pending timers in no particular order, each as its handle and what it carries. The Wheel may be used
// while it runs: a timer that is finished before its turn is left out, one that is set meanwhile may or may not show
// up. O(high-water mark of Len).
func (w *Wheel[P]) All() iter.Seq2[Handle, P] {
	return func(yield func(Handle, P) bool) {
		for i := uint32(firstIndex); i < w.fresh; i++ {
			w.collect() // the caller may have popped some
			if l := w.link(i); l.prev != isFree {
				if !yield(Handle{index: i, gen: l.gen}, w.entry(i).payload) {
					return
				}
			}
		}
	}
}

// Rebase files everything pending anew as seen from now, after the clock has been set back by more than a minute or so.
// It changes no due time, handle or order, only the cost of what follows. O(high-water mark of Len).
func (w *Wheel[P]) Rebase(now int64) {
	w.place(now)
	w.collect()
	for i := uint32(firstIndex); i < w.fresh; i++ {
		if w.link(i).prev != isFree {
			w.file(i)
		}
	}
}

// Reset drops all timers and makes the Wheel stand at now. Handles given out before are stale. Memory is kept.
// O(high-water mark of Len).
func (w *Wheel[P]) Reset(now int64) {
	w.place(now)
	w.collect()
	for i := uint32(firstIndex); i < w.fresh; i++ {
		if w.link(i).prev != isFree {
			w.release(i)
		}
	}
	w.n = 0
}
